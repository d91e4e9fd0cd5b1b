"""Tests of the stage that answers the requests of all formats with runs."""

from pathlib import Path
from typing import Any

import pytest

from ziggurat import (
    Agent,
    ConfigurationError,
    Context,
    Message,
    ModelRequest,
    ModelResponse,
    ToolCall,
    ToolResult,
    tool,
    user,
)
from ziggurat.errors import EmptyPrompt, RunNotFound
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.flows import flow
from ziggurat.messages import ToolSpec, tool_call
from ziggurat.messages.conversation import Conversation as Messages
from ziggurat.messages.model import OutputSchema
from ziggurat.serve.openai.answers import Answered, NotAnswered
from ziggurat.serve.openai.conversations import Conversation, ConversationRequest
from ziggurat.serve.served import ServedAgents
from ziggurat.testing import ScriptedModel
from ziggurat.wires.types import ReplyParts, message_of

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "The weather.", CITY)


def asked(
    *messages: Message, agent: str = "desk", tools: tuple[ToolSpec, ...] = (), **more: Any
) -> ConversationRequest:
    request = {name: more.pop(name) for name in ("instructions", "output") if name in more}
    return ConversationRequest(agent, ModelRequest(Messages(messages).view(), tools=tools, **request), **more)


async def answered(agents: ServedAgents, request: ConversationRequest) -> tuple[Message, Answered]:
    """Return what was said, and how it ended."""
    whole = ReplyParts()
    ended = await (await Conversation.of(agents, request)).answer(whole.say)
    return message_of(whole.parts()), ended


@tool
def look() -> str:
    """Look."""
    return "seen"


async def test_what_an_agent_says_is_said_and_its_own_tools_are_not_shown() -> None:
    replies: list[Any] = [
        [ThinkingDelta("Hm.", signature="s"), TextDelta("I look."), tool_call("look")],
        [TextDelta("It is "), TextDelta("there.")],
    ]
    model = ScriptedModel(*replies)
    agents = ServedAgents([Agent(model, name="desk", tools=[look])], None, 9)
    said, ended = await answered(agents, asked(user("Is it there?"), instructions="Be brief."))
    assert (said.text, said.thinking, said.tool_calls) == ("I look.\n\nIt is there.", "Hm.", ())
    assert ended.finish == "stop"
    assert [request.instructions for request in model.calls] == ["Be brief.", "Be brief."]
    again, _ = await answered(agents, asked(user("Is it there?"), instructions="Be brief.", run_id=ended.run_id))
    assert again.text == said.text  # from the record: nothing is called
    assert len(model.calls) == 2


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])
async def test_a_run_waits_for_the_results_of_tools_of_the_client(elsewhere: bool, tmp_path: Path) -> None:
    """Also together with a tool of its own; its result is not lost though the client does not see it."""
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    both = [tool_call("weather", city="Oslo"), tool_call("look"), tool_call("weather", city="Rome")]

    def serve(*replies: Any) -> tuple[ScriptedModel, ServedAgents]:
        model = ScriptedModel(*replies)
        return model, ServedAgents([Agent(model, name="desk", tools=[look])], store, 9)

    model, agents = serve(both, "Rain and sun.")
    said, ended = await answered(agents, asked(user("Rain?"), tools=(WEATHER,)))
    assert ended.finish == "tool_calls"
    assert [(call.name, call.parsed()) for call in said.tool_calls] == [
        ("weather", {"city": "Oslo"}),
        ("weather", {"city": "Rome"}),
    ]
    assert len({call.id for call in said.tool_calls}) == 2
    if elsewhere:
        model, agents = serve("Rain and sun.")
    results = tuple(ToolResult(call.id, "", text) for call, text in zip(said.tool_calls, ("rain", "sun"), strict=True))
    history = (user("Rain?"), said, Message("tool", results))
    final, last = await answered(agents, asked(*history, tools=(WEATHER,)))
    assert (final.text, last.finish, last.run_id) == ("Rain and sun.", "stop", ended.run_id)
    sent = [result.text for message in model.last.messages for result in message.tool_results]
    assert sent == ["rain", "seen", "sun"]


