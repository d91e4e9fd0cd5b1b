"""Decide on what waits in a run, whoever drives it, and use what was decided meanwhile when it is continued."""

__all__ = ["decide", "hold_posted"]

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ziggurat.calls.decisions import decision_entries
from ziggurat.core.clock import Clock
from ziggurat.core.codec import digest, encode
from ziggurat.core.entries import Decided
from ziggurat.core.errors import AlreadyDecided, ConfigurationError, LeaseHeld
from ziggurat.core.journal import LocalJournal
from ziggurat.messages.agent import Decision
from ziggurat.messages.posted import PostedDecisions
from ziggurat.runs.options import Environment
from ziggurat.runs.runs import Runs

if TYPE_CHECKING:
    from ziggurat.calls.inbox import Inbox

logger: logging.Logger = logging.getLogger("ziggurat")


async def decide(
    runs: Runs,
    run_id: str,
    decisions: Mapping[str, Decision],
    check: Callable[[LocalJournal], list[Decided]],
    clock: Clock,
) -> None:
    """Record decisions on what waits in a run, without driving it; if nothing waits any more, it is due.

    While somebody drives it, they are posted, and used when it is continued.

    Args:
        runs: Where it is kept.
        run_id: Its id.
        decisions: By the id of each pending item.
        check: Returns the entries that record them, for a record; raises if one does not fit.
        clock: The clock.

    Raises:
        RunNotFound: there is no such run.
        ConfigurationError: a decision does not fit; none is recorded.
        AlreadyDecided: a call was decided in another way before.
    """
    try:
        if runs.is_in_progress(run_id):
            raise LeaseHeld(f"this process drives the run {run_id!r}")
        journal = await runs.take(run_id, Environment(clock=clock))
    except LeaseHeld:
        if check(await runs.read(run_id)):
            await runs.post(run_id, f"decide {digest(decisions)}", encode(PostedDecisions({**decisions})))
        return
    try:
        decided = check(journal)
        for entry in decided[:-1]:
            journal.hold(entry)
        if decided:
            written, ended = journal.write(decided[-1]), journal.still_suspended()
            await (written if ended is None else journal.write(ended))
    finally:
        await runs.leave(run_id, journal)


async def hold_posted(journal: LocalJournal, inbox: "Inbox", now: float, agent: object) -> None:
    """Take in what was posted to a run that is continued; decisions are recorded together with what follows."""
    await inbox.read()
    for number, decisions in inbox.take_decisions().items():
        try:
            for entry in decision_entries(journal, decisions, now, agent):
                journal.hold(replace(entry, posted=number))
        except (ConfigurationError, AlreadyDecided) as error:  # it fitted when it was sent
            logger.warning("the decisions that were posted as number %d are not used: %s", number, error)
