"""On every wire a reply is kept, whatever its usage says: a figure that cannot be is unknown, and is estimated."""

import re
from typing import Any, get_args

import msgspec
import pytest

from tests.samples import pairs
from ziggurat import ModelRequest, ModelResponse, Text, Usage, user
from ziggurat.events import TextDelta
from ziggurat.http.sse import ServerEvent
from ziggurat.messages import Transcript
from ziggurat.messages.usage import with_usage
from ziggurat.models import anthropic, openai, openai_responses
from ziggurat.models.http.dialect import dialect_of
from ziggurat.wires.types import ReplyHead, Wire
from ziggurat.wires.writer import WRITERS, LiveReply

WIRES: dict[Wire, tuple[Any, str]] = {
    "chat": (openai, "openai"),
    "responses": (openai_responses, "openai"),
    "messages": (anthropic, "anthropic"),
}
WRONG = ["1e400", "-1e400", "NaN", "Infinity", "-Infinity", "null", "-1", "-2.5", "true", '"many"', "[]", "{}"]
WRONG += [str(2**53), "1" + "0" * 30]
FIGURES = {"input": ("prompt_tokens", "input_tokens"), "output": ("completion_tokens", "output_tokens")}
STATED = Usage(30, 20, 4, 2, 5, requests=1)


def _with(figure: str, literal: str, text: str) -> str:
    """Return a reply or an event with another figure, or another usage; a message's head states the first of them."""
    names = "|".join(FIGURES.get(figure, ()))
    usage = r'"usage":\{(?:[^{}]|\{[^{}]*\})*\}'
    if not names:
        return re.sub(usage, f'"usage":{literal}', text)
    return re.sub(usage, lambda found: re.sub(rf'("(?:{names})":)\d+', rf"\g<1>{literal}", found[0]), text)


def _read(wire: Wire, figure: str, literal: str, stream: bool) -> ModelResponse:
    module, provider = WIRES[wire]
    writer = WRITERS[wire](ReplyHead("1", "m", {"stream_options": {"include_usage": True}}, usage=STATED))
    if not stream:
        body = msgspec.json.encode(writer.plain([Text("hello there")], "stop", STATED)).decode()
        response: ModelResponse = module.from_wire(_with(figure, literal, body).encode(), dialect_of(provider))
        return response
    reader = module.Reader(dialect_of(provider))
    live = LiveReply(writer)
    events = [*live.push(TextDelta("hello there")), *live.finish("stop", STATED)]
    for event in events:
        data = event.data if isinstance(event.data, str) else msgspec.json.encode(event.data).decode()
        reader.push(ServerEvent(event.event, _with(figure, literal, data)))
    whole: ModelResponse = reader.finish()
    return whole


def test_every_wire_is_tried() -> None:
    assert {*WIRES} == {*get_args(Wire)}
    assert all(_read(wire, "input", "30", stream).usage.input for wire in WIRES for stream in (False, True))


@pytest.mark.parametrize(
    ("wire", "figure", "literal", "stream"), pairs(WIRES, [*FIGURES, "usage"], WRONG, [False, True])
)
def test_a_reply_is_kept_and_a_figure_that_cannot_be_is_estimated(
    wire: Wire, figure: str, literal: str, stream: bool
) -> None:
    response = _read(wire, figure, literal, stream)
    assert (response.message.text, response.finish) == ("hello there", "stop")
    unknown = [*FIGURES] if figure == "usage" else [figure]
    assert [getattr(response.usage, name) for name in unknown] == [None] * len(unknown)
    usage = with_usage(response, ModelRequest(Transcript.of(user("hi")))).usage
    assert usage.estimated
    assert all(getattr(usage, name) is not None for name in FIGURES)
