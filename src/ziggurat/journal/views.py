"""Composites: calls of a record that consist of other calls, where those begin, and what each call itself has cost.

And which outcomes answer no call any more, because the run that they ended goes on.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from ziggurat.core.codec import Raw, as_type, decode
from ziggurat.core.context import METER, Context
from ziggurat.core.path import is_beneath, is_model_call, parent_of
from ziggurat.journal.entries import (
    Ended,
    Entered,
    Failure,
    Intent,
    JournalEntry,
    Pending,
    Record,
    Result,
    Tried,
    Unanswered,
)

R = TypeVar("R")


def known(spent: Iterable[object]) -> tuple[object, ...]:
    """Return the usage of tries without those whose usage is unknown, which are represented by their errors."""
    return tuple(cost for cost in spent if not isinstance(cost, BaseException))


def count(ctx: Context, name: str, spent: Iterable[object], charge: bool = False) -> None:
    """Add what a call has used to the sum of the run; with `charge`, to the budgets too: nothing was reserved there."""
    meter = ctx.scope.get(METER)
    if meter is not None:
        for usage in spent:
            meter.add(usage, name, charge)


class _WithUsage(Struct):
    usage: Raw = Raw(b"null")


def _cost_of(tried: Tried) -> list[object]:
    """Return the usage in a try: of failed and lost ones within it, and of its value."""
    if not isinstance(tried, Result):
        return [*tried.spent]
    if isinstance(tried.value, Raw):
        is_object = bytes(memoryview(tried.value)).startswith(b"{")
        raw = decode(tried.value, _WithUsage).usage if is_object else None
        usage = None if raw is None or bytes(memoryview(raw)) == b"null" else raw
    else:
        usage = getattr(tried.value, "usage", None)
    return [*tried.spent] if usage is None else [*tried.spent, usage]


class Composites:
    """The composites (agents, teams) in the entries of a run; entries added later are looked at when it is asked."""

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

    def own_cost(self, tried: Tried) -> list[object]:
        """Return the usage in a try of a call, with that of lost ones; a composite has none, its parts have it."""
        path = tried.path
        composite = path in self and (path in self._entered or not is_model_call(path))
        return [] if composite else _cost_of(tried)

    def tries_below(self, path: str, until: JournalEntry | None) -> Iterator[Tried]:
        """Yield the tries of the calls below a path that were recorded before an entry."""
        self._look()
        if path not in self._around:
            return
        for entry in islice(self._entries, self._first[path], None):
            if entry is until:
                return
            if isinstance(entry, (Result, Failure, Unanswered)) and entry.path != path and is_beneath(entry.path, path):
                yield entry

    def _look(self) -> None:
        first, above = self._first, self._above
        for at in range(self._looked_at, len(self._entries)):
            entry = self._entries[at]
            path = entry.path
            while path and path not in first:
                first[path] = at
                path = parent_of(path)
            if isinstance(entry, (Result, Failure, Unanswered)):
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
    return frozenset(path for path, setup in _setups_in(entries) if "flow" in setup)


def _setups_in(entries: Iterable[JournalEntry]) -> Iterator[tuple[str, Mapping[object, object]]]:
    """Yield the paths of composites, and what is recorded of how each is set up."""
    for entry in entries:
        if isinstance(entry, Entered) and isinstance(setup := as_type(entry.setup, object), dict):
            yield entry.path, setup


def _handled_failures(entries: Sequence[JournalEntry]) -> set[int]:
    """Return the ids of the failures after which a flow around them has made other calls, so that it knows of them."""
    setups = {path: setup for path, setup in _setups_in(entries) if "flow" in setup}
    handled: set[int] = set()
    if not setups:
        return handled
    went_on: dict[str, bool] = {}  # for each call that has failed as a whole, whether its flow went on then
    later: dict[str, set[str]] = {}  # of each flow, up to two of the calls in it that come later
    for entry in reversed(entries):
        if not isinstance(entry, (Entered, Failure, Intent, Pending, Result)):
            continue
        call, flow = entry.path, parent_of(entry.path)
        while flow:
            if flow in setups:
                calls = later.setdefault(flow, set())
                if isinstance(entry, Failure):
                    if call == entry.path:
                        went_on[call] = bool(calls - {call})
                    if went_on.get(call, bool(calls - {call})) and _may_go_on(setups[flow], call, entry):
                        handled.add(id(entry))
                if len(calls) < 2:
                    calls.add(call)
            call, flow = flow, parent_of(flow)
    return handled


def _may_go_on(setup: Mapping[object, object], call: str, failure: Failure) -> bool:
    """Return whether a flow that is set up so may go on after a failure in a call: a team, plan or graph not always."""
    if failure.mistake:
        return setup.keys() <= {"flow", "input"}
    node = call.rpartition("/")[2].partition("#")[0]
    return "graph" not in setup or node in str(setup.get("tolerant", "")).split(", ")


_BROKEN_OFF = frozenset({"Failed", "Denied", "BudgetExceeded", "Timeout"})
"""The stops after which the call that ended the run is made again when the run is resumed."""


def withdraw_failures(entries: Sequence[JournalEntry], records: dict[str, Record]) -> None:
    """If the run ended with a failure, withdraw the failures that ended it, so that their calls are made again."""
    last = entries[-1] if entries else None
    if not isinstance(last, Ended) or last.stop not in _BROKEN_OFF:
        return
    answered = {path for path, record in records.items() if record.result is not None}
    for path in answered:
        if not parent_of(path):
            records[path].withdraw()  # the agent's own, such as a run that stopped at a budget: it goes on now
    failed = {path: record for path, record in records.items() if record.has_failed}
    decided = {parent_of(path) for path in answered if _is_alternative(path)}
    handled = _handled_failures(entries) if failed else set()
    for path, record in failed.items():
        if id(record.outcomes[-1]) in handled:
            continue
        at = path
        while at and parent_of(at) not in answered and not (_is_alternative(at) and parent_of(at) in decided):
            at = parent_of(at)
        if not at:
            record.withdraw()  # with a result before the failure, if its run failed because of it


def _is_alternative(path: str) -> bool:
    """Return whether `path` is that of one of a combinator's alternatives, such as ``alt-1``."""
    return path.rpartition("/")[2].startswith("alt-")
