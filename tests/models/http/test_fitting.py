"""Names, ids and arguments in the forms that providers accept, and whole conversations with a fake provider."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from tests.provider.body_quirks import plain_for_stream
from tests.provider.ending_quirks import usage_everywhere
from tests.provider.reply_quirks import empty_reply
from ziggurat import Agent, Message, ToolCall, ToolResult, stack, user
from ziggurat.errors import StreamInterrupted
from ziggurat.events import Delta, Event
from ziggurat.fake_provider import FakeProvider, cut, status
from ziggurat.http.sse import ServerEvent
from ziggurat.layers import fallback
from ziggurat.messages import Transcript, assistant, tool_call, tool_message
from ziggurat.messages.message import ToolCallDelta
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.models.anthropic import Reader as AnthropicReader
from ziggurat.models.http.dialect import DIALECTS, at_address
from ziggurat.models.http.fitting import Names, OwnIds, fitted, object_text, without_end
from ziggurat.models.openai import Reader as ChatReader
from ziggurat.models.openai_responses import Reader as ResponsesReader
from ziggurat.providers import resolve
from ziggurat.tools import raw_tool

RULES = sorted({rule for each in DIALECTS.values() for rule in (each.name_rule, each.id_rule, each.key_rule) if rule})
KEY = DIALECTS["anthropic"].key_rule


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def listener(event: Event) -> None:
    """Ask for a stream."""


@given(st.lists(st.text(max_size=120), unique=True, max_size=20), st.sampled_from(RULES))
def test_every_text_gets_a_form_of_its_own(texts: list[str], rule: str) -> None:
    forms = [fitted(text, rule) for text in texts]
    assert all(re.fullmatch(rule, form) for form in forms)
    assert len(set(forms)) == len(texts)
    assert [fitted(form, rule) for form in forms] == forms
    assert all(form == text for form, text in zip(forms, texts, strict=True) if re.fullmatch(rule, text))


@given(
    st.text(max_size=40) | st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=4).map(json.dumps)
)
def test_arguments_are_always_an_object(text: str) -> None:
    made = json.loads(object_text(text))
    assert made == ({} if not text.strip() else {"invalid_arguments": text.encode("utf-8", "replace").decode()})


@given(st.dictionaries(st.text(max_size=80), st.integers(), max_size=4))
def test_an_object_stays_as_it_is_but_for_its_names(fields: dict[str, int]) -> None:
    text = json.dumps(fields)
    assert object_text(text) == text
    made = json.loads(object_text(text, KEY))
    assert [*made.values()] == [*fields.values()]
    assert all(re.fullmatch(KEY, name) for name in made)


def test_ids_that_repeat_are_told_apart() -> None:
    turn = [assistant(ToolCall("1", "add"), ToolCall("2", "add")), tool_message(ToolResult("1", "add", "3"))]
    messages: list[Message] = [user("go"), *turn, *turn, user("done")]
    own = OwnIds()
    for length in (2, 4, 6):  # as a run does, which asks after every step
        fitting = own.follow(messages[:length])
    assert [at for at, each in enumerate(fitting) if each is not messages[at]] == [3, 4]
    assert [call.id for call in fitting[3].tool_calls] == ["1#2", "2#2"]
    assert fitting[4].tool_results[0].id == "1#2"


def test_spaces_at_the_end_of_what_a_model_continues_are_left_out() -> None:
    assert without_end(assistant("It is \n")) == assistant("It is")
    assert without_end(user("It is \n")) is None


async def test_another_provider_goes_on_in_the_middle_of_a_run() -> None:
    first = ToolCall("call_AbCdEf0123456789abcdefgh", "functions.add", '{"a": 1')
    async with FakeProvider(first, quirks=[status(503).after(1)]) as one, FakeProvider("3") as two:
        model = fallback(resolve(f"openai@{one.url}/v1:gpt"), resolve(f"mistral@{two.url}/v1:small"))
        run = await Agent(model, tools=[add]).run("1 + 2?")
        said, answered = two.last.json["messages"][1:]
    assert run.messages[1].tool_calls == (first,)
    assert said["tool_calls"][0]["id"] == answered["tool_call_id"] != first.id


@pytest.mark.parametrize("streamed", [False, True])
async def test_names_of_parameters_are_mapped_back(streamed: bool) -> None:
    parameters = {"type": "object", "properties": {"$top": {"type": "integer"}}, "required": ["$top"]}
    got: list[Any] = []
    drive = raw_tool(got.append, name="list_items", description="List.", parameters=parameters)
    key = fitted("$top", KEY)
    async with FakeProvider(ToolCall("c1", "list_items", f'{{"{key}": 5}}'), "done") as server:
        agent = Agent(f"anthropic@{server.url}/v1:m", tools=[drive])
        run = await agent.run("?", listeners=[listener] if streamed else [])
        shown, sent = server.requests[0].json["tools"][0]["input_schema"], server.last.json["messages"][1]["content"][0]
    assert got == [{"$top": 5}]
    assert run.messages[1].tool_calls[0].parsed() == {"$top": 5}
    assert [*shown["properties"]] == shown["required"] == [*sent["input"]] == [key]


@pytest.mark.parametrize("wire", ["openai", "openai-responses"])
async def test_what_is_null_in_a_strict_call_is_left_out(wire: str) -> None:
    async with FakeProvider(tool_call("add", a=1, b=None), "3") as server:
        run = await Agent(f"{wire}@{server.url}/v1:m", tools=[add]).run("?")
        [tool] = server.requests[0].json["tools"]
    assert tool.get("function", tool)["strict"] is True
    assert tool.get("function", tool)["parameters"]["required"] == ["a", "b"]
    assert run.messages[1].tool_calls[0].parsed() == {"a": 1}
    assert run.messages[2].tool_results[0].text == "3"


class _City(Struct):
    name: str


@pytest.mark.parametrize("provider", ["gemini", "groq"])
@pytest.mark.parametrize("tools", [[], [add]])
async def test_a_schema_beside_tools_becomes_a_tool(provider: str, tools: list[Callable[..., Any]]) -> None:
    answer = tool_call("final_answer", name="Ur") if tools else '{"name": "Ur"}'
    async with FakeProvider(answer) as server:
        run = await Agent(f"{provider}@{server.url}/v1:m", tools=tools, output=_City).run("?")
        sent = server.last.json
    assert run.output == _City("Ur")
    assert sent.keys() & {"tools", "response_format"} == ({"tools"} if tools else {"response_format"})
    assert sent.get("tool_choice") == ("required" if tools else None)


@pytest.mark.parametrize("provider", ["openai", "openai-responses", "mistral", "gemini", "anthropic"])
async def test_an_empty_reply_does_not_spoil_a_session(provider: str) -> None:
    async with FakeProvider(always="fine", quirks=[empty_reply().first(1)]) as server:
        agent = Agent(f"{provider}@{server.url}/v1:m", store="memory:")
        await agent.run("hello", session="s")
        await agent.run("are you there?", session="s")
        sent = server.last.json
    assert "assistant" not in [message["role"] for message in sent.get("messages", sent.get("input"))]


async def test_a_cut_stream_counts_what_it_has_sent() -> None:
    async with FakeProvider(["a ", "long ", "story"], quirks=[usage_everywhere(), cut(-40)]) as server:
        run = await Agent(stack(resolve(f"vllm@{server.url}/v1:any"))).run("go", listeners=[listener])
    assert (run.usage.input, run.usage.output, run.usage.estimated) == (3, 3, False)


# -- a second reply in one stream --------------------------------------------------------------------------------------


def _chat(identity: str) -> list[dict[str, Any]]:
    call = {"index": 0, "id": identity, "function": {"name": "pay", "arguments": '{"to": "ad'}}
    head = {"id": identity, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
    return [head, {"id": identity, "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}]


def _messages(identity: str) -> list[dict[str, Any]]:
    block = {"type": "tool_use", "id": f"t-{identity}", "name": "pay", "input": {}}
    return [
        {"type": "message_start", "message": {"id": identity, "usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
    ]


def _responses(identity: str) -> list[dict[str, Any]]:
    item = {"type": "message", "id": f"msg-{identity}", "content": []}
    return [
        {"type": "response.created", "response": {"id": identity}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
    ]


@pytest.mark.parametrize(
    ("provider", "reader", "begin"),
    [
        ("openai", ChatReader, _chat),
        ("anthropic", AnthropicReader, _messages),
        ("openai-responses", ResponsesReader, _responses),
    ],
)
def test_two_replies_in_one_stream_are_never_joined(provider: str, reader: Any, begin: Any) -> None:
    reading = reader(DIALECTS[provider])
    for data in begin("one"):
        reading.push(ServerEvent(data.get("type", "message"), json.dumps(data)))
    with pytest.raises(StreamInterrupted) as caught:
        for data in begin("two"):
            reading.push(ServerEvent(data.get("type", "message"), json.dumps(data)))
    assert isinstance(caught.value.partial, Message)
    again = reader(DIALECTS[provider])
    for data in (begin("one")[0], *begin("one")):  # the beginning, sent twice
        again.push(ServerEvent(data.get("type", "message"), json.dumps(data)))


# -- thoughts of a server at an address of one's own -------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_go_back_in_the_field_in_which_they_came(field: str) -> None:
    from ziggurat import ModelRequest
    from ziggurat.messages import Transcript
    from ziggurat.models.openai import from_wire, to_wire

    own = at_address(DIALECTS["openai"], "https://llm.example/v1")
    call = {"id": "c1", "function": {"name": "add", "arguments": "{}"}}
    body = {"choices": [{"message": {"content": "", field: "I add.", "tool_calls": [call]}, "finish_reason": "stop"}]}
    said = from_wire(json.dumps(body).encode(), own).message
    messages = (user("?"), said, tool_message(ToolResult("c1", "add", "3")))
    for dialect, expected in ((own, "I add."), (DIALECTS["openai"], None)):
        sent = to_wire(ModelRequest(Transcript.of(*messages)), model="m", stream=False, dialect=dialect)
        assert json.loads(sent)["messages"][1].get(field) == expected
    assert at_address(DIALECTS["openai"], DIALECTS["openai"].base_url).reasoning_reply == ""


@pytest.mark.parametrize("after", [False, True])
async def test_calls_count_whatever_the_reason_at_the_end(after: bool) -> None:
    reader = ChatReader(DIALECTS["openai"])
    call = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a": 1}'}}
    chunks = [({}, "stop"), ({"tool_calls": [call]}, None)]
    for delta, reason in chunks if after else reversed(chunks):
        data = {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        reader.push(ServerEvent("message", json.dumps(data)))
    assert reader.finish().finish == "tool_calls"


@given(st.lists(st.integers(0, 200), max_size=6), st.text('$.[a_"', min_size=1, max_size=12))
def test_pieces_of_a_call_show_the_names_that_are_meant(cuts: list[int], key: str) -> None:
    name, dialect = "a.tool", DIALECTS["anthropic"]
    made = fitted(key, KEY)
    text = json.dumps({made: '"', "x": ['"a', made[:3]]})
    request = ModelRequest(
        Transcript.of(user("?")), tools=(ToolSpec(name, parameters={"properties": {key: {}, "x": {}}}),)
    )
    names, places = Names(request, dialect), [0, *sorted(min(each, len(text)) for each in cuts), len(text)]
    pieces = [ToolCallDelta(0, text[a:b], "c", fitted(name, dialect.name_rule)) for a, b in pairwise(places)]
    shown = [names.shown(each) for each in pieces]
    assert {each.name for each in shown if isinstance(each, ToolCallDelta)} == {name}
    written = "".join(each.arguments for each in shown if isinstance(each, ToolCallDelta))
    assert json.loads(written) == {key: '"', "x": ['"a', made[:3]]}


@pytest.mark.parametrize("streamed", ["a stream", "a plain reply"])
async def test_a_stream_shows_the_names_of_the_tool(streamed: str) -> None:
    parameters = {"type": "object", "properties": {"$top": {"type": "integer"}}, "required": ["$top"]}
    drive = raw_tool(lambda given: "done", name="list_items", description="List.", parameters=parameters)
    call = ToolCall("c1", fitted("list_items", DIALECTS["anthropic"].name_rule), f'{{"{fitted("$top", KEY)}": 5}}')
    quirks = [] if streamed == "a stream" else [plain_for_stream()]
    deltas: list[Any] = []
    async with FakeProvider(call, "done", quirks=quirks) as server:
        await Agent(f"anthropic@{server.url}/v1:m", tools=[drive]).run("?", listeners=[deltas.append])
    pieces = [each for event in deltas if isinstance(event, Delta) and isinstance(each := event.delta, ToolCallDelta)]
    assert "".join(each.arguments for each in pieces) == '{"$top": 5}'
    assert {each.name for each in pieces} <= {"list_items", ""}
