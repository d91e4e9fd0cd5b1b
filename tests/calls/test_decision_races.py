"""An approver decides while somebody else does: one decision stands, and whoever made the other is told."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.hard_cases.support import ByTurn
from tests.samples import sample
from ziggurat import Agent, Approvals, tool
from ziggurat.calls.call_decision import recorded_form
from ziggurat.core import InboxItem
from ziggurat.core.entries import Decided
from ziggurat.core.store import run_log
from ziggurat.errors import AlreadyDecided
from ziggurat.messages import tool_call
from ziggurat.messages.agent import AgentRun, Approve, Decision, Deny, Modify, PendingItem, decision_of
from ziggurat.middleware import Redaction
from ziggurat.runs.stored import StoredRuns
from ziggurat.stores import LocalLogs
from ziggurat.testing import ScriptedModel


class Interleaved(LocalLogs):
    """A store that lets something happen before or after one of the operations that follow a moment."""

    def __init__(self, moment: int, act: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.left = moment
        self.armed = False
        self._act = act

    async def pass_moment(self) -> None:
        """Count a moment, and act if its time has come; what is done meanwhile is not counted."""
        if not self.armed:
            return
        self.left -= 1
        if self.left < 0:
            self.armed = False
            await self._act()

    async def append(self, *arguments: Any, **named: Any) -> None:
        await self.pass_moment()
        await super().append(*arguments, **named)
        await self.pass_moment()

    async def post(self, log: str, key: str, data: bytes) -> bool:
        await self.pass_moment()
        new = await super().post(log, key, data)
        await self.pass_moment()
        return new

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        await self.pass_moment()
        items = await super().inbox(log, after)
        await self.pass_moment()
        return items


DECISIONS: list[Decision] = [Approve(), Deny("no"), Modify({"amount": 3})]
"""What a person decides elsewhere; the approver changes the amount to 1."""


def _paying(paid: list[int], store: LocalLogs, **settings: Any) -> Agent:
    @tool
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    return Agent(ByTurn(tool_call("pay", amount=5), "done"), tools=[pay], store=store, name="desk", **settings)


async def _race(moment: int, decision: Decision) -> tuple[AgentRun, list[int], str, list[Decided]]:
    """Let somebody decide at a moment after the approver has; return the run, what it did, and what they were told."""
    told: list[str] = []
    asked: list[PendingItem] = []

    async def decide_elsewhere() -> None:
        try:
            await elsewhere.decide("r", {asked[0].id: decision})
            told.append("accepted")
        except AlreadyDecided:
            told.append("refused")

    async def approver(item: PendingItem) -> Decision:
        asked.append(item)
        store.armed = True
        return Modify({"amount": 1})

    paid: list[int] = []
    store = Interleaved(moment, decide_elsewhere)
    elsewhere = _paying(paid, store, approvals=Approvals("pay"))
    run = await _paying(paid, store, approvals=Approvals("pay", approver=approver)).run("go", run_id="r")
    entries = (await StoredRuns(store).read("r")).entries
    return run, paid, told[0] if told else "", [each for each in entries if isinstance(each, Decided)]


OUTCOMES: dict[str, tuple[tuple[str, ...], list[int]]] = {
    "Approve": (("paid 5",), [5]),
    "Deny": (("denied: no",), []),
    "Modify": (("paid 3",), [3]),
}


@pytest.mark.parametrize("decision", DECISIONS, ids=repr)
async def test_of_two_decisions_one_stands_and_the_other_is_refused(decision: Decision) -> None:
    outcomes = []
    for moment in range(12):
        run, paid, told, decided = await _race(moment, decision)
        outcomes.append(told)
        assert len(decided) == 1
        if told == "accepted":
            assert (run.observations, paid) == OUTCOMES[type(decision).__name__]
            assert decision_of(decided[0].decision) == recorded_form(decision)
        else:
            assert (run.observations, paid) == (("paid 1",), [1])
    assert {"accepted", "refused"} <= {*outcomes}
    assert outcomes == sorted(outcomes, key=("accepted", "refused", "").index), "nothing happens after the end"


async def test_an_equal_decision_is_accepted_whoever_was_first() -> None:
    for moment in range(12):
        run, paid, told, decided = await _race(moment, Modify({"amount": 1}))
        assert (run.observations, paid, len(decided)) == (("paid 1",), [1], 1)
        assert told in ("accepted", "")


@pytest.mark.parametrize("moment", sample(range(12), 5))
async def test_a_run_that_breaks_off_while_it_is_decided_on_pays_once(moment: int) -> None:
    paid: list[int] = []

    async def break_off() -> None:
        task.cancel()

    def approver(item: PendingItem) -> Decision:
        store.armed = True
        return Modify({"amount": 1})

    store = Interleaved(moment, break_off)
    first = _paying(paid, store, approvals=Approvals("pay", approver=approver))
    task = asyncio.ensure_future(first.run("go", run_id="r"))
    await asyncio.wait([task])
    store.armed = False
    again = Approvals("pay", approver=lambda item: Modify({"amount": 2}))
    run = await _paying(paid, store, approvals=again).resume("r")
    assert run.text == "done"
    assert paid in ([1], [2])
    assert run.observations == (f"paid {paid[0]}",)


@pytest.mark.parametrize("decision", [Modify({"amount": 7777}), Deny("not 7777"), Approve()], ids=repr)
async def test_what_is_masked_on_record_is_in_no_inbox(decision: Decision) -> None:
    paid: list[int] = []
    mask = Redaction("7777")
    logs = LocalLogs()
    agent = _paying(paid, logs, approvals=Approvals("pay", approver=lambda item: decision), middleware=[mask])
    await agent.run("go", run_id="r")
    assert b"7777" not in b"".join(item.data for item in await logs.inbox(run_log("r")))
    assert paid == {"Modify": [7777], "Deny": [], "Approve": [5]}[type(decision).__name__]


async def test_what_is_masked_on_record_is_in_no_inbox_when_somebody_else_decides() -> None:
    paid: list[int] = []
    mask = Redaction("7777")

    asked: asyncio.Future[PendingItem] = asyncio.get_running_loop().create_future()
    answered: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

    async def approver(item: PendingItem) -> Decision:
        asked.set_result(item)
        return await answered

    logs = LocalLogs()
    agent = _paying(paid, logs, approvals=Approvals("pay", approver=approver), middleware=[mask])
    handle = agent.start("go", run_id="r")
    elsewhere = _paying(paid, logs, approvals=Approvals("pay"), middleware=[mask])
    for _ in range(2):  # in the same way, which is harmless
        await elsewhere.decide("r", {(await asked).id: Deny("not 7777")})
    assert b"7777" not in b"".join(item.data for item in await logs.inbox(run_log("r")))
    answered.set_result(Approve())
    assert (await handle.result()).observations == ("denied: not [REDACTED]",)
    assert paid == []


async def test_many_decisions_of_an_approver_are_each_used_once() -> None:
    calls = [tool_call("pay", amount=5) for _ in range(20)]
    paid: list[int] = []

    @tool
    def pay(amount: int) -> str:
        paid.append(amount)
        return f"paid {amount}"

    logs = LocalLogs()
    numbers = iter(range(20))
    approvals = Approvals("pay", approver=lambda item: Modify({"amount": next(numbers)}))
    agent = Agent(ScriptedModel(*calls, "done"), tools=[pay], approvals=approvals, store=logs, max_steps=30)
    await agent.run("go", run_id="r")
    decided = [each for each in (await StoredRuns(logs).read("r")).entries if isinstance(each, Decided)]
    assert [each.posted for each in decided] == [item.number for item in await logs.inbox(run_log("r"))]
    assert paid == list(range(20))
