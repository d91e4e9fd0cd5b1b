"""Approval rules and the gate of tool calls: which rule wins, who decides, and only the approved call is executed."""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.calls.approval_races import EVIL, KINDS, World, evil, race
from tests.samples import amount, pairs, rows
from tests.stores.places import STORES, new_store
from ziggurat import Agent, Approve, Context, Deny, Event, Middleware, Modify, Rule, Toolbox, ToolCall, ToolError, tool
from ziggurat.agents import Approvals, Decision, PendingItem
from ziggurat.calls.gate import ApprovedCall, Judgement, judge, pass_gate
from ziggurat.calls.tool_call import act
from ziggurat.calls.wait import item_of
from ziggurat.core import CLOCK
from ziggurat.core.context import JOURNAL, Scope
from ziggurat.errors import ConfigurationError, Denied, JournalCorrupt, Suspend
from ziggurat.events import ApprovalDecided, ApprovalExecuted, ApprovalRequested
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Decided, JournalEntry, Pending
from ziggurat.journal.journal import journal_of
from ziggurat.messages import ToolResult, ToolSpec, tool_call
from ziggurat.stops import Suspended
from ziggurat.testing import HandClock, ScriptedModel
from ziggurat.tools import FunctionTool
from ziggurat.tools.approval import APPROVALS


def _judged(ctx: Context, name: str = "pay", arguments: str = '{"amount":5}', *, always: bool = False) -> Judgement:
    return asyncio.run(judge(ToolCall("1", name, arguments), "tool", ctx, always=always))


def _yes(item: PendingItem) -> Approve:
    return Approve()


