"""Places in the record of a run: where a response begins, as its id says, and how far the run had come there."""

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.path import escaped, is_tool_call
from ziggurat.journal.entries import Ended, JournalEntry, Pending, Result
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.recorded import recorded_steps
from ziggurat.messages.usage import Usage, tally_of
from ziggurat.serve.requests import check_id

_PREFIX = "resp_"

_ITEM = re.compile(r"(?:msg|rs|fc|mcp)_(.+)_\d+")


class ResponseId(Struct, frozen=True):
    run_id: str
    after: int = 0

    @classmethod
    def read(cls, text: str) -> "ResponseId":
        run_id, mark, after = text.removeprefix(_PREFIX).partition("~")
        check_id(run_id)
        if mark and not (after.isascii() and after.isdigit() and len(after) < 10):
            raise ConfigurationError(f"the id of a response is {_PREFIX} and the id of a run, got {text!r:.150}")
        return cls(run_id, int(after or 0))

    @classmethod
    def of_item(cls, item_id: str) -> "ResponseId | None":
        """Return the response of whose output an item is, by the item's id; None if it says none."""
        match = _ITEM.fullmatch(item_id)
        try:
            return None if match is None else cls.read(match[1])
        except ConfigurationError:
            return None

    @property
    def suffix(self) -> str:
        """What comes after ``resp_``, and in the ids of the items."""
        return f"{self.run_id}~{self.after}" if self.after else self.run_id

    def __str__(self) -> str:
        return _PREFIX + self.suffix


class RunPlace(Struct, frozen=True):
    """A place in the record of a run, after an entry; by default the beginning."""

    entries: int = 0
    steps: int = 0
    results: frozenset[str] = frozenset()
    asked: Mapping[str, str] = {}
    usage: Usage = Usage()

    @classmethod
    def after(cls, record: bytes, agent: str) -> "RunPlace":
        """Return the place after a record, or the beginning of one, of a run of an agent."""
        journal = LocalJournal.load(record)
        entries = journal.entries
        steps = recorded_steps(entries, escaped(agent))[1]
        results = frozenset(each.path for each in entries if isinstance(each, Result) and is_tool_call(each.path))
        answered = sum(bool(step.replies) for step in steps)
        return cls(len(entries), answered, results, asked_calls(entries), tally_of(journal).usage)

    def since(self, usage: Usage) -> Usage:
        """Return what a run has used since this place, from what it has used in all."""
        return Usage(
            _less(usage.input, self.usage.input),
            _less(usage.output, self.usage.output),
            _less(usage.cache_read, self.usage.cache_read),
            _less(usage.cache_write, self.usage.cache_write),
            _less(usage.reasoning, self.usage.reasoning),
            usage.requests - self.usage.requests,
            "",
            usage.estimated,
        )


def _less(all_of_it: int | None, before: int | None) -> int | None:
    return None if all_of_it is None else all_of_it - (before or 0)


def asked_calls(entries: Sequence[JournalEntry]) -> dict[str, str]:
    """Return the ids of the items on which a run has waited, by the paths of their calls."""
    numbers = [number for entry in entries if isinstance(entry, Ended) for number in entry.waits or ()]
    items = [entry for number in numbers if isinstance(entry := entries[number - 1], Pending)]
    return {item.path: item.id for item in items}
