"""Composites: calls of a record that consist of other calls, where those begin, and what each call itself has cost.

Some tries answer nothing and have a cost: failures that ended a run which was continued, and calls that were cancelled.
"""

__all__ = ["Composites", "flows_in", "lost_tries", "withdraw"]

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct

from ziggurat.core.codec import Raw, as_type, decode
from ziggurat.core.entries import Entered, Failure, Intent, JournalEntry, LostCall, Outcome, Pending, Record, Result
from ziggurat.core.errors import ServiceError
from ziggurat.core.path import is_beneath, is_model_call, parent_of


class _WithUsage(Struct):
    """Decodes only the usage of a recorded value."""

    usage: Raw = Raw(b"null")


def _cost_of(outcome: Outcome) -> list[object]:
    """Return the usage in an outcome: of failed and lost tries, and of its value."""
    if isinstance(outcome, Failure):
        return [*outcome.spent]
    if isinstance(outcome.value, Raw):
        is_object = bytes(memoryview(outcome.value)).startswith(b"{")
        raw = decode(outcome.value, _WithUsage).usage if is_object else None
        usage = None if raw is None or bytes(memoryview(raw)) == b"null" else raw
    else:
        usage = getattr(outcome.value, "usage", None)
    return [*outcome.spent] if usage is None else [*outcome.spent, usage]


class Composites:
    """The composites (agents, teams) in the entries of a run; entries added later are looked at when it is asked.

    A journal makes one when it is first needed, as most runs never ask.
    """

    __slots__ = ("_above", "_around", "_entered", "_entries", "_first", "_looked_at")

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self._entries = entries
        self._looked_at = 0  # the number of entries seen
        self._entered: set[str] = set()  # the paths of composites
        self._above: set[str] = set()  # the paths of composites, and of all calls around them
        self._around: set[str] = set()  # the paths of calls that others were made in
        self._first: dict[str, int] = {}  # the index of the first entry at or below each path

    def __contains__(self, path: str) -> bool:
        """Return whether a composite was entered at or below `path`."""
        self._look()
        return path in self._above

    def own_cost(self, outcome: Outcome) -> list[object]:
        """Return the usage in the outcome of a call, with that of lost tries; a composite has none, its parts have it.

        The hooks of a model call are its parts, but it has its own usage besides.
        """
        path = outcome.path
        composite = path in self and (path in self._entered or not is_model_call(path))
        return [] if composite else _cost_of(outcome)

    def outcomes_below(self, path: str, until: JournalEntry | None) -> Iterator[Outcome]:
        """Yield the outcomes of the calls below a path that were recorded before an entry."""
        self._look()
        if path not in self._around:
            return
        for entry in islice(self._entries, self._first[path], None):
            if entry is until:
                return
            if isinstance(entry, (Result, Failure)) and entry.path != path and is_beneath(entry.path, path):
                yield entry

    def _look(self) -> None:
        first, above = self._first, self._above
        for at in range(self._looked_at, len(self._entries)):
            entry = self._entries[at]
            path = entry.path
            while path and path not in first:
                first[path] = at
                path = parent_of(path)
            if isinstance(entry, (Result, Failure)):
                path = parent_of(entry.path)
                while path and path not in self._around:
                    self._around.add(path)
                    path = parent_of(path)
            if isinstance(entry, Entered):
                path = entry.path
                self._entered.add(path)
                while path and path not in above:
                    above.add(path)
                    path = parent_of(path)
        self._looked_at = len(self._entries)


def flows_in(entries: Iterable[JournalEntry]) -> frozenset[str]:
    """Return the paths of the composites that are flows: programs that call one thing after the other."""
    return frozenset(
        entry.path
        for entry in entries
        if isinstance(entry, Entered) and isinstance(setup := as_type(entry.setup, object), dict) and "flow" in setup
    )


def _handled_failures(entries: Sequence[JournalEntry]) -> set[int]:
    """Return the ids of the failures after which a flow around them has made other calls, so that it knows of them."""
    flows = flows_in(entries)
    handled: set[int] = set()
    if not flows:
        return handled
    later: dict[str, set[str]] = {}  # of each flow, up to two of the calls in it that come later
    for entry in reversed(entries):
        if not isinstance(entry, (Entered, Failure, Intent, Pending, Result)):
            continue
        call, flow = entry.path, parent_of(entry.path)
        while flow:
            if flow in flows:
                calls = later.setdefault(flow, set())
                if isinstance(entry, Failure) and calls - {call}:
                    handled.add(id(entry))
                if len(calls) < 2:
                    calls.add(call)
            call, flow = flow, parent_of(flow)
    return handled


def withdraw(entries: Sequence[JournalEntry], records: Iterable[Record]) -> list[Outcome]:
    """Remove the failures that ended a run from the records of its calls, so that these are made again; return them.

    A failure did not end the run if a call above it has an answer, if another alternative answered instead, or if
    a flow has made other calls after it.

    Args:
        entries: Those of the run.
        records: Those of its calls.
    """
    withdrawn: list[Outcome] = []
    failed: list[Record] = []
    for record in records:
        if record.result is not None and not parent_of(record.result.path):
            record.outcomes.clear()  # the agent's own, such as a run that stopped at a budget: it goes on now
        elif record.has_failed:
            failed.append(record)
    if not failed:
        return withdrawn
    answered = {entry.path for entry in entries if isinstance(entry, Result)}
    decided = {parent_of(path) for path in answered if _is_alternative(path)}
    handled = _handled_failures(entries)
    for record in failed:
        if id(record.outcomes[-1]) in handled:
            continue
        at = record.outcomes[-1].path
        while at and parent_of(at) not in answered and not (_is_alternative(at) and parent_of(at) in decided):
            at = parent_of(at)
        while not at and record.has_failed:
            withdrawn.append(record.outcomes.pop())
            if record.result is not None:  # the failure of a call that had a result, so that its run failed
                withdrawn.append(record.outcomes.pop())
    return withdrawn


def _is_alternative(path: str) -> bool:
    """Return whether `path` is that of one of a combinator's alternatives, such as ``alt-1``."""
    return path.rpartition("/")[2].startswith("alt-")


def lost_tries(lost: Iterable[LostCall]) -> list[Outcome]:
    """Return calls that were cancelled as tries that have failed."""
    return [Failure(each.path, each.name, None, ServiceError("cancelled"), (each.usage,)) for each in lost]