def test_patterns_name_tools() -> None:
    gate = Approvals("delete_*", "send?", Rule("gpt-*", stage="model"))
    assert gate.concern("delete_file")
    assert gate.concern("send1")
    assert not gate.concern("send")
    assert not gate.concern("Delete_file")
    assert not gate.concern("gpt-5")
    assert gate.concern("gpt-5", "model")
    assert repr(Approvals("delete_*", "send?")) == "Approvals('delete_*', 'send?')"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Approvals(""), "pattern"),
        (lambda: Approvals(None), "Rule"),  # type: ignore[arg-type]
        (lambda: Rule("x", "maybe"), "'ask', 'allow' or 'deny'"),  # type: ignore[arg-type]
        (lambda: Rule("x", when=True), "when"),  # type: ignore[arg-type]
        (lambda: Rule("x", stage="agent"), "'tool' or 'model'"),  # type: ignore[arg-type]
        (lambda: Approvals("x", approver="yes"), "approver"),  # type: ignore[arg-type]
        (lambda: Approvals("x", timeout=0), "timeout"),
        (lambda: Approvals("x", timeout=float("inf")), "timeout"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_made(make: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()


def test_a_rule_that_denies_wins_wherever_it_stands() -> None:
    deny = Rule("pay", "deny", reason="no money")
    assert _judged(_ctx(Approvals(Rule("pay", "allow"), "pay", deny))) == Judgement("deny", "no money")
    assert _judged(_ctx(Approvals(Rule("pay", "allow")), Approvals(deny))).verdict == "deny"
    assert _judged(_ctx(Approvals(deny), Approvals(Rule("pay", "allow")))).verdict == "deny"


def test_of_the_others_the_first_that_holds_decides() -> None:
    small = Rule("pay", "allow", when=lambda arguments: bool(arguments["amount"] < 10))
    assert _judged(_ctx(Approvals(small, "*"))).verdict == "allow"
    assert _judged(_ctx(Approvals(small, "*")), arguments='{"amount":50}').verdict == "ask"
    assert _judged(_ctx(Approvals("*", small))).verdict == "ask"
    assert _judged(_ctx(Approvals("send"))).verdict == "allow", "no rule speaks of it"


def test_what_an_agent_beneath_allows_is_still_asked_above() -> None:
    assert _judged(_ctx(Approvals("pay"), Approvals(Rule("*", "allow")))).verdict == "ask"
    assert _judged(_ctx(Approvals(Rule("*", "allow")), Approvals("pay"))).verdict == "ask"
    assert _judged(_ctx(Approvals(Rule("*", "allow"))), always=True).verdict == "ask", "the tool itself asks"


async def _later(arguments: dict[str, Any]) -> bool:
    await asyncio.sleep(0)
    return bool(arguments["amount"] > 3)


def _raises(arguments: dict[str, Any]) -> bool:
    raise KeyError("amuont")


@pytest.mark.parametrize("verdict", ["allow", "ask", "deny"])
def test_a_predicate_may_be_async(verdict: Any) -> None:
    ctx = _ctx(Approvals(Rule("pay", verdict, when=_later)))
    assert _judged(ctx).verdict == verdict
    assert _judged(ctx, arguments='{"amount":1}').verdict == "allow"


@pytest.mark.parametrize(
    ("when", "verdict"), rows([_raises, lambda _: None, lambda _: 1, lambda _: "no"], ["allow", "ask", "deny"])
)
def test_where_nobody_can_tell_somebody_is_asked(verdict: Any, when: Any) -> None:
    judgement = _judged(_ctx(Approvals(Rule("pay", verdict, when=when), Rule("pay", "allow"))))
    assert judgement.verdict == "ask"
    assert "pay" in judgement.reason


def test_a_rule_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    _judged(_ctx(Approvals(Rule("pay", "deny", when=_raises))))
    (record,) = caplog.records
    assert "'pay' failed" in record.message


def test_a_rule_that_denies_wins_over_one_that_cannot_be_judged() -> None:
    rules = (Rule("pay", "deny", when=_raises), Rule("pay", "deny", reason="never"))
    assert _judged(_ctx(Approvals(*rules))) == Judgement("deny", "never")


def test_a_predicate_cannot_change_what_others_see() -> None:
    def meddling(arguments: dict[str, Any]) -> bool:
        arguments["amount"] = 0
        return False

    seen: list[Any] = []

    def looking(arguments: dict[str, Any]) -> bool:
        seen.append(arguments["amount"])
        return True

    _judged(_ctx(Approvals(Rule("pay", when=meddling), Rule("pay", when=looking))))
    assert seen == [5]


def test_the_outermost_who_asks_decides() -> None:
    outer, inner = Approvals("*", approver=_yes), Approvals("pay", approver=lambda item: Deny())
    assert _judged(_ctx(outer, inner)).desk is outer
    assert _judged(_ctx(outer, Approvals("pay"))).desk is outer
    assert _judged(_ctx(Approvals("*"), inner)).desk is None, "who asks further out has no approver: it waits"
    assert _judged(_ctx(Approvals(approver=_yes), Approvals("pay"))).desk is not None, "the next further out"
    assert _judged(_ctx(Approvals("send", approver=_yes), inner)).desk is inner
    assert _judged(_ctx(Approvals("send"), inner), "look", always=True).desk is inner, "only the tool itself asks"


def test_an_id_tells_path_tool_and_bytes_apart() -> None:
    here, there = _ctx().at("a"), _ctx().at("b")
    calls = [ToolCall("1", "pay", '{"a":1}'), ToolCall("1", "pay", '{"a": 1}'), ToolCall("1", "send", '{"a":1}')]
    ids = {item_of(call, ctx).id for call in calls for ctx in (here, there)}
    assert len(ids) == 6
    again = ToolCall("2", "pay", '{"a":1}')
    assert item_of(again, here).id == item_of(calls[0], here).id, "the provider's id is not a part of it"


def test_a_person_is_shown_what_an_eye_would_miss() -> None:
    item = item_of(ToolCall("1", "pay", '{ "to": "a\u202eb", "amount": 5 }'), _ctx())
    assert item.shown == '{"amount":5,"to":"a\\u202eb"}'


PAY = ToolSpec("pay", "", {})


async def _passed(*gates: Approvals) -> ApprovedCall:
    return await pass_gate(ToolCall("1", "pay"), None, _ctx(*gates), lambda call: call, PAY)


async def test_an_approver_that_gives_up_has_denied() -> None:
    async def gives_up(item: PendingItem) -> Approve:
        raise asyncio.CancelledError

    with pytest.raises(Denied, match="gave up"):
        await _passed(Approvals("pay", approver=gives_up))


async def test_an_approver_that_will_not_stop_decides_nothing_any_more() -> None:
    async def stubborn(item: PendingItem) -> Approve:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Approve()
        raise AssertionError

    task = asyncio.ensure_future(_passed(Approvals("pay", approver=stubborn)))
    for _ in range(3):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


def _ctx(*gates: Approvals) -> Context:
    return Context("run", scope=Scope({JOURNAL: LocalJournal(), APPROVALS: gates}))


def _pay(done: list[int]) -> FunctionTool:
    @tool
    async def pay(amount: int = 100) -> str:
        done.append(amount)
        return f"paid {amount}"

    return pay


def _called(
    ctx: Context, arguments: str = '{"amount": 100}', done: list[int] | None = None
) -> tuple[ToolResult, list[int]]:
    done = [] if done is None else done
    return asyncio.run(act(Toolbox([_pay(done)]), ToolCall("1", "pay", arguments), ctx)), done


def _raising(item: PendingItem) -> Approve:
    raise RuntimeError("the desk is closed")


@pytest.mark.parametrize(("answer", "asynchronous"), rows([True, "approve", None, Approve, [Approve()]], [False, True]))
def test_an_approver_that_answers_something_else_approves_nothing(answer: Any, asynchronous: bool) -> None:
    async def later(item: PendingItem) -> Any:
        return answer

    done: list[int] = []
    with pytest.raises(ConfigurationError, match="pay"):
        _called(_ctx(Approvals("pay", approver=later if asynchronous else lambda item: answer)), done=done)
    assert done == []


def test_an_approver_that_fails_approves_nothing() -> None:
    done: list[int] = []
    with pytest.raises(RuntimeError, match="the desk is closed"):
        _called(_ctx(Approvals("pay", approver=_raising)), done=done)
    assert done == []


@pytest.mark.parametrize(
    ("error", "kind"), [(ConnectionError("the desk is closed"), "transient"), (ToolError("closed"), "permanent")]
)
def test_what_an_approver_raises_on_purpose_or_for_a_lost_connection_is_the_result(error: Exception, kind: str) -> None:
    async def raises(item: PendingItem) -> Approve:
        raise error

    result, done = _called(_ctx(Approvals("pay", approver=raises)))
    assert (result.error, done) == (kind, [])
    assert "closed" in result.text


async def test_an_approver_that_hangs_has_denied_when_its_time_is_up() -> None:
    asked = asyncio.Event()

    async def hangs(item: PendingItem) -> Approve:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    done: list[int] = []
    clock = HandClock()
    ctx = _ctx(Approvals("pay", approver=hangs, timeout=30)).within(CLOCK, clock)
    task = asyncio.ensure_future(act(Toolbox([_pay(done)]), ToolCall("1", "pay", "{}"), ctx))
    await asked.wait()
    await clock.advance(30)
    result = await task
    assert (result.error, result.text) == ("denied", "denied: nobody decided within 30 s")
    assert done == []


def test_an_approver_may_change_the_call() -> None:
    def go(decision: Decision) -> ToolResult:
        return _called(_ctx(Approvals("pay", approver=lambda item: decision)))[0]

    assert go(Modify('{"amount": 1}')).text == "paid 1"
    assert go(Modify({"amount": 1})).text == "paid 1"
    assert go(Deny("no money")) == ToolResult("1", "pay", "denied: no money", "denied", "pay")
    assert go(Approve()).text == "paid 100"


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (Modify('{"amount": "all"}'), "amount"),
        (Modify('{"much": 1}'), "much"),
        (Modify('{"amount": 1, "amount": 2}'), "JSON"),
        (Modify("pay less"), "JSON"),
        (Modify({"amount": float("nan")}), "JSON"),
        (Modify({"amount": {1, 2}, "to": object()}), "JSON"),
        (Modify({1: 2, "1": 3}), "JSON"),  # type: ignore[dict-item]
        (Modify(["amount"]), "JSON"),  # type: ignore[arg-type]
        (Modify(None), "JSON"),  # type: ignore[arg-type]
        (Deny(3), "reason"),  # type: ignore[arg-type]
    ],
)
def test_what_an_approver_cannot_mean_decides_and_runs_nothing(decision: Decision, told: str) -> None:
    ctx, events = _ctx(Approvals("pay", approver=lambda item: decision)), list[Event]()
    done: list[int] = []
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        _called(ctx.heard_by(events.append), done=done)
    assert done == []
    entries = journal_of(ctx).entries
    assert not any(isinstance(entry, Decided) for entry in entries)
    assert not any(isinstance(event, ApprovalDecided | ApprovalExecuted) for event in events)


