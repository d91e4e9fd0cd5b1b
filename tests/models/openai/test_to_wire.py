import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from tests.models.openai.inverse import messages_of
from ziggurat import ConfigurationError, Image, Message, ModelRequest, ModelSettings, Text, ToolCall, ToolResult, user
from ziggurat.messages import Audio, File, Thinking, ToolSpec, Transcript, assistant, system, tool_message
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.message import Part
from ziggurat.messages.model import OutputSchema
from ziggurat.models.http.dialect import DIALECTS, Dialect
from ziggurat.models.openai import to_wire

OPENAI = DIALECTS["openai"]
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})


def wire(*messages: Message, dialect: str | Dialect = OPENAI, stream: bool = False, **request: Any) -> dict[str, Any]:
    known = DIALECTS[dialect] if isinstance(dialect, str) else dialect
    asked = ModelRequest(Transcript.of(*messages), **request)
    body: dict[str, Any] = json.loads(to_wire(asked, model="m", stream=stream, dialect=known))
    return body


def settings(dialect: str = "openai", tools: tuple[ToolSpec, ...] = (ADD,), **values: Any) -> dict[str, Any]:
    body = wire(user("hi"), dialect=dialect, tools=tools, settings=ModelSettings(**values))
    return {name: body[name] for name in body if name not in ("model", "messages", "tools")}


def test_a_plain_question() -> None:
    assert wire(user("hi"), instructions="Be brief.") == {
        "model": "m",
        "messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}],
    }
    assert wire(user("hi"), instructions="x", dialect="groq")["messages"][0]["role"] == "system"
    assert wire(system("x"), dialect="groq")["messages"][0] == {"role": "system", "content": "x"}


@pytest.mark.parametrize("name", [name for name, each in DIALECTS.items() if each.wire == "openai" and each.files])
def test_a_dialect_under_another_name_writes_the_same(name: str) -> None:
    signed = assistant(Thinking(signature="s", id="google"), ToolCall("call-1", "add", "{}"))
    messages = (user(File(url="https://a.example/b.pdf")), assistant(Thinking("so"), "hi"), user("on"), signed)
    other = msgspec.structs.replace(DIALECTS[name], name="other")
    assert wire(*messages, dialect=other) == wire(*messages, dialect=name)


def test_a_stream_asks_for_usage_where_it_must() -> None:
    assert wire(user("hi"), stream=True)["stream_options"] == {"include_usage": True}
    mistral = wire(user("hi"), stream=True, dialect="mistral")
    assert mistral["stream"] is True
    assert "stream_options" not in mistral


def test_pictures_sound_and_documents_are_parts() -> None:
    message = user(
        "look",
        Image(b"abc", None, "image/jpeg", "low"),
        Image(url="https://x.example/a.png"),
        Audio(b"abc", None, "audio/mpeg"),
        File(b"%PDF", name="a.pdf", media_type="application/pdf"),
        File(id="file-1"),
        File(b"a,b", name="t.csv", media_type="text/csv"),
    )
    assert wire(message)["messages"][0]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,YWJj", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://x.example/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "YWJj", "format": "mp3"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
        {"type": "file", "file": {"file_id": "file-1"}},
        {"type": "text", "text": "t.csv:\na,b"},
    ]


def test_mistral_takes_documents_by_address() -> None:
    [message] = wire(user(File(url="https://x.example/a.pdf")), dialect="mistral")["messages"]
    assert message["content"] == [{"type": "document_url", "document_url": "https://x.example/a.pdf"}]


