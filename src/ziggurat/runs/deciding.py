"""Deciding: what waits in a run is decided on from outside, whoever drives it."""

from collections import OrderedDict
from collections.abc import Callable

from ziggurat.calls.decisions import decision_entries
from ziggurat.calls.enter import AgentService
from ziggurat.calls.inbox import Inbox
from ziggurat.core.clock import Clock
from ziggurat.core.errors import AlreadyDecided, LeaseHeld
from ziggurat.journal.entries import Ended, Pending
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import OPEN
from ziggurat.messages.agent import Decisions
from ziggurat.runs.options import Environment
from ziggurat.runs.runs import Runs

KEPT = 4
"""How many of the records on which decisions were made last are kept, so that the next one reads only what is new."""


class Deciding:
    """Decides on what waits in the runs of one agent."""

    def __init__(self, runs: Runs, agent: AgentService, prepare: Callable[[LocalJournal, str], object]) -> None:
        self._runs = runs
        self._agent = agent
        self._prepare = prepare  # refuses a record that is not of this agent, and has its entries screened
        self._kept: OrderedDict[str, Inbox] = OrderedDict()  # those of the records, by run

    async def decide(self, run_id: str, decisions: Decisions, clock: Clock) -> None:
        """Decide on what waits in a run, without driving it; if nobody does, it is recorded, and the run is due."""
        run_id = await self._waiting_run(run_id, decisions)
        try:
            if self._runs.is_in_progress(run_id):
                raise LeaseHeld(f"this process drives the run {run_id!r}")
            kept = self._kept.pop(run_id, None)
            known = None if kept is None else kept.journal
            taking = self._runs.take(run_id, Environment(clock=clock), known=known)
            journal = await self._runs.begin(run_id, taking)
        except LeaseHeld:  # whoever drives the run takes them from its inbox
            inbox = self._inbox(run_id, await self._runs.read(run_id))
            await inbox.decide(decisions, clock.now(), self._agent, in_time=True)
            self._runs.posted(run_id)
            return
        try:
            inbox = kept if kept is not None and journal is known else self._inbox(run_id, journal)
            await self._check_goes_on(inbox, decisions, clock.now())
            decided = await inbox.decide(decisions, clock.now(), self._agent, in_time=True)
            # All in one write, with the new end: with a part of them the run would go on as if the rest were undecided.
            for entry in decided[:-1]:
                journal.append(entry, hold=True)
            if decided:
                written, end = journal.write(decided[-1]), journal.last_end
                if end is not None and journal.index.waits():  # due at once: what depends on a decision goes on
                    written = journal.write(Ended("", "Suspended", end.elapsed, due=clock.now(), still=True))
                await written
        finally:
            await self._runs.leave(run_id, journal)
        self._keep(run_id, inbox)

    async def _check_goes_on(self, inbox: Inbox, decisions: Decisions, now: float) -> None:
        """Refuse decisions that are not on record already if the run has ended, or abandons the calls that wait."""
        await inbox.read()
        end = inbox.journal.ended
        if end is not None and end.stop not in OPEN:
            why = f"the run has ended ({end.stop}); resume(run_id, decisions) goes on with it, and with the call"
        elif inbox.redirects:
            why = "the run was redirected, and abandons the call when it goes on"
        else:
            return
        for entry in decision_entries(inbox.journal, decisions, now, self._agent, in_time=True):
            raise AlreadyDecided(f"the decision on {entry.path} comes too late, and was not recorded: {why}")

    async def _waiting_run(self, run_id: str, decisions: Decisions) -> str:
        """Return the id of the run that waits, or was decided on, of a chain that continued as new."""
        while (info := await self._runs.known(run_id)).status == "Continued":
            # To decide once more on what was decided here has no effect, whatever goes on by now.
            entries = (await self._runs.read(run_id)).entries
            if any(isinstance(entry, Pending) and entry.id in decisions for entry in entries):
                break
            run_id = info.next_id
        return run_id

    def _inbox(self, run_id: str, journal: LocalJournal) -> Inbox:
        self._prepare(journal, run_id)
        return Inbox(self._runs, run_id, journal)

    def _keep(self, run_id: str, inbox: Inbox) -> None:
        if inbox.journal.stable == len(inbox.journal.entries):
            self._kept[run_id] = inbox
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