async def test_some_results_are_not_enough() -> None:
    calls = [tool_call("weather", city="Oslo"), tool_call("weather", city="Rome")]
    agents = ServedAgents([Agent(ScriptedModel(calls, "Done."), name="desk")], None, 9)
    said, _ = await answered(agents, asked(user("Rain?"), tools=(WEATHER,)))
    first = Message("assistant", said.tool_calls[:1])
    history = (user("Rain?"), first, Message("tool", (ToolResult(said.tool_calls[0].id, "", "rain"),)))
    again, ended = await answered(agents, asked(*history, tools=(WEATHER,)))
    assert ended.finish == "tool_calls"
    assert [call.id for call in again.tool_calls] == [said.tool_calls[1].id]


async def test_results_of_calls_that_no_run_here_made_are_part_of_the_conversation() -> None:
    for call_id in ("toolu_1", "call_unknown_0123456789abcdef"):
        call = ToolCall(call_id, "weather", '{"city":"Oslo"}')
        model = ScriptedModel("Rain.")
        agents = ServedAgents([Agent(model, name="desk")], None, 9)
        history = (user("Rain?"), Message("assistant", (call,)), Message("tool", (ToolResult(call_id, "", "rain"),)))
        said, _ = await answered(agents, asked(*history, tools=(WEATHER,)))
        assert said.text == "Rain."
        assert model.last.messages[-1].tool_results[0].text == "rain"


async def test_an_answer_that_is_no_text_is_said_as_json() -> None:
    @flow
    async def add(text: str) -> dict[str, int]:
        return {"length": len(text)}

    typed = Agent(ScriptedModel(tool_call("final_answer", value=[1, 2])), name="typed", output=list[int])
    agents = ServedAgents([add, typed], None, 9)
    assert (await answered(agents, asked(user("four"), agent="add")))[0].text == '{"length":4}'
    assert (await answered(agents, asked(user("four"), agent="typed")))[0].text == "[1,2]"


@pytest.mark.parametrize("native", [False, True])
async def test_an_output_schema_of_the_client_reaches_the_model(native: bool) -> None:
    model = ScriptedModel('{"city":"Oslo"}', output_modes=("native",) if native else ("tool", "prompted"))
    agents = ServedAgents([Agent(model, name="desk")], None, 9)
    output = OutputSchema("city", CITY)
    assert (await answered(agents, asked(user("Where?"), output=output)))[0].text == '{"city":"Oslo"}'
    assert (model.last.output == output) is native
    assert ("JSON Schema" in (model.last.instructions or "")) is not native


async def test_failures_have_a_status() -> None:
    async def broken(request: ModelRequest, ctx: Context) -> ModelResponse:
        raise ValueError("broken")

    agents = ServedAgents([Agent(broken, name="failing")], None, 1)
    with pytest.raises(NotAnswered, match="broken") as raised:
        await answered(agents, asked(user("x"), agent="failing"))
    assert (raised.value.status, "ValueError" in str(raised.value), ".py" in str(raised.value)) == (500, True, False)
    mistaken = ServedAgents([Agent(ScriptedModel(ConfigurationError("no key")), name="desk")], None, 1)
    with pytest.raises(NotAnswered, match="no key") as raised:
        await answered(mistaken, asked(user("x")))
    assert raised.value.status == 500
    with pytest.raises(RunNotFound):
        await answered(agents, asked(user("x"), agent="nobody"))
    with pytest.raises(EmptyPrompt):
        await answered(agents, asked(agent="failing"))


@pytest.mark.parametrize("name", ["look", "no name", "x" * 65])
async def test_wrong_tools_of_the_client_are_refused(name: str) -> None:
    agents = ServedAgents([Agent(ScriptedModel("x"), name="desk", tools=[look])], None, 9)
    with pytest.raises(ConfigurationError):
        await answered(agents, asked(user("x"), tools=(ToolSpec(name, "", CITY),)))


async def test_a_flow_takes_no_tools_of_the_client() -> None:
    @flow
    async def add(text: str) -> str:
        return text

    with pytest.raises(ConfigurationError, match="not a single agent"):
        await answered(ServedAgents([add], None, 9), asked(user("x"), agent="add", tools=(WEATHER,)))
