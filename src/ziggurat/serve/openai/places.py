"""Where a response begins in the record of its run, as its id says, and what the run had used there."""

import re

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.journal.journal import LocalJournal
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


def usage_at(record: bytes) -> Usage:
    """Return what a run had used at the end of its record, or of the beginning of one."""
    return tally_of(LocalJournal.load(record)).usage


def used_since(usage: Usage, before: Usage) -> Usage:
    """Return what a run has used since it had used `before`."""
    return Usage(
        _less(usage.input, before.input),
        _less(usage.output, before.output),
        _less(usage.cache_read, before.cache_read),
        _less(usage.cache_write, before.cache_write),
        _less(usage.reasoning, before.reasoning),
        usage.requests - before.requests,
        "",
        usage.estimated,
    )


def _less(all_of_it: int | None, before: int | None) -> int | None:
    return None if all_of_it is None else all_of_it - (before or 0)