def test_a_rule_that_denies_holds_for_what_a_call_was_changed_to() -> None:
    rule = Rule("pay", "deny", when=lambda arguments: bool(arguments["amount"] > 1000), reason="too much")
    result, done = _called(_ctx(Approvals(rule, "pay", approver=lambda item: Modify('{"amount": 2000}'))))
    assert (result.text, done) == ("denied: too much", [])


@pytest.mark.parametrize("arguments", ['{"amount": 1, "amount": 2}', '{"amount": 1e999}', '{"amount": NaN}'])
def test_what_can_be_read_in_two_ways_is_shown_to_nobody(arguments: str) -> None:
    shown: list[PendingItem] = []

    def agree(item: PendingItem) -> Approve:
        shown.append(item)
        return Approve()

    result, done = _called(_ctx(Approvals("pay", approver=agree)), arguments)
    assert result.error == "invalid_arguments"
    assert (shown, done) == ([], [])


@pytest.mark.parametrize(
    ("decision", "executed"),
    [(Approve(), '{"amount":100}'), (Modify('{"amount":7}'), '{"amount":7}'), (Deny("no"), None)],
)
def test_everything_about_it_is_told(decision: Decision, executed: str | None) -> None:
    heard: list[Event] = []
    _called(_ctx(Approvals("pay", approver=lambda item: decision)).heard_by(heard.append))
    requested = [event for event in heard if isinstance(event, ApprovalRequested)]
    decided = [event for event in heard if isinstance(event, ApprovalDecided)]
    done = [event for event in heard if isinstance(event, ApprovalExecuted)]
    assert [event.item.call.arguments for event in requested] == ['{"amount":100}']
    assert [(event.id, event.decision) for event in decided] == [(requested[0].item.id, decision)]
    assert [event.call.arguments for event in done] == ([] if executed is None else [executed])


