"""The approval gate of model calls: a person approves, denies or changes the request."""

import asyncio
from typing import Any

import pytest

from tests.stores.records import dump_of, plant
from ziggurat import Agent, Approvals, ConfigurationError, Event, Middleware, ModelRequest, ModelResponse, Rule, user
from ziggurat.agents import Approve, Decision, Deny, Environment, Modify, PendingItem
from ziggurat.core.codec import encode
from ziggurat.events import ApprovalDecided, ApprovalExecuted, ApprovalRequested
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.stops import Completed, ModelCallDenied, Suspended
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel

ANY = Rule("*", stage="model")


def _echo(messages: Any) -> str:
    return f"you said {messages[-1].text}"


def _agent(*rules: Rule | str, approver: Any = None, **options: Any) -> Agent:
    model = FunctionModel(_echo, name="echo")
    return Agent(model, approvals=Approvals(*(rules or (ANY,)), approver=approver), **options)


def test_it_is_shown_the_whole_request_and_may_let_it_pass() -> None:
    shown: list[PendingItem] = []

    async def approve(item: PendingItem) -> Approve:
        shown.append(item)
        return Approve()

    run = _agent(approver=approve, instructions="Be brief.").run_sync("hello\u200b")
    assert run.text == "you said hello\u200b"
    (item,) = shown
    assert (item.stage, item.call.name) == ("model", "echo")
    assert "Be brief." in item.shown
    assert "hello\\u200b" in item.shown


def test_a_denial_stops_the_run_and_says_why() -> None:
    run = _agent(approver=lambda item: Deny("not today")).run_sync("hello")
    assert run.stop == ModelCallDenied("not today")
    run = _agent(Rule("ec*", "deny", reason="never", stage="model")).run_sync("hello")
    assert run.stop == ModelCallDenied("never")


def test_a_rule_reads_the_request() -> None:
    def secret(request: dict[str, Any]) -> bool:
        return any("secret" in part["text"] for message in request["messages"] for part in message["parts"])

    agent = _agent(Rule("*", "deny", when=secret, reason="a secret", stage="model"))
    assert agent.run_sync("hello").stop == Completed()
    assert agent.run_sync("a secret").stop == ModelCallDenied("a secret")


def test_it_may_change_the_request() -> None:
    def change(item: PendingItem) -> Modify:
        return Modify(item.call.arguments.replace("hello", "goodbye"))

    assert _agent(approver=change).run_sync("hello").text == "you said goodbye"
    with pytest.raises(ConfigurationError, match=r"not a request"):
        _agent(approver=lambda item: Modify('{"messages": 3}')).run_sync("hello")


def test_rules_for_tools_leave_models_alone_and_other_models_too() -> None:
    def never(item: PendingItem) -> Decision:
        raise AssertionError

    assert _agent("*", approver=never).run_sync("hello").stop == Completed()
    assert _agent(Rule("gpt-*", stage="model"), approver=never).run_sync("hello").stop == Completed()


@pytest.mark.parametrize("answer", [None, True, "approve"])
def test_an_approver_that_answers_something_else_lets_nothing_be_asked(answer: Any) -> None:
    model = ScriptedModel("x")
    agent = Agent(model, approvals=Approvals(ANY, approver=lambda item: answer))
    with pytest.raises(Exception, match="a decision is Approve"):
        agent.run_sync("hello")


def test_it_stands_between_the_hooks_before_and_what_is_wrapped_around() -> None:
    order: list[str] = []

    class Noting(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Any) -> None:
            order.append("before")

        async def wrap_model(self, request: ModelRequest, ctx: Any, model: Any) -> ModelResponse:
            order.append("wrap")
            reply: ModelResponse = await model(request, ctx)
            return reply

    def approve(item: PendingItem) -> Approve:
        order.append("approve")
        return Approve()

    _agent(approver=approve, middleware=[Noting()]).run_sync("hello")
    assert order == ["before", "approve", "wrap"]


def test_everything_about_it_is_told() -> None:
    heard: list[Event] = []
    _agent(approver=lambda item: Approve()).run_sync("hello", listeners=[heard.append])
    kinds = (ApprovalRequested, ApprovalDecided, ApprovalExecuted)
    assert [type(event) for event in heard if isinstance(event, kinds)] == list(kinds)


def test_agents_beneath_pass_the_same_gate() -> None:
    asked: list[str] = []

    def approve(item: PendingItem) -> Approve:
        asked.append(item.path)
        return Approve()

    inner = Agent(ScriptedModel("in"), name="inner")
    outer = Agent(
        ScriptedModel(tool_call("inner", input="x"), "out"), tools=[inner], approvals=Approvals(ANY, approver=approve)
    )
    assert outer.run_sync("go").text == "out"
    assert asked == ["agent/step-1/model", "agent/step-1/tool-1:inner/inner/step-1/model", "agent/step-2/model"]


class _Stamp(Middleware):
    """Changes the request on every call, like a hook that adds the time."""

    count = 0

    async def before_model(self, request: ModelRequest, ctx: Any) -> ModelRequest:
        type(self).count += 1
        return ModelRequest(request.messages, f"call {self.count}", request.tools, request.settings, request.output)


@pytest.mark.parametrize(
    ("decide", "text"),
    [
        (lambda item: Approve(), "you said hello"),
        (lambda item: Modify(ModelRequest([user("other")])), "you said other"),  # type: ignore[arg-type]  # a list of messages
        (lambda item: Modify(encode(ModelRequest([user("other")])).decode()), "you said other"),  # type: ignore[arg-type]
        (lambda item: Deny("no"), ""),
    ],
)
async def test_it_may_wait_and_go_on_elsewhere_and_is_replayed_without_asking(decide: Any, text: str) -> None:
    store, elsewhere = InMemoryStore(), InMemoryStore()
    run = await _agent(store=store, middleware=[_Stamp()]).run("hello", run_id="r")
    assert run.stop == Suspended()
    plant(elsewhere, "r", dump_of(store, "r"))
    agent = _agent(store=elsewhere, middleware=[_Stamp()])
    done = await agent.resume("r", {item.id: decide(item) for item in run.pending})
    replayed = await agent.replay("r")
    assert done.text == text
    assert (replayed.stop, replayed.text) == (done.stop, done.text)


@pytest.mark.parametrize("gives_up", [False, True])
async def test_a_model_call_that_nobody_decided_on_is_asked_about_again_when_the_run_is_resumed(gives_up: bool) -> None:
    clock, asked = HandClock(auto=True), list[PendingItem]()

    async def late_at_first(item: PendingItem) -> Approve:
        asked.append(item)
        if len(asked) == 1 and gives_up:
            raise asyncio.CancelledError
        await clock.sleep(100.0 if len(asked) == 1 else 1.0)
        return Approve()

    model = FunctionModel(_echo, name="echo")
    agent = Agent(model, approvals=Approvals(ANY, approver=late_at_first, timeout=10), store=InMemoryStore())
    run = await agent.run("x", environment=Environment(clock=clock))
    first, second = [run, await agent.resume(run.id, environment=Environment(clock=clock))]
    assert first.stop == ModelCallDenied("the approver gave up" if gives_up else "nobody decided within 10 s")
    assert (second.stop, second.text, len(asked)) == (Completed(), "you said x", 2)
    assert asked[0].id == asked[1].id
