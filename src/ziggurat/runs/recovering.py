"""Recovering: how often a run has lost its process, when it is driven alone or given up, and what it is then."""

from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import LeaseHeld, ProcessLost
from ziggurat.core.path import parent_of
from ziggurat.journal.entries import Decided, Ended, Intent, Opened, Result, Returned
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import UNFINISHED, Claim
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.recorded import recorded_steps
from ziggurat.messages.usage import tally_of


class Recovering(Struct, frozen=True):
    claim: Claim
    attempts: int  # in the last one, the worker drives no other run
    isolate: Callable[[Callable[[], bool]], Awaitable[None]]  # waits until it drives no other, or the run has an answer

    async def attempt(self, journal: LocalJournal) -> tuple[int, ProcessLost | None, bool]:
        """Return how often in a row the run's process was lost, the error if it is given up, and if it is alone now."""
        # A process may be lost through another run, so a run is given up only if it was lost while it was alone.
        if journal.ended is not None and journal.ended.stop not in UNFINISHED:
            raise LeaseHeld("another process has finished the run")
        losses, alone = int(self.claim.lost), False
        for entry in reversed(journal.entries):
            if isinstance(entry, Opened):
                losses, alone = losses + entry.losses, entry.alone
                break
            if isinstance(entry, (Result, Returned, Decided, Ended)):
                break
        if losses >= self.attempts and alone:
            return losses, _given_up(journal, losses), True
        if not losses or losses < self.attempts - 1:
            return losses, None, False
        count = len(journal.entries)
        await self.isolate(lambda: any(isinstance(each, (Result, Returned)) for each in journal.entries[count:]))
        return losses, None, True


def _given_up(journal: LocalJournal, losses: int) -> ProcessLost:
    """Return the error of a run whose process was lost too often, with the place to which it had come."""
    where = "at its beginning"
    for entry in journal.entries:
        record = journal.find(entry.path)
        if isinstance(entry, Intent) and record is not None and record.result is None:
            where = f"in the call {entry.path} ({entry.name})"
        elif isinstance(entry, Result) and not where.startswith("in"):
            where = f"after the call {entry.path} ({entry.name})"
    return ProcessLost(f"the run's process was lost {losses} times in a row {where}; resume the run to try again")


def recorded_run(journal: LocalJournal, path: str, empty: AgentRun) -> AgentRun:
    """Return an empty run of the agent at a path with its complete steps on record, and what they have cost."""
    request, steps = recorded_steps(journal.entries, path)
    if request is None:  # it was not entered
        return empty
    said = [*request]
    for step in steps:
        step.replies = step.replies[-1:]  # those before were refused, with words that are not on record
        said += step.messages() if step.complete else step.before
    record, tally = journal.find(path), tally_of(journal)
    began = 0.0 if record is None or record.entered is None else record.entered.elapsed
    return replace(
        empty,
        messages=Transcript.of(*said),
        start=len(request),
        usage=tally.usage,
        usage_by_model=tally.by_model,
        model_calls=tally.model_calls,
        tool_calls=tally.tool_calls,
        steps=sum(step.complete for step in steps) or sum(parent_of(each) == path for each in journal.paths()),
        seconds=max(0.0, journal.watch.elapsed - began),
    )