def test_a_denial_by_rule_is_told_and_asks_nobody() -> None:
    heard: list[Event] = []
    gate = Approvals(Rule("pay", "deny", reason="never"), approver=_raising)
    result, done = _called(_ctx(gate).heard_by(heard.append))
    assert (result.error, result.text, done) == ("denied", "denied: never", [])
    assert [event.decision for event in heard if isinstance(event, ApprovalDecided)] == [Deny("never")]


# -- later, or in another process ------------------------------------------------------------------------------------


def _agent(done: list[int], **options: Any) -> Agent:
    model = ScriptedModel(tool_call("pay", amount=5), "Done.", per_run=True)
    return Agent(model, tools=[_pay(done)], approvals=Approvals("pay", **options))


async def _waiting() -> tuple[Context, Toolbox, list[int], LocalJournal]:
    """Return a pending call and its context."""
    done: list[int] = []
    ctx, box = _ctx(Approvals("pay")), Toolbox([_pay(done)])
    with pytest.raises(Suspend):
        await act(box, ToolCall("1", "pay", '{"amount":5}'), ctx)
    journal = ctx.scope[JOURNAL]
    assert isinstance(journal, LocalJournal)
    return ctx, box, done, journal


async def test_a_decision_upon_another_call_is_none() -> None:
    ctx, box, done, journal = await _waiting()
    journal.append(Decided("run", "0" * 32, Approve()))
    with pytest.raises(JournalCorrupt, match="on another call"):
        await act(box, ToolCall("1", "pay", '{"amount":5}'), ctx)
    assert done == []


