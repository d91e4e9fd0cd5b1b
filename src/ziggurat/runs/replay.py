"""Journals that replay a recorded run: nothing is called, or only its tools, or only its models."""

import re
from collections.abc import Sequence

from msgspec.structs import replace

from ziggurat.core.path import parent_of, upwards
from ziggurat.journal.entries import Ended, Entered, Intent, JournalEntry, Returned, Tried, flows_in
from ziggurat.journal.journal import LocalJournal
from ziggurat.runs.options import Live

_STEP = re.compile(r"(^|/)step-\d+(/|$)")


class PartialJournal(LocalJournal):
    """The record of a run whose tools, or whose models, are called again, and nothing else."""

    __slots__ = ("_entered", "_flows", "_made", "live")

    def __init__(self, whole: Sequence[JournalEntry], live: Live, *, strict: bool) -> None:
        super().__init__("replay", strict=strict)
        self.strict = strict
        self.replaying = False  # composites are not compared as a whole, only the calls in them
        self.live = live
        self.compared_with = list(whole)  # those of calls that are made again, too
        self._entered = {entry.path for entry in whole if isinstance(entry, Entered)}
        self._flows = flows_in(whole)
        self._made = {path for entered in self._entered for path in upwards(entered)}
        entries = whole[:-1] if isinstance(whole[-1], Ended) else whole
        self.take_over(each for entry in entries if (each := self._kept(entry)) is not None)

    def missing(self, path: str, what: str, /) -> None:
        """Raise for a call that is not recorded, unless it is one that is made again."""
        if not self.is_live(path) and path not in self._made:
            super().missing(path, what)

    def is_live(self, path: str) -> bool:
        """Return whether the call at a path is made again."""
        return (self.live == "tools") == (_is_of_tool(path) or self._is_of_flow(path))

    def _is_of_flow(self, path: str) -> bool:
        """Return whether a call is made by a flow, not by an agent within it."""
        above = (each for each in upwards(parent_of(path)) if each in self._entered)
        return next(above, "") in self._flows

    def _kept(self, entry: JournalEntry) -> JournalEntry | None:
        """Return an entry unless it answers a call that is made again, or a composite."""
        if isinstance(entry, Ended):
            return replace(entry, waits=None)  # which counts the entries of the whole record
        answers = not isinstance(entry, Tried | Intent | Returned)
        return entry if answers or (entry.path not in self._made and not self.is_live(entry.path)) else None


def _is_of_tool(path: str) -> bool:
    """Return whether a path is a tool call or a call made directly by a tool, not by an agent within it."""
    _, tool, within = path.rpartition("/tool-")
    return bool(tool) and _STEP.search(within) is None


def replay_journal(entries: Sequence[JournalEntry], live: Live, *, strict: bool) -> LocalJournal:
    """Return a journal that replays a record."""
    journal: LocalJournal
    if live != "nothing":
        journal = PartialJournal(entries, live, strict=strict)
    else:
        journal = LocalJournal("replay", strict=strict)
        journal.strict = strict
        journal.take_over(entries)
    journal.incomplete = not isinstance(entries[-1], Ended)
    return journal
