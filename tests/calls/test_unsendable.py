"""A hook that makes a conversation unsendable is named at once, and no model gets it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.calls.samples import each
from tests.samples import pairs, sample
from ziggurat import Agent, AgentRun, ConfigurationError, Message, Middleware, ToolResult, tool, user
from ziggurat.layers import CacheStore, cache
from ziggurat.messages import Rewrite, Transcript, tool_call, tool_message
from ziggurat.middleware import everywhere
from ziggurat.testing import ScriptedModel

Messages = list[Message]


def without(role: str) -> Callable[[Messages], Messages]:
    return lambda messages: [message for message in messages if message.role != role]


BROKEN: dict[str, Callable[[Messages], Messages]] = {
    "no results": without("tool"),
    "no calls": without("assistant"),
    "one result less": lambda messages: messages[:-1],
    "a result twice": lambda messages: [*messages, messages[-1]],
    "results before calls": lambda messages: messages[::-1],
    "something between": lambda messages: [*messages[:-1], user("and?"), messages[-1]],
    "a result of another call": lambda messages: [*messages[:-1], tool_message(ToolResult("other", "echo", "x"))],
    "nothing": lambda messages: [],
}
WHOLE: dict[str, Callable[[Messages], Messages]] = {
    "unchanged": lambda messages: messages,
    "another question": lambda messages: [user("another"), *messages[1:]],
    "only the question": lambda messages: messages[:1],
    "one more message": lambda messages: [*messages, user("more")],
}


@tool
def echo(text: str) -> str:
    return text


class Before(Middleware):
    name = "Before"

    def __init__(self, change: Callable[[Messages], Messages]) -> None:
        self.change = change

    async def before_model(self, request: Any, ctx: Any) -> Any:
        messages = list(request.messages)
        if len(messages) > 1:
            return replace(request, messages=Transcript.of(*self.change(messages)))
        return None


class Around(Before):
    name = "Around"

    async def before_model(self, request: Any, ctx: Any) -> Any:
        return None

    async def wrap_model(self, request: Any, ctx: Any, model: Any) -> Any:
        return await model(await Before.before_model(self, request, ctx) or request, ctx)


HOOKS = {"before_model of Before": Before, "wrap_model of Around": Around}


def run_with(middleware: list[Middleware], streamed: bool) -> tuple[ScriptedModel, AgentRun]:
    calls = [tool_call("echo", id="1", text="a"), tool_call("echo", id="2", text="b")]
    model = ScriptedModel(calls, "end")
    agent = Agent(model, tools=[echo], middleware=middleware)
    listeners: list[Any] = [lambda event: None] if streamed else []
    try:
        return model, asyncio.run(agent.run("go", listeners=listeners))
    except ConfigurationError:
        assert len(model.calls) == 1
        raise


@pytest.mark.parametrize(
    ("change", "hook", "others", "streamed"), sample(pairs(BROKEN, HOOKS, [0, 1], [False, True]), 12)
)
def test_the_hook_that_breaks_a_conversation_is_named(hook: str, change: str, others: int, streamed: bool) -> None:
    whole = [made(WHOLE["another question"]) for made in HOOKS.values()] * others
    with pytest.raises(ConfigurationError, match="cannot be sent") as caught:
        run_with([*whole[:1], HOOKS[hook](BROKEN[change]), *whole[1:]], streamed)
    assert f"agent/step-2/model: the hook {hook}" in str(caught.value)


@pytest.mark.parametrize(("change", "hook", "streamed"), pairs(WHOLE, HOOKS, [False, True]))
def test_a_hook_may_change_a_conversation_in_any_other_way(hook: str, change: str, streamed: bool) -> None:
    model, run = run_with([HOOKS[hook](WHOLE[change])], streamed)
    assert run.text == "end"
    asked = [user("go"), *run.messages[1:-1]]
    assert list(model.last.messages) == WHOLE[change](asked)


class BeforeAgent(Before):
    name = "BeforeAgent"

    async def before_model(self, request: Any, ctx: Any) -> Any:
        return None

    async def before_agent(self, request: Any, ctx: Any) -> Any:
        return replace(request, messages=tuple(self.change(list(request.messages[:-1]))) + request.messages[-1:])


class IntoAgent(BeforeAgent):
    name = "IntoAgent"

    async def before_agent(self, request: Any, ctx: Any) -> Any:
        return None

    async def wrap_agent(self, request: Any, ctx: Any, agent: Any) -> Any:
        return await agent(await BeforeAgent.before_agent(self, request, ctx), ctx)


class AfterAgent(BeforeAgent):
    name = "AfterAgent"

    async def before_agent(self, request: Any, ctx: Any) -> Any:
        return None

    async def after_agent(self, run: Any, ctx: Any) -> Any:
        return replace(run, messages=Transcript.of(*self.change(list(run.messages[:-2])), *run.messages[-2:]))


class OutOfAgent(AfterAgent):
    name = "OutOfAgent"

    async def after_agent(self, run: Any, ctx: Any) -> Any:
        return None

    async def wrap_agent(self, request: Any, ctx: Any, agent: Any) -> Any:
        return await AfterAgent.after_agent(self, await agent(request, ctx), ctx)


AROUND_AGENTS: dict[str, Callable[[Callable[[Messages], Messages]], Before]] = {
    "before_agent of BeforeAgent": BeforeAgent,
    "wrap_agent of IntoAgent": IntoAgent,
    "after_agent of AfterAgent": AfterAgent,
    "wrap_agent of OutOfAgent": OutOfAgent,
}


def run_earlier(middleware: list[Middleware], depth: int) -> AgentRun:
    """Run an agent that continues a conversation with calls, called by another agent if there is a depth."""
    calls = [tool_call("echo", id="1", text="a"), tool_call("echo", id="2", text="b")]
    earlier = Agent(ScriptedModel(calls, "end"), tools=[echo]).run_sync("go").messages[:-1]
    inner = Agent(ScriptedModel("new"), middleware=middleware, name="inner")

    async def ask_inner() -> str:
        return (await inner.run("on", history=earlier)).text

    outer = Agent(ScriptedModel(tool_call("ask_inner"), "new"), tools=[ask_inner], name="outer")
    return outer.run_sync("go") if depth else inner.run_sync("on", history=earlier)


@pytest.mark.parametrize(
    ("change", "hook", "others", "depth"),
    each([change for change in BROKEN if change != "nothing"], AROUND_AGENTS, [0, 1], [1, 0, 0]),
)
def test_a_hook_around_an_agent_that_breaks_its_conversation_is_named(
    hook: str, change: str, others: int, depth: int
) -> None:
    whole = [made(WHOLE["another question"]) for made in AROUND_AGENTS.values()] * others
    with pytest.raises(ConfigurationError, match="cannot be sent") as caught:
        run_earlier([*whole[:2], AROUND_AGENTS[hook](BROKEN[change]), *whole[2:]], depth)
    assert f"inner: the hook {hook}" in str(caught.value)


@pytest.mark.parametrize(("change", "hook", "depth"), each(WHOLE, AROUND_AGENTS, [0, 1]))
def test_a_hook_around_an_agent_may_change_its_conversation_in_any_other_way(
    hook: str, change: str, depth: int
) -> None:
    assert run_earlier([AROUND_AGENTS[hook](WHOLE[change])], depth).messages[-1].text == "new"


async def test_a_hook_that_passes_on_something_else_to_an_agent_is_named() -> None:
    class Wrong(Middleware):
        async def wrap_agent(self, request: Any, ctx: Any, agent: Any) -> Any:
            return await agent("go", ctx)

    with pytest.raises(ConfigurationError, match="wrap_agent of Wrong"):
        await Agent(ScriptedModel("x"), middleware=[Wrong()]).run("go")


@pytest.mark.parametrize(
    "rewriting",
    [
        Rewrite(0, 4),
        Rewrite(1, 2),
        Rewrite(3, 4),
        Rewrite(2, 4, (tool_message(ToolResult("2", "echo")),)),
        Rewrite(-1, 1),
    ],
    ids=str,
)
def test_a_rewriting_that_breaks_a_conversation_is_named(rewriting: Rewrite) -> None:
    class Rewriting(Middleware):
        async def rewrite(self, request: Any, ctx: Any) -> Any:
            return rewriting if len(request.messages) > 1 else None

    with pytest.raises(ConfigurationError, match="Rewriting"):
        run_with([Rewriting()], streamed=False)


def test_models_inside_several_wraps_keep_their_facts() -> None:
    """A shared cache takes the name of the model into its key, also through other wraps."""
    shared = everywhere(model=[cache(store=CacheStore())])
    around = Around(WHOLE["unchanged"])
    for middleware in ([shared, around], [around, shared]):
        said = [
            asyncio.run(Agent(ScriptedModel(f"I am {name}", name=name), middleware=middleware).run("Who?")).text
            for name in ("anna", "ben", "anna")
        ]
        assert said == ["I am anna", "I am ben", "I am anna"]
