"""Conversations on spans fit the schemas of the conventions: input and output messages, instructions, definitions.

Those schemas allow any part with a type of its own; here a part of a type that they know must fit what they say of it.
"""

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, strategies as st

from ziggurat import Image, Message, ModelRequest, ModelResponse, Text, ToolCall, ToolResult
from ziggurat.core import root
from ziggurat.core.context import JOURNAL
from ziggurat.journal import LocalJournal
from ziggurat.messages import Audio, File, Thinking, ToolSpec, Transcript
from ziggurat.observe.conventions import content_of_request, content_of_response

TEXT: dict[str, Any] = {"type": "string"}
PERHAPS: dict[str, Any] = {"type": ["string", "null"]}
MODALITY = {"modality": {"enum": ["image", "video", "audio", "document"]}, "mime_type": PERHAPS}


def known(kind: str, required: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of the parts of a type."""
    return {"type": "object", "properties": {"type": {"const": kind}, **properties}, "required": ["type", *required]}


PARTS = [
    known("text", ["content"], content=TEXT),
    known("reasoning", ["content"], content=TEXT),
    known("tool_call", ["name"], id=PERHAPS, name=TEXT),
    known("tool_call_response", ["response"], id=PERHAPS),
    known("blob", ["modality", "content"], content={"type": "string", "pattern": "^[A-Za-z0-9+/]*=*$"}, **MODALITY),
    known("uri", ["modality", "uri"], uri={"type": "string", "not": {"pattern": "^data:"}}, **MODALITY),
    known("file", ["modality", "file_id"], file_id=TEXT, **MODALITY),
]
MESSAGE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "role": {"enum": ["system", "user", "assistant", "tool"]},
        "parts": {"type": "array", "items": {"anyOf": PARTS}},
        "name": PERHAPS,
    },
    "required": ["role", "parts"],
}
FINISH = {"finish_reason": {"enum": ["stop", "length", "content_filter", "tool_call", "error"]}}
ANSWER = {**MESSAGE, "properties": {**MESSAGE["properties"], **FINISH}, "required": ["role", "parts", "finish_reason"]}
DEFINITION = known("function", ["name"], name=TEXT, description=PERHAPS, parameters={"type": "object"})
SCHEMAS = {
    "gen_ai.input.messages": {"type": "array", "items": MESSAGE},
    "gen_ai.output.messages": {"type": "array", "items": ANSWER},
    "gen_ai.system_instructions": {"type": "array", "items": {"anyOf": PARTS}},
    "gen_ai.tool.definitions": {"type": "array", "items": DEFINITION},
}

texts = st.text(max_size=20)
contents = {
    "data": st.binary(max_size=20),
    "url": st.sampled_from(["https://example.com/a", "data:image/png;base64,QUI="]),
}
medias = st.one_of(
    *(st.builds(kind, **{name: values}) for kind in (Image, Audio, File) for name, values in contents.items()),
    st.builds(File, id=st.just("file-1")),
)
arguments = st.sampled_from(["{}", '{"a": 1}', "", "[1]", "no JSON", '{"a":' * 1000])
calls = st.builds(ToolCall, id=texts, name=texts, arguments=arguments)
results = st.builds(
    ToolResult,
    id=texts,
    name=texts,
    content=st.one_of(texts, st.lists(st.one_of(st.builds(Text, texts), medias), max_size=3).map(tuple)),
    error=st.sampled_from([None, "permanent", "transient"]),
)
thoughts = st.builds(Thinking, text=texts, signature=st.none() | texts, redacted=st.none() | texts)
parts = st.one_of(st.builds(Text, texts), medias, thoughts, calls, results)
roles = st.sampled_from(["system", "user", "assistant", "tool"])
messages = st.builds(Message, roles, st.lists(parts, max_size=4).map(tuple))


IN_A_RUN = root().within(JOURNAL, LocalJournal())


def check(attributes: Any) -> None:
    """Raise if an attribute does not fit its schema."""
    for name, value in attributes.items():
        jsonschema_rs.validate(SCHEMAS[name], msgspec.json.decode(value))


@given(st.lists(messages, max_size=4).map(tuple), st.none() | texts)
def test_what_is_asked_fits(conversation: tuple[Message, ...], instructions: str | None) -> None:
    spec = ToolSpec("look", "Look.", {"type": "object", "properties": {"place": {"type": "string"}}})
    check(
        content_of_request(
            ModelRequest(Transcript.of(*conversation), instructions=instructions, tools=(spec,)), IN_A_RUN
        )
    )


@given(
    st.lists(parts, max_size=4),
    st.sampled_from(["stop", "length", "tool_calls", "content_filter", "refusal", "malformed"]),
)
def test_what_is_answered_fits(said: list[Any], finish: Any) -> None:
    check(content_of_response(ModelResponse(Message("assistant", tuple(said)), finish=finish), IN_A_RUN))


def test_media_in_the_result_of_a_tool_are_kept() -> None:
    result = ToolResult("1", "look", (Text("There:"), Image(data=b"AB")))
    attributes = content_of_request(ModelRequest(Transcript.of(Message("tool", (result,)))), IN_A_RUN)
    [message] = msgspec.json.decode(str(attributes["gen_ai.input.messages"]))
    assert [part["type"] for part in message["parts"][0]["response"]] == ["text", "blob"]


@pytest.mark.parametrize("part", [{"type": "text"}, {"type": "uri", "uri": "x"}, {"type": "picture"}])
def test_the_schemas_refuse_what_does_not_fit(part: Any) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(SCHEMAS["gen_ai.input.messages"], [{"role": "user", "parts": [part]}])