async def test_what_was_shown_is_made_not_what_it_was_changed_to_while_it_waited() -> None:
    ctx, box, done, journal = await _waiting()
    (pending,) = journal.index.waits_at()
    journal.append(Pending("run", pending.id, "pay", ToolCall("1", "pay", '{"amount":500}')))
    journal.append(Decided("run", pending.id, Approve()))
    await act(box, ToolCall("1", "pay", '{"amount":5}'), ctx)
    assert done == [5]


async def test_a_call_that_nobody_can_tell_any_more_is_not_made() -> None:
    ctx, box, done, journal = await _waiting()
    (pending,) = journal.index.waits_at()
    journal.append(Pending("run", pending.id, "pay", ToolCall("1", "pay", '{"amount":500}')))
    journal.append(Decided("run", pending.id, Approve()))
    result = await act(box, ToolCall("1", "pay", '{"amount":500}'), ctx)
    assert result.error == "interrupted"
    assert done == []


async def test_who_can_decide_by_now_is_asked_on_resume() -> None:
    ctx, box, done, journal = await _waiting()
    ctx = ctx.within(APPROVALS, (Approvals("pay", approver=lambda item: Approve()),))
    result = await act(box, ToolCall("1", "pay", '{"amount":5}'), ctx)
    assert (result.text, done) == ("paid 5", [5])
    assert journal.index.waits_at() == []


async def test_a_decision_is_told_where_the_run_goes_on() -> None:
    done: list[int] = []
    agent = _agent(done)

    heard: list[Event] = []
    run = await agent.run("go")
    assert isinstance(run.stop, Suspended)
    run = await agent.resume(run.id, {run.pending[0].id: Approve()}, listeners=[heard.append])
    assert (run.text, done) == ("Done.", [5])
    kinds = [type(event) for event in heard if isinstance(event, (ApprovalDecided, ApprovalExecuted))]
    assert kinds == [ApprovalDecided, ApprovalExecuted]


@pytest.mark.parametrize("form", ["tool", "awaited"])
def test_who_stands_beneath_escapes_nothing(form: str) -> None:
    done: list[int] = []
    inner = Agent(
        ScriptedModel(tool_call("pay", amount=5), "inner", per_run=True),
        tools=[_pay(done)],
        name="inner",
        approvals=Approvals(Rule("*", "allow"), approver=lambda item: Approve()),
    )

    async def ask_inner(question: str) -> str:
        return (await inner.run(question, approvals=Approvals(Rule("*", "allow")))).text

    name, tool_of, key = ("inner", inner, "input") if form == "tool" else ("ask_inner", ask_inner, "question")
    model = ScriptedModel(tool_call(name, **{key: "x"}), "out")
    outer = Agent(model, tools=[tool_of], approvals=Approvals("pay"))
    run = outer.run_sync("go")
    assert [item.call.name for item in run.pending] == ["pay"]
    assert done == []


class _Hiding(Middleware):
    """Keeps the arguments of calls that wait out of the record."""

    def on_record(self, entry: JournalEntry) -> JournalEntry:
        if isinstance(entry, Pending) and isinstance(entry.request, ToolCall):
            return replace(entry, request=replace(entry.request, arguments='{"amount":0}'))
        return entry


@pytest.mark.parametrize(
    ("rule_of", "place", "hidden"), pairs(["agent", "run", "run, later too"], STORES, [False, True]), indirect=["place"]
)
async def test_a_call_that_waits_is_not_made_without_a_decision(rule_of: str, place: str, hidden: bool) -> None:
    done: list[int] = []
    gate = Approvals("pay")
    agent = Agent(
        ScriptedModel(tool_call("pay", amount=7), "done", per_run=True),
        tools=[_pay(done)],
        middleware=[_Hiding()] if hidden else [],
        approvals=gate if rule_of == "agent" else None,
        store=new_store(),
    )

    first = await agent.run("go", run_id="r", approvals=gate if rule_of != "agent" else None)
    later = gate if rule_of == "run, later too" else None
    for _ in range(2):
        again = await agent.resume("r", approvals=later)
        assert isinstance(again.stop, Suspended)
        assert [item.id for item in again.pending] == [item.id for item in first.pending]
        assert done == []
    decided = await agent.resume("r", {first.pending[0].id: Approve()}, approvals=later)
    assert (decided.text, done) == ("done", [7])


