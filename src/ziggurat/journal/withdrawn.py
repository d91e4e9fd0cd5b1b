"""The failures that ended a run, which are withdrawn when it goes on, so that their calls are made again."""

from collections.abc import Iterable, Mapping, Sequence

from ziggurat.core.codec import as_type
from ziggurat.core.path import is_alternative, name_at, parent_of
from ziggurat.journal.entries import Ended, Entered, Failure, Intent, JournalEntry, Pending, Record, Result


def flows_in(entries: Iterable[JournalEntry]) -> dict[str, Mapping[object, object]]:
    """Return how the composites are set up that are flows, programs that call one thing after the other, by path."""
    entered = ((entry.path, as_type(entry.setup, object)) for entry in entries if isinstance(entry, Entered))
    return {path: setup for path, setup in entered if isinstance(setup, dict) and "flow" in setup}


def _handled_failures(entries: Sequence[JournalEntry]) -> set[int]:
    """Return the ids of the failures after which a flow around them has made other calls, so that it knows of them."""
    setups = flows_in(entries)
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
    return "graph" not in setup or name_at(call) in str(setup.get("tolerant", "")).split(", ")


_BROKEN_OFF = frozenset({"Failed", "Denied", "BudgetExceeded", "Timeout"})
"""The stops after which the call that ended the run is made again when the run is resumed."""


def withdraw_failures(entries: Sequence[JournalEntry], records: Mapping[str, Record]) -> None:
    """Withdraw the failures that ended a run, if any did, so that their calls are made again."""
    end = entries[-1] if entries else None
    if not isinstance(end, Ended) or end.stop not in _BROKEN_OFF:
        return
    answered = {path for path, record in records.items() if record.result is not None}
    for path in answered:
        if not parent_of(path):
            records[path].withdraw()  # the agent's own, such as a run that stopped at a budget: it goes on now
    failed = {path: record for path, record in records.items() if record.outcomes and record.result is None}
    decided = {parent_of(path) for path in answered if is_alternative(path)}
    handled = _handled_failures(entries) if failed else set()
    for path, record in failed.items():
        if id(record.outcomes[-1]) in handled:
            continue
        at = path
        while at and parent_of(at) not in answered and not (is_alternative(at) and parent_of(at) in decided):
            at = parent_of(at)
        if not at:
            record.withdraw()  # with a result before the failure, if its run failed because of it
