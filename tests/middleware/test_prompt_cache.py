import asyncio
import itertools

import pytest
from msgspec.structs import replace

from ziggurat.agents.agent import Agent
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.events import Warned
from ziggurat.messages.message import user
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.parts import tool_call
from ziggurat.middleware import DynamicPrompt, DynamicTools, PromptCacheGuard
from ziggurat.models.scripted import ScriptedModel


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
    with pytest.raises(ConfigurationError, match=r"agent/step-2/model: the prompt cache is lost: the instructions"):
        asyncio.run(agent.run("go"))


def test_each_nested_agent_has_a_prefix_of_its_own() -> None:
    heard: list[Event] = []
    inner = Agent(ScriptedModel(always="yes"), name="inner", instructions="other")
    model = ScriptedModel(tool_call("inner", input="a"), tool_call("inner", input="b"), "done")
    agent = Agent(model, tools=[inner], middleware=[PromptCacheGuard()])
    asyncio.run(agent.run("go", listeners=[heard.append]))
    assert not [event for event in heard if isinstance(event, Warned)]
