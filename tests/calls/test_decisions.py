"""Decisions are checked against the parameters of a tool, masked on record, and stand once, whoever decides first."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tests.hard_cases.support import ByTurn
from tests.samples import pairs, rows, sample
from tests.stores.places import STORES, new_store
from ziggurat import (
    Agent,
    AgentRun,
    Approve,
    ConfigurationError,
    Context,
    Deny,
    Modify,
    Runnable,
    Toolbox,
    stack,
    tool,
    user,
)
from ziggurat.agents import Answer, Approvals, Decision, PendingItem
from ziggurat.calls.tool_call import act
from ziggurat.core.codec import encode
from ziggurat.core.context import JOURNAL, Scope
from ziggurat.errors import AlreadyDecided, InvalidArguments
from ziggurat.flows import ask
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Decided, Intent, JournalEntry, Pending
from ziggurat.journal.store import InboxItem, run_log
from ziggurat.layers import retry, timeout
from ziggurat.messages import ModelRequest, ToolCall, Transcript, stops, tool_call
from ziggurat.messages.agent import Stage, decision_of
from ziggurat.middleware import Redaction
from ziggurat.runs.stored import StoredRuns
from ziggurat.stops import Suspended
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel
from ziggurat.tools import FunctionTool
from ziggurat.tools.approval import APPROVALS
from ziggurat.tools.decisions import fitting, normalize_at


@tool(approval=True)
def pay(to: str, amount: int = 5) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


MODEL = ScriptedModel(always="done")
CLERK = Agent(MODEL, tools=[stack(pay, timeout(seconds=9))], name="clerk").layered(retry(attempts=2))
DESK = Agent(MODEL, tools=[pay, stack(CLERK.as_tool(name="ask"), timeout(seconds=9))], name="desk")
TOP, BENEATH = "desk/step-1/tool-1:pay", "desk/step-2/tool-2:ask/clerk/step-1/tool-1:pay"


def misfit(agent: Runnable, path: str, name: str, changed: Modify) -> str | None:
    stage: Stage = "tool" if "/tool-" in path else "model"
    try:
        fitting(PendingItem("id", path, ToolCall("1", name, "{}"), stage=stage), changed, normalize_at(agent, path))
    except InvalidArguments as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("agent", "path"), pairs([DESK, DESK.layered(retry(attempts=2)), Runnable(DESK, name="desk")], [TOP, BENEATH])
)
def test_arguments_are_held_to_the_tool_through_layers_and_agents(agent: Runnable, path: str) -> None:
    assert misfit(agent, path, "pay", Modify('{"to": "ada", "amount": 7}')) is None
    assert "amount" in str(misfit(agent, path, "pay", Modify('{"to": "ada", "amount": "all"}')))
    assert str(misfit(agent, path, "pay", Modify('{"amount": 7}'))).startswith("to:")


@pytest.mark.parametrize("path", ["desk/step-1/tool-1:unknown", "desk/step-1/tool-1:pay/helper/step-1/tool-1:send"])
def test_of_a_tool_that_cannot_be_seen_only_the_form_is_looked_at(path: str) -> None:
    assert misfit(DESK, path, "send", Modify('{"anything": 1}')) is None
    assert "JSON" in str(misfit(DESK, path, "send", Modify("3")))


def test_an_agent_as_a_tool_takes_one_text() -> None:
    assert misfit(DESK, "desk/step-1/tool-1:ask", "ask", Modify('{"input": "Pay Ben"}')) is None
    assert "input" in str(misfit(DESK, "desk/step-1/tool-1:ask", "ask", Modify('{"input": 3}')))


def test_of_a_question_to_a_model_the_whole_request_is_given() -> None:
    request = encode(ModelRequest(Transcript.of(user("hello")))).decode()
    assert misfit(DESK, "desk/step-1/model", "scripted", Modify(request)) is None
    assert "scripted" in str(misfit(DESK, "desk/step-1/model", "scripted", Modify('{"messages": 3}')))


def in_functions(depth: int) -> tuple[Runnable, list[str]]:
    """Return an agent whose function runs another, to a depth where a tool waits, and what that tool has done."""
    done: list[str] = []

    @tool(approval=True)
    def send(to: str, amount: int = 5) -> str:
        done.append(f"{amount} to {to}")
        return done[-1]

    agent = Agent(ScriptedModel(tool_call("send", to="ada"), "end"), tools=[send])
    for level in range(depth):
        asks = tool(partial(_ask, agent), name="ask", description="Ask.")  # type: ignore[call-overload]
        at = new_store() if level == depth - 1 else None
        agent = Agent(ScriptedModel(tool_call("ask"), "end"), tools=[asks], name=f"outer-{level}", store=at)
    return agent, done


async def _ask(agent: Runnable) -> str:
    return (await agent.run("go")).text


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("change", "depth", "place"),
    rows(['{"to": "ada", "amount": "all"}', '{"amount": 7}', '{"to": "ada", "more": 1}'], [1, 2], STORES),
    indirect=["place"],
)
async def test_what_does_not_fit_a_tool_of_an_agent_in_a_function_is_not_recorded(depth: int, change: str) -> None:
    agent, done = in_functions(depth)
    run = await agent.run("go", run_id="r")
    [item], record = run.pending, await agent.record("r")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="send"):
            await agent.resume("r", {item.id: Modify(change)})
        assert await agent.record("r") == record
    run = await agent.resume("r", {item.id: Modify('{"to": "ben"}')})
    assert (run.stop, done) == (stops.Completed(), ["5 to ben"])


@pytest.mark.usefixtures("place")
async def test_of_such_a_decision_that_was_recorded_by_itself_the_model_learns_why() -> None:
    agent, done = in_functions(1)
    run = await agent.run("go", run_id="r")
    await agent.attach("r").decide({run.pending[0].id: Modify('{"amount": 7}')})
    run = await agent.resume("r")
    assert (run.stop, done) == (stops.Completed(), [])
    assert b"to: missing" in await agent.record("r")


SECRET = "hunter2x"


def _pay(paid: list[str], approval: bool = True) -> FunctionTool:
    @tool(approval=approval)
    async def pay(to: str) -> str:
        paid.append(to)
        return "paid"

    return pay


def _asking(answers: list[str]) -> FunctionTool:
    @tool
    async def find_out(what: str) -> str:
        answers.append(await ask(f"What is {what}?"))
        return "found"

    return find_out


DECISIONS: list[tuple[str, Decision, list[str] | None]] = [
    ("pay", Modify({"to": SECRET}), None),
    ("pay", Modify({"to": f"to {SECRET}!"}), None),
    ("pay", Modify({"to": "ann"}), ["ann"]),
    ("pay", Approve(), ["bob"]),
    ("pay", Deny(f"not with {SECRET}"), []),
    ("find_out", Answer(SECRET), None),
    ("find_out", Answer("Ur"), ["Ur"]),
    ("find_out", Deny(SECRET), []),
]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("case", "first", "place"), rows(DECISIONS, ["decide", "resume"], STORES), indirect=["place"])
async def test_a_masked_decision_is_carried_out_or_refused(
    case: tuple[str, Decision, list[str] | None], first: str
) -> None:
    """With None for what is done, the decision is refused, and the call waits as before."""
    name, decision, done = case
    acts: list[str] = []
    called = tool_call("pay", to="bob") if name == "pay" else tool_call("find_out", what="it")
    agent = Agent(
        ScriptedModel(called, "done"),
        tools=[_pay(acts), _asking(acts)],
        middleware=[Redaction(SECRET)],
        store=new_store(),
    )

    async def decide(item_id: str) -> Any:
        if first == "resume":
            return await agent.resume("r", {item_id: decision})
        await agent.attach("r").decide({item_id: decision})
        return await agent.resume("r")

    waiting = await agent.run("go", run_id="r")
    item_id = waiting.pending[0].id
    if done is not None:
        assert (await decide(item_id)).text == "done"
        assert (await agent.resume("r", {item_id: decision})).text == "done"  # given again, it is the same one
        assert acts == done
        return
    with pytest.raises(ConfigurationError, match="masks"):
        await decide(item_id)
    again = await agent.resume("r")
    assert isinstance(again.stop, Suspended)
    assert [item.id for item in again.pending] == [item_id]
    assert acts == []


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("until", [Pending, Decided, Intent])
def test_a_masked_change_is_not_run_after_a_crash(until: type[JournalEntry], masked: bool) -> None:
    """The process is lost after the entry `until` is on record."""
    approvals = Approvals(approver=lambda item: Modify({"to": SECRET}))
    redaction = Redaction(SECRET if masked else "another")

    def called(entries: list[JournalEntry], approvals: Approvals) -> tuple[list[JournalEntry], list[str], str | None]:
        paid: list[str] = []
        journal = LocalJournal("resume")
        journal.take_over(entries)
        journal.screen("", redaction.on_record)
        ctx = Context("run", scope=Scope({JOURNAL: journal, APPROVALS: (approvals,)}))
        result = asyncio.run(act(Toolbox([_pay(paid)]), ToolCall("1", "pay", '{"to":"bob"}'), ctx))
        return list(journal.entries), paid, result.error

    entries, paid, error = called([], approvals)
    assert (paid, error) == ([SECRET], None)
    last = next(number for number, entry in enumerate(entries, 1) if isinstance(entry, until))
    _, paid, error = called(entries[:last], approvals)
    if masked and until is not Pending:
        assert (paid, error) == ([], "interrupted")
    else:
        assert (paid, error) == ([SECRET], None)


class Interleaved(InMemoryStore):
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


ELSEWHERE: list[Decision] = [Approve(), Deny("no"), Modify({"amount": 3})]
"""What a person decides elsewhere; the approver changes the amount to 1."""


def _paying(paid: list[int], store: InMemoryStore, **settings: Any) -> Agent:
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
            await elsewhere.attach("r").decide({asked[0].id: decision})
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


@pytest.mark.parametrize("decision", ELSEWHERE, ids=repr)
async def test_of_two_decisions_one_stands_and_the_other_is_refused(decision: Decision) -> None:
    outcomes = []
    for moment in range(12):
        run, paid, told, decided = await _race(moment, decision)
        outcomes.append(told)
        assert len(decided) == 1
        if told == "accepted":
            assert (run.observations, paid) == OUTCOMES[type(decision).__name__]
            recorded = Modify(decision.text) if isinstance(decision, Modify) else decision
            assert decision_of(decided[0].decision) == recorded
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
    logs = InMemoryStore()
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

    logs = InMemoryStore()
    agent = _paying(paid, logs, approvals=Approvals("pay", approver=approver), middleware=[mask])
    handle = agent.start("go", run_id="r")
    elsewhere = _paying(paid, logs, approvals=Approvals("pay"), middleware=[mask])
    for _ in range(2):  # in the same way, which is harmless
        await elsewhere.attach("r").decide({(await asked).id: Deny("not 7777")})
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

    logs = InMemoryStore()
    numbers = iter(range(20))
    approvals = Approvals("pay", approver=lambda item: Modify({"amount": next(numbers)}))
    agent = Agent(ScriptedModel(*calls, "done"), tools=[pay], approvals=approvals, store=logs, max_steps=30)
    await agent.run("go", run_id="r")
    decided = [each for each in (await StoredRuns(logs).read("r")).entries if isinstance(each, Decided)]
    assert [each.posted for each in decided] == [item.number for item in await logs.inbox(run_log("r"))]
    assert paid == list(range(20))
