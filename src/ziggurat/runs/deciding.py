"""Decide on what waits in a run, whoever drives it, and use what was decided meanwhile when it is continued."""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from ziggurat.calls.check import kept_form
from ziggurat.calls.decisions import check_decided, decision_entries
from ziggurat.calls.inbox import Inbox
from ziggurat.core.clock import Clock
from ziggurat.core.errors import LeaseHeld, ZigguratError
from ziggurat.core.log import logger
from ziggurat.journal.entries import Decided, Ended
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import Decision, decision_of
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
        return await post_decided(inbox, decision_entries(journal, decisions, now, agent, in_time=True), journal, now)

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
    """Return the entry with which a run that was not driven goes on waiting; None if it waits for nothing more.

    It is due at once: what depends on a decision goes on, whatever else waits.
    """
    waits, end = journal.waits.numbered(), journal.last_end
    if not waits:
        return None
    return Ended("", "Suspended", 0.0 if end is None else end.elapsed, due=now, waits=tuple(waits))


async def post_decided(inbox: Inbox, decided: Sequence[Decided], journal: LocalJournal, now: float) -> list[Decided]:
    """Post decisions to the inbox of their run, which keeps the first one on each wait; return them with its number.

    The driver does so too, before it records them. If one is refused, none of them stands.

    Raises:
        AlreadyDecided: another decision on one of the waits was posted since they were checked.
        MailboxFull: a decision is too large.
    """
    posted: list[Decided] = []
    try:
        for entry in decided:
            decision = decision_of(kept_form(entry, journal).decision)
            stands, number = await inbox.post_decision(entry.id, decision, now)
            check_decided(entry.id, stands, decision)
            posted.append(replace(entry, posted=number))
    except ZigguratError:
        await inbox.withdraw()
        raise
    return posted


async def hold_posted(journal: LocalJournal, inbox: Inbox, now: float, agent: object) -> None:
    """Take in what was posted to a run that is continued; decisions are recorded together with what follows."""
    await inbox.read()
    used = {entry.posted for entry in journal.entries if isinstance(entry, Decided)}
    for number, posted in inbox.take_decisions().items():
        if number in used:  # a call that waits once more needs another decision
            continue
        try:
            for entry in decision_entries(journal, posted.decisions, posted.at or now, agent, in_time=True):
                journal.hold(replace(entry, posted=number))
        except ZigguratError as error:  # it fitted when it was sent
            inbox.spoil(number)
            logger.warning("the decisions that were posted as number %d are not used: %s", number, error)
