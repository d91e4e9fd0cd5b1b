"""Decisions on what waits in a record: they are checked, and become entries of it."""

from collections.abc import Mapping
from contextlib import suppress

from msgspec.structs import replace

from ziggurat.core.errors import AlreadyDecided, ConfigurationError, InvalidArguments
from ziggurat.core.path import next_id
from ziggurat.journal.entries import Decided, Opened
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import Answer, Decision, Modify, decision_of, recorded_item
from ziggurat.messages.arguments import canonical
from ziggurat.tools.decisions import as_recorded, expired, fitting, normalize_at


def check_decided(item_id: str, before: Decision, decision: Decision) -> None:
    """Check that a call that was decided before is decided again in the same way; both are as they are recorded."""
    same = before == decision
    if isinstance(before, Modify) and isinstance(decision, Modify):
        with suppress(InvalidArguments):
            same = canonical(before.text) == canonical(decision.text)
    if not same:
        raise AlreadyDecided(f"the call {item_id!r} was decided already: {before!r}; that decision stands")


def _was_decided(journal: LocalJournal, item_id: str, decision: Decision) -> bool:
    for entry in journal.entries:
        if isinstance(entry, Decided) and entry.id == item_id:
            if isinstance(decision, Answer):
                decision = as_recorded(decision)
            if not isinstance(decision, Modify):  # of which nothing is masked on record
                decision = decision_of(journal.screened(replace(entry, decision=decision)).decision)
            check_decided(item_id, decision_of(entry.decision), decision)
            return True
    return False


def decision_entries(
    journal: LocalJournal, decisions: Mapping[str, Decision], now: float, agent: object, *, in_time: bool = False
) -> list[Decided]:
    """Return the entries that record decisions; one that is late is a denial, or with `in_time` is refused."""
    entries: list[Decided] = []
    for item_id, decision in decisions.items():
        waits = journal.index.waits()
        pending = next(map(waits.get, journal.index.waits_of((item_id,))), None)
        if pending is None and _was_decided(journal, item_id, decision):
            continue
        if pending is None:
            waiting = ", ".join(f"{each.id} for {each.name}" for each in waits.values()) or "nothing"
            opened, ended = journal.entries[0], journal.ended
            if isinstance(opened, Opened) and ended is not None and ended.stop == "Continued":
                waiting += f", as the run continues as {next_id(opened.run_id)!r}: resume that"
            raise ConfigurationError(
                f"no call with the id {item_id!r} waits for a decision (waiting: {waiting}); the ids are those of "
                "run.pending: {item.id: Approve() for item in run.pending}"
            )
        if not pending.asks:
            raise ConfigurationError(
                f"{pending.path} waits by itself ({pending.reason}): there is nothing to decide; an event is sent with "
                "send()"
            )
        item = recorded_item(pending, journal.find(pending.path))
        late = expired(item, now)
        if in_time and late is not None:
            raise AlreadyDecided(f"the decision on {item.path} comes too late to count: {late!r} stands")
        try:  # it would fail only after it was recorded, when it can no longer be changed
            decision = late or fitting(item, decision, normalize_at(agent, item.path))
        except InvalidArguments as error:
            what = f"the answer to {item.reason!r}" if item.stage == "question" else f"the decision on {item.call.name}"
            kind = "question" if item.stage == "question" else "call"
            raise ConfigurationError(
                f"{what} does not fit: {error}; nothing was recorded, and the {kind} still waits"
            ) from error
        entry = journal.screened(Decided(item.path, item_id, decision))
        if isinstance(decision, (Modify, Answer)) and decision_of(entry.decision) != decision:
            raise ConfigurationError(
                f"the decision on {item.call.name} cannot be carried out: a middleware masks its values on record; "
                "nothing was recorded, and the call still waits: decide without them, or let an approver in the "
                "process of the run decide"
            )
        entries.append(entry)
    return entries
