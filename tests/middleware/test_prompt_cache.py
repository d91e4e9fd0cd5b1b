import asyncio
import itertools

import pytest
from msgspec.structs import replace

from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    ConfigurationError,
    Context,
    Event,
    Middleware,
    ModelRequest,
    Service,
    user,
)
from ziggurat.compaction import Compaction, Drop, Mask, Recent, Summary, over_tokens
from ziggurat.errors import ContextOverflow
from ziggurat.events import Compacted, Warned
from ziggurat.messages import Transcript, tool_call
from ziggurat.middleware import DynamicPrompt, DynamicTools, PromptCacheGuard
from ziggurat.testing import ScriptedModel, ScriptedReply


def look() -> str:
    """Look."""
    return "x"


class Shuffling(Middleware):
    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest:
        number = len(request.messages)
        return replace(request, messages=Transcript.of(user(f"now {number}"), *request.messages))


def warnings(*middleware: Middleware) -> list[str]:
    heard: list[Event] = []
    model = ScriptedModel(tool_call("look"), tool_call("look"), "done")
    agent = Agent(model, tools=[look], middleware=[PromptCacheGuard(), *middleware], instructions="i")
    asyncio.run(agent.run("go", listeners=[heard.append]))
    return [event.text for event in heard if isinstance(event, Warned)]


def test_a_conversation_that_only_grows_keeps_its_cache() -> None:
    assert warnings() == []


def test_what_changes_is_named() -> None:
    ticks = itertools.count()
    assert (
        warnings(DynamicPrompt(lambda request, ctx: f"it is {next(ticks)}"))
        == ["the prompt cache is lost: the instructions changed since the question before"] * 2
    )
    assert warnings(DynamicTools(lambda request, ctx: ["look"] if len(request.messages) < 4 else [])) == [
        "the prompt cache is lost: the tools changed since the question before"
    ]
    assert (
        warnings(Shuffling())
        == ["the prompt cache is lost: the conversation from message 0 on changed since the question before"] * 2
    )


def test_it_may_refuse_and_remembers_nothing_of_the_run_before() -> None:
    guard = PromptCacheGuard(refuse=True)
    ticks = itertools.count()
    prompt = DynamicPrompt(lambda request, ctx: f"it is {next(ticks)}")
    agent = Agent(ScriptedModel(always="done"), tools=[look], middleware=[guard, prompt])
    assert [asyncio.run(agent.run("go")).text for _ in range(3)] == ["done"] * 3
    agent = Agent(ScriptedModel(tool_call("look"), "done"), tools=[look], middleware=[guard, prompt])
    with pytest.raises(ConfigurationError, match="instructions"):
        asyncio.run(agent.run("go"))


async def test_each_nested_agent_has_a_prefix_of_its_own() -> None:
    heard: list[Event] = []
    inner = Agent(ScriptedModel(always="yes"), name="inner", instructions="other")
    model = ScriptedModel(tool_call("inner", input="a"), tool_call("inner", input="b"), "done")
    agent = Agent(model, tools=[inner], middleware=[PromptCacheGuard()])
    await agent.run("go", listeners=[heard.append])
    assert not [event for event in heard if isinstance(event, Warned)]


class Copying(Middleware):
    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest:
        return replace(request, messages=Transcript.of(*request.messages))


SUMMARY = Summary(model=ScriptedModel(always="pages"))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("hooks", [[], [Copying()]])
@pytest.mark.parametrize("reducer", [Drop(), Mask(min_tokens=10), SUMMARY, None])
def test_a_compaction_is_no_accident_and_what_else_changes_with_it_is_named(
    reducer: Drop | Mask | Summary | None, hooks: list[Middleware], nested: bool
) -> None:
    def page() -> str:
        return "page " * 200

    overflow = ContextOverflow("too long")
    replies: list[ScriptedReply] = [
        *[tool_call("page")] * 3,
        *([] if reducer else [overflow]),
        tool_call("page"),
        "end",
    ]

    def run(*more: Middleware) -> AgentRun:
        trigger = over_tokens(500 if reducer else 1_000_000)
        compaction = Compaction(trigger, keep=Recent(messages=2), reduce=[reducer or Drop()])
        middleware = [PromptCacheGuard(refuse=True), compaction, *hooks, *more]
        agent = Agent(ScriptedModel(*replies), tools=[page], instructions="i", middleware=middleware)
        if nested:
            agent = Agent(ScriptedModel(tool_call("agent", input="go"), "end"), tools=[agent], name="outer")
        return asyncio.run(agent.run("go"))

    heard: list[Event] = []
    assert run(Listening(heard)).text == "end"
    assert [event for event in heard if isinstance(event, Compacted)]
    if not nested:
        ticks = itertools.count()
        with pytest.raises(ConfigurationError, match="the instructions changed since"):
            run(DynamicPrompt(lambda request, ctx: f"it is {next(ticks)}"))


class Listening(Middleware):
    def __init__(self, heard: list[Event]) -> None:
        self.heard = heard

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        return await agent(request, ctx.heard_by(self.heard.append))