# -- agents that decide ----------------------------------------------------------------------------------------------


def _decided_on(form: str, look: FunctionTool, *rules: Rule, own: bool = False) -> tuple[Agent, list[str]]:
    """Return an agent whose calls another agent decides on, which calls `look`, and a list of what that was asked."""
    asked: list[str] = []

    async def ask() -> bool:
        asked.append("asked")
        assert len(asked) < 5, "the agent that decides was asked about its own calls"
        run = await decider.run("May it?")
        asked.extend(run.observations)
        return run.text == "yes"

    async def decide(item: PendingItem) -> Decision:
        return Approve() if await ask() else Deny("no")

    async def holds(arguments: dict[str, Any]) -> bool:
        return not await ask()

    approvals = {
        "approver": Approvals("*", *rules, approver=decide),
        "approver of models": Approvals(Rule("*", stage="model"), approver=decide),
        "rule that asks": Approvals(Rule("*", when=holds)),
        "rule that denies": Approvals(Rule("*", "deny", when=holds)),
    }[form]
    said = ScriptedModel(tool_call("look"), "yes")
    decider = Agent(said, tools=[look], name="judge", approvals=approvals if own else None)

    @tool
    def work() -> str:
        return "worked"

    model = ScriptedModel("done") if "models" in form else ScriptedModel(tool_call("work"), "done")
    return Agent(model, tools=[work], approvals=approvals), asked


@tool
def look() -> str:
    return "seen"


@pytest.mark.parametrize(
    ("form", "own"), rows(["approver", "approver of models", "rule that asks", "rule that denies"], [False, True])
)
async def test_an_agent_that_decides_is_not_asked_about_its_own_calls(form: str, own: bool) -> None:
    agent, asked = _decided_on(form, look, own=own)
    run = await agent.run("go")
    assert (run.text, asked) == ("done", ["asked", "seen"])
    assert run.observations in ((), ("worked",))


async def test_denials_hold_for_an_agent_that_decides() -> None:
    agent, asked = _decided_on("approver", look, Rule("look", "deny"))
    run = await agent.run("go")
    assert (run.observations, asked) == (("worked",), ["asked", "denied: the rules forbid it"])


async def test_a_call_of_an_agent_that_decides_may_wait_for_a_person() -> None:
    agent, asked = _decided_on("approver", tool(approval=True)(look.function))
    run = await agent.run("go")
    (item,) = run.pending
    run = await agent.resume(run.id, {item.id: Approve()})
    assert (run.observations, asked) == (("worked",), ["asked", "asked", "seen"])


RACES = amount(20, 50)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_was_not_approved_is_not_executed(kind: Callable[[World], Awaitable[None]]) -> None:
    outcome = race(kind, RACES, seed=7)
    assert outcome["races"] == RACES
    assert outcome["attacks"] >= RACES * 0.6, "most races must see the attack"
    assert outcome["unapproved"] == 0


@pytest.mark.parametrize(
    "kind", ["shared_mapping", "call_of_the_model", "call_that_is_shown", "hook_in_another_task", "tool_replaced"]
)
def test_what_was_approved_is_executed_although_it_is_attacked(kind: str) -> None:
    (attack,) = [each for each in KINDS if each.__name__ == kind]
    assert race(attack, RACES, seed=3)["executed"] == RACES


async def test_an_execution_without_approval_would_be_seen() -> None:
    world = World(random.Random(1))

    await world.pay(evil(), Context("run"))
    assert (world.executed, world.unapproved) == ([EVIL], 1)
