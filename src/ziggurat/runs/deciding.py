"""Decide on what waits in a run, whoever drives it."""

from collections.abc import Callable, Mapping

from ziggurat.calls.decisions import decision_entries, hold_posted, post_decided
from ziggurat.calls.inbox import Inbox
from ziggurat.core.clock import Clock
from ziggurat.core.errors import LeaseHeld
from ziggurat.journal.entries import Decided, Ended
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import Decision
from ziggurat.runs.options import Environment
from ziggurat.runs.runs import Runs


async def decide(
    runs: Runs,
    run_id: str,
    decisions: Mapping[str, Decision],
    check: Callable[[LocalJournal], None],
    agent: object,
    clock: Clock,
) -> None:
    """Decide on what waits in a run, without driving it; if nobody does, it is recorded, and the run is due then."""

    async def post(journal: LocalJournal) -> list[Decided]:
        check(journal)
        now, inbox = clock.now(), Inbox(runs, run_id, journal, lambda *steering: False)
        await hold_posted(journal, inbox, now, agent)
        return await post_decided(inbox, decision_entries(journal, decisions, now, agent, in_time=True), now)

    try:
        if runs.is_in_progress(run_id):
            raise LeaseHeld(f"this process drives the run {run_id!r}")
        journal = await runs.take(run_id, Environment(clock=clock))
    except LeaseHeld:
        await post(await runs.read(run_id))
        runs.posted(run_id)
        return
    try:
        decided = await post(journal)
        for entry in decided[:-1]:
            journal.hold(entry)
        if decided:
            written, ended = journal.write(decided[-1]), _still_suspended(journal, clock.now())
            await (written if ended is None else journal.write(ended))
    finally:
        await runs.leave(run_id, journal)


def _still_suspended(journal: LocalJournal, now: float) -> Ended | None:
    """Return the entry with which a run that was not driven goes on waiting; None if it waits for nothing more."""
    waits, end = journal.waits.numbered(), journal.last_end
    if not waits:
        return None
    # It is due at once: what depends on a decision goes on, whatever else waits.
    return Ended("", "Suspended", 0.0 if end is None else end.elapsed, due=now, waits=tuple(waits))