@pytest.mark.parametrize(
    ("part", "dialect", "hint"),
    [
        (Audio(url="https://x.example/a.mp3"), "openai", "bytes"),
        (File(b"x", media_type="application/pdf"), "ollama", "takes no documents"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_a_way_out(part: Part, dialect: str, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        wire(Message("user", (part,)), dialect=dialect)


def test_calls_and_results_side_by_side() -> None:
    body = wire(
        assistant("so:", ToolCall("1", "add", '{"a": 1}'), ToolCall("2", "add", "")),
        tool_message(ToolResult("1", "add", "2")),
        tool_message(ToolResult("2", "add", "3")),
    )
    said, one, two = body["messages"]
    assert said == {
        "role": "assistant",
        "content": "so:",
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}},
            {"id": "2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
        ],
    }
    assert one == {"role": "tool", "tool_call_id": "1", "content": "2"}
    assert two["tool_call_id"] == "2"


def test_results_in_one_message_become_several() -> None:
    body = wire(
        Message("tool", (ToolResult("call00001", "add", "2"), ToolResult("call00002", "add", "3"))), dialect="mistral"
    )
    assert [message["tool_call_id"] for message in body["messages"]] == ["call00001", "call00002"]
    assert body["messages"][0]["name"] == "add"


@pytest.mark.parametrize(("dialect", "content"), [("openai", {"content": None}), ("mistral", {"content": ""})])
def test_calls_without_text(dialect: str, content: dict[str, Any]) -> None:
    [said] = wire(assistant(ToolCall("1", "add")), dialect=dialect)["messages"]
    assert {name: said[name] for name in said if name == "content"} == content


def test_what_tools_show_follows_all_results_of_the_batch() -> None:
    picture = Image(url="https://x.example/a.png")
    body = wire(
        assistant(ToolCall("1", "draw"), ToolCall("2", "add")),
        tool_message(ToolResult("1", "draw", (picture,))),
        tool_message(ToolResult("2", "add", (Text("3"), Text("4")))),
        user("and?"),
    )
    assert [message["role"] for message in body["messages"]] == ["assistant", "tool", "tool", "user", "user"]
    shown = body["messages"][3]["content"]
    assert "draw" in shown[0]["text"]
    assert shown[1]["image_url"]["url"] == picture.url
    last = wire(tool_message(ToolResult("1", "draw", (picture,))))["messages"]
    assert [message["role"] for message in last] == ["tool", "user"]


THOUGHT = Thinking("hmm", "sig==", None, '{"format":"anthropic-claude-v1","index":0,"type":"reasoning.text"}')
HIDDEN = Thinking(
    "", None, "gAAA", '{"format":"openai-responses-v1","id":"rs_1","index":1,"type":"reasoning.encrypted"}'
)


def test_reasoning_details_go_back_as_they_came() -> None:
    [said] = wire(assistant(THOUGHT, HIDDEN, "done"), dialect="openrouter")["messages"]
    assert said["reasoning_details"] == [
        {"type": "reasoning.text", "text": "hmm", "signature": "sig==", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.encrypted", "data": "gAAA", "format": "openai-responses-v1", "id": "rs_1", "index": 1},
    ]
    assert said["content"] == "done"


@pytest.mark.parametrize(
    ("dialect", "field"), [("deepseek", "reasoning_content"), ("groq", "reasoning"), ("openrouter", "reasoning")]
)
def test_thoughts_go_back_in_the_field_of_the_dialect(dialect: str, field: str) -> None:
    [said] = wire(assistant(Thinking("hmm"), "done"), dialect=dialect)["messages"]
    assert said == {"role": "assistant", "content": "done", field: "hmm"}


def test_thoughts_stay_here_where_nobody_takes_them() -> None:
    [said] = wire(assistant(THOUGHT, "done"))["messages"]
    assert said == {"role": "assistant", "content": "done"}
    message = assistant(Thinking("", None, "AAA", "rs_1"), Thinking("", "sig", None, "{oh"), "done")
    for dialect in ("openrouter", "mistral", "gemini"):
        assert wire(message, user("?"), dialect=dialect)["messages"][0] == {"role": "assistant", "content": "done"}


def test_mistral_takes_thoughts_within_the_content() -> None:
    [said] = wire(assistant(Thinking("hmm"), "done"), dialect="mistral")["messages"]
    assert said["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]},
        {"type": "text", "text": "done"},
    ]


def test_googles_signature_returns_in_its_call() -> None:
    message = assistant(Thinking("", "S1", None, "google"), ToolCall("1", "add"), ToolCall("2", "add"))
    [said] = wire(message, dialect="gemini")["messages"]
    assert said["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "S1"}}
    assert "extra_content" not in said["tool_calls"][1]
    assert "extra_content" not in wire(message)["messages"][0]["tool_calls"][0]


def test_settings_by_dialect() -> None:
    chosen: dict[str, Any] = {"temperature": 0.5, "max_tokens": 9, "top_p": 0.1, "stop": ("a",), "seed": 7}
    chosen["reasoning"] = "low"
    assert settings(**chosen) == {
        "temperature": 0.5,
        "max_completion_tokens": 9,
        "top_p": 0.1,
        "stop": ["a"],
        "seed": 7,
        "reasoning_effort": "low",
    }
    mistral = settings("mistral", **chosen)
    assert (mistral["random_seed"], mistral["max_tokens"]) == (7, 9)
    assert "reasoning_effort" not in mistral
    assert settings("openrouter", reasoning="high")["reasoning"] == {"effort": "high"}
    assert "seed" not in settings("gemini", seed=7)


@pytest.mark.parametrize(
    ("dialect", "choice", "expected"),
    [
        ("openai", "auto", "auto"),
        ("openai", "required", "required"),
        ("mistral", "required", "any"),
        ("openai", "add", {"type": "function", "function": {"name": "add"}}),
    ],
)
def test_tool_choice(dialect: str, choice: str, expected: object) -> None:
    assert settings(dialect, tool_choice=choice)["tool_choice"] == expected


def test_tools_and_their_switches() -> None:
    function = {"name": "add", "description": "Add.", "parameters": ADD.parameters}
    assert wire(user("hi"), tools=(ADD,), dialect="vllm")["tools"] == [{"type": "function", "function": function}]
    assert settings(parallel_tool_calls=False) == {"parallel_tool_calls": False}
    assert settings("gemini", parallel_tool_calls=False) == {}
    assert settings(tools=(), parallel_tool_calls=False, tool_choice="auto") == {}


def test_own_and_extra_fields_go_as_they_are() -> None:
    search = {"type": "web_search"}
    extra = {"service_tier": "flex", "prompt_cache_key": "k", "temperature": 1, "tools": [search], "messages": []}
    body = wire(user("hi"), tools=(ADD,), settings=ModelSettings(temperature=0, extra=extra))
    assert (body["service_tier"], body["prompt_cache_key"], body["temperature"]) == ("flex", "k", 1)
    assert body["tools"][1] == search
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    own = msgspec.structs.replace(OPENAI, body={"store": False, "top_p": 0.9})
    body = wire(user("hi"), dialect=own, settings=ModelSettings(top_p=0.1))
    assert (body["store"], body["top_p"]) == (False, 0.1)


def test_structured_output() -> None:
    properties = {"a": {"type": "string"}}
    closed = {"type": "object", "properties": properties, "required": ["a"], "additionalProperties": False}
    body = wire(user("hi"), output=OutputSchema("City", closed))
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "City", "schema": closed, "strict": True},
    }
    loose = {"type": "object", "properties": {"a": {}}}
    assert wire(user("hi"), output=OutputSchema("City", loose))["response_format"]["json_schema"]["strict"] is False
    assert wire(user("hi"), output=OutputSchema("City", closed), dialect="deepseek")["response_format"] == {
        "type": "json_object"
    }


def test_names_and_texts_are_made_of_what_the_wire_allows() -> None:
    assert wire(user("hi", name="Ann Lee"))["messages"][0]["name"] == "Ann_Lee"
    assert wire(user("a\ud83d"))["messages"][0]["content"] == "a?"


def test_each_message_is_encoded_once_over_a_run() -> None:
    conversation = Conversation([user("hi")])
    for number in range(3):
        to_wire(ModelRequest(conversation.view()), model="m", stream=False, dialect=OPENAI)
        conversation.log[number] = user("changed, which shows only if it is encoded again")
        conversation.append(user(str(number)))
    body = to_wire(ModelRequest(conversation.view()), model="m", stream=True, dialect=OPENAI)
    assert b"changed" not in body
    assert len(json.loads(body)) == 4


some = st.text(min_size=1, max_size=8)
media = st.one_of(
    st.builds(Image, st.binary(min_size=1, max_size=4), st.none(), st.just("image/png"), st.none() | st.just("low")),
    st.builds(Audio, st.binary(min_size=1, max_size=4), st.none(), st.just("audio/wav")),
    st.builds(lambda data: File(data, None, None, "a.pdf", "application/pdf"), st.binary(min_size=1, max_size=4)),
)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,7}", fullmatch=True)
calls = st.builds(ToolCall, some, names, st.builds(lambda value: json.dumps({"a": value}), some))
said = st.builds(
    lambda thought, text, made: Message(
        "assistant", (*([Thinking(thought)] if thought else []), *([Text(text)] if text else []), *made)
    ),
    st.text(max_size=5),
    st.text(max_size=5),
    st.lists(calls, max_size=3),
)
asked = st.lists(st.builds(Text, some) | media, min_size=1, max_size=3).map(lambda parts: Message("user", tuple(parts)))
heard = st.builds(ToolResult, some, some, st.text(max_size=5)).map(tool_message)


@given(st.lists(asked | said | heard, max_size=6), st.sampled_from(["mistral", "deepseek", "groq", "openrouter"]))
def test_a_server_reads_what_was_meant(messages: list[Message], dialect: str) -> None:
    known = msgspec.structs.replace(
        DIALECTS[dialect], files=True, tool_names=True, ordered_roles=False, id_rule="(?s).+", name_rule="(?s).+"
    )
    body = to_wire(ModelRequest(Transcript.of(*messages)), model="m", stream=False, dialect=known)
    thoughts = dialect == "mistral"  # which has them in the content, so that a message of these alone is not empty
    sent = [
        each
        for each in messages
        if each.role != "assistant" or each.text.strip() or each.tool_calls or (thoughts and each.thinking)
    ]
    assert [_meant(message) for message in messages_of(body)] == [_meant(message) for message in sent]


def _meant(message: Message) -> object:
    """Return what must survive; Mistral's documents have no names, audio has its format, and ids that repeat change."""
    parts: list[object] = []
    for part in message.parts:
        if isinstance(part, File):
            parts.append(msgspec.structs.replace(part, name=None))
        elif isinstance(part, (ToolCall, ToolResult)):
            parts.append(msgspec.structs.replace(part, id=part.id.partition("#")[0]))
        elif part != Thinking(" "):  # which fills the field where there is no thought
            parts.append(part)
    return message.role, parts
