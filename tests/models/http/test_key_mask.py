"""No key that a server sends back is seen anywhere: every field of every wire's reply, every way to write a key."""

import asyncio
import json
import logging
import time
import traceback
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from tests.models.http.support import Asked, serving
from tests.samples import pairs, sample
from ziggurat import Agent, Event, Message, ModelRequest, Text, ToolCall, tool
from ziggurat.core import root
from ziggurat.errors import ModelError
from ziggurat.events import Fold, PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages import Conversation, Thinking
from ziggurat.models import FunctionModel
from ziggurat.models.http.key_mask import KeyFilter, KeyMask, mask_of, secrets_in
from ziggurat.providers import DIALECTS, Provider
from ziggurat.stores import LocalLogs
from ziggurat.testing.server import FakeProvider
from ziggurat.tools import tool_call

CANARY = "sk-Canary/0815+aZ_bird-Q7"
WIRES = {"openai": "/v1/chat/completions", "openai-responses": "/v1/responses", "anthropic": "/v1/messages"}


def each_character(form: str) -> Callable[[str], str]:
    return lambda key: "".join(form.format(code=ord(character)) for character in key)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "upper case": str.upper,
    "lower case": str.lower,
    "URL": lambda key: quote(key, safe=""),
    "URL, every character": each_character("%{code:02X}"),
    "URL, twice": lambda key: quote(quote(key, safe=""), safe=""),
    "JSON escapes": each_character("\\u{code:04x}"),
    "JSON escapes, upper case": each_character("\\u{code:04X}"),
    "JSON in JSON": each_character("\\\\u{code:04x}"),
    "JSON slash": lambda key: key.replace("/", "\\/"),
    "one JSON escape": lambda key: key.replace("-", "\\u002d"),
    "HTML": each_character("&#{code};"),
    "HTML, hexadecimal": each_character("&#x{code:X};"),
    "HTML, four digits": each_character("&#{code:04};"),
    "HTML, four hexadecimal digits": each_character("&#x{code:04x};"),
    "escapes of Python": each_character("\\x{code:02x}"),
    "hexadecimal digits": lambda key: key.encode().hex(),
    "base64": lambda key: b64encode(key.encode()).decode(),
    "basic authentication": lambda key: b64encode(b"user:" + key.encode()).decode(),
    "base64 for URLs": lambda key: urlsafe_b64encode(b"a:" + key.encode() + b"!").decode(),
}


def assert_hidden(seen: str, spelling: str = "plain") -> None:
    lowered = seen.lower()
    for form in {CANARY, SPELLINGS[spelling](CANARY), json.dumps(SPELLINGS[spelling](CANARY))[1:-1]}:
        part = form.lower().rstrip("=")[:-2] if "base64" in spelling or "basic" in spelling else form.lower()
        assert part[len(part) // 3 :] not in lowered


@tool
def look(text: str) -> str:
    return "found"


def recorded(wire: str, streamed: bool) -> bytes:
    """Return a reply of the fake provider with a thought, a text and a call, as it is sent."""
    parts = (Thinking("I think.", "signed"), Text("A text."), tool_call("look", text="x"))
    with FakeProvider(always=Message("assistant", parts)) as server:
        model = Provider(DIALECTS[wire])("m", base_url=f"{server.url}/v1", key="any")
        heard = root().heard_by(lambda event: None) if streamed else root()
        asyncio.run(model(ModelRequest(Conversation([Message("user", (Text("x"),))]).view()), heard))
        answer = httpx.post(f"{server.url}{WIRES[wire]}", content=server.last.body, headers={"x-api-key": "any"})
    return answer.content


HERE = "@KEY@"


def with_leaf_changed(value: Any) -> Iterator[Any]:
    """Yield the value once for each of its texts and numbers, which is replaced by one with the key."""
    if isinstance(value, dict):
        for name, each in value.items():
            for changed in with_leaf_changed(each):
                yield {**value, name: changed}
        yield {**value, HERE: HERE}
    elif isinstance(value, list):
        for number, each in enumerate(value):
            for changed in with_leaf_changed(each):
                yield [*value[:number], changed, *value[number + 1 :]]
    elif isinstance(value, str):
        yield f"{value}{HERE}"
        yield HERE
    else:
        yield HERE


def replies(wire: str, streamed: bool) -> Iterator[bytes]:
    """Yield replies that differ in one field, which holds the key."""
    body = recorded(wire, streamed)
    if not streamed:
        for changed in with_leaf_changed(json.loads(body)):
            yield json.dumps(changed).encode()
        return
    lines = body.decode().split("\n")
    for number, line in enumerate(lines):
        if line.startswith("data: {"):
            for changed in with_leaf_changed(json.loads(line[6:])):
                yield "\n".join([*lines[:number], f"data: {json.dumps(changed)}", *lines[number + 1 :]]).encode()
        elif line:
            yield "\n".join([*lines[:number], f"{line}{HERE}", *lines[number + 1 :]]).encode()


async def everything_seen(url: str, wire: str, streamed: bool) -> str:
    """Run an agent against the server and return all that anybody can see of it afterwards."""
    model = Provider(DIALECTS[wire])("m", base_url=f"{url}/v1", key=CANARY)
    heard: list[Event] = []
    agent = Agent(model, tools=[look], max_steps=1, store=LocalLogs())
    run = await agent.run("x", run_id="r", listeners=[heard.append] if streamed else [])
    seen = [*map(repr, (heard, asdict(run), list(run.messages), run.error, agent, model)), str(run.stop)]
    seen.append((await agent.record("r")).decode())
    try:
        context = root().heard_by(heard.append) if streamed else root()
        seen.append(repr(await model(ModelRequest(Conversation([Message("user", (Text("x"),))]).view()), context)))
    except ModelError as error:
        seen += [*traceback.format_exception(error), repr(error), repr(vars(error))]
    await model.close()
    return "\n".join(seen)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_no_field_of_a_reply_shows_the_key(wire: str, streamed: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "ziggurat")
    names = list(SPELLINGS)
    bodies = list(replies(wire, streamed))
    assert len(bodies) > 20
    current = b""

    async def answer(asked: Asked) -> None:
        assert CANARY in asked.head
        await (asked.stream(current) if streamed else asked.reply(current))

    async def main() -> None:
        nonlocal current
        async with serving(answer) as server:
            for number, body in enumerate(sample(bodies, 25)):
                spelling = names[number % len(names)]
                current = body.replace(HERE.encode(), SPELLINGS[spelling](CANARY).encode())
                assert_hidden(await everything_seen(server.url, wire, streamed), spelling)

    asyncio.run(main())
    assert_hidden(caplog.text)


BODIES: dict[str, Callable[[str], object]] = {
    "fields": lambda said: {"error": {"message": f"bad {said}.", "type": said, "code": said, "param": said}},
    "long": lambda said: {"error": {"message": "x" * 280 + said}},  # is cut off within the key
    "text": str,
    "HTML": lambda said: f"<html><title>{said}</title>{said}</html>",
    "broken": lambda said: f"[{said}",
    "headers only": lambda said: {},
}
STATUSES = ("400 Bad", "401 No", "429 Wait", "500 Oops", "307 Moved", "200 OK")


async def test_no_error_shows_the_key() -> None:
    said, body, status = "", b"", ""

    async def answer(asked: Asked) -> None:
        await asked.reply(body, status, location=f"/{said}", retry_after=said, x_request_id=said)

    async with serving(answer) as server:
        for spelling, kind, status, wire in pairs(SPELLINGS, BODIES, STATUSES, WIRES):  # noqa: B007
            said = SPELLINGS[spelling](CANARY)
            made = BODIES[kind](said)
            body = (made if isinstance(made, str) else json.dumps(made)).encode()
            assert_hidden(await everything_seen(server.url, wire, False), spelling)


async def test_a_key_that_is_split_over_the_pieces_of_a_stream_is_not_shown() -> None:
    async def pieces(request: ModelRequest) -> Any:
        for character in f"Your key is {CANARY}, keep it.":
            yield character

    async with FakeProvider(model=FunctionModel(pieces)) as server:
        for wire in WIRES:
            seen = await everything_seen(server.url, wire, True)
            assert "[key]" in seen
            assert_hidden(seen)
            assert_hidden("".join(part.rpartition("'")[2] for part in seen.split("')")))


WORDS = ["sk-", "sk-Canary", "Canary/", "\\u0073", "%73", "&#", " a text ", '{"a": "', CANARY[:20], CANARY[5:]]
TEXTS = st.lists(
    st.one_of(st.sampled_from(WORDS), st.sampled_from(list(SPELLINGS)).map(lambda name: SPELLINGS[name](CANARY))),
    max_size=8,
).map("".join)


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


@given(TEXTS, TEXTS, TEXTS, st.lists(st.integers(0, 500), max_size=12))
def test_pieces_and_the_whole_are_masked_alike(text: str, thought: str, arguments: str, places: list[int]) -> None:
    deltas: list[PartDelta] = [ThinkingDelta(piece) for piece in cut(thought, places)]
    deltas += [TextDelta(piece) for piece in cut(text, places)]
    for index in range(2):
        deltas.append(ToolCallDelta(index, "", f"call-{CANARY}-{index}", f"{CANARY.lower()}"))
    for piece in cut(arguments, places):
        deltas += [ToolCallDelta(index, piece) for index in range(2)]
    mask = KeyMask(CANARY)
    masked = KeyFilter(mask)
    whole, shown = Fold(), Fold()
    for delta in deltas:
        whole.push(delta)
    for delta in [*masked.all(deltas), *masked.flush()]:
        shown.push(delta)
    assert shown.message() == mask.struct(whole.message())
    assert CANARY.lower() not in repr(shown.message()).lower()


@given(TEXTS)
def test_texts_without_the_key_are_unchanged(text: str) -> None:
    other = KeyMask("another-key-1234567890")
    assert other.text(text) == text
    message = Message("assistant", (Text(text), ToolCall("1", "look", text)))
    assert other.struct(message) is message


def test_every_spelling_is_masked() -> None:
    for spell in SPELLINGS.values():
        said = KeyMask(CANARY).text(f"before {spell(CANARY)} after")
        assert said.startswith("before ")
        assert said.endswith(" after")
        assert "[key]" in said
        assert len(said) < len("before [key] after") + 12  # base64 has letters that mix the key with its neighbours


def test_placeholders_of_servers_without_keys_are_ordinary_words() -> None:
    assert mask_of("", "any", "none", "EMPTY", "ollama", "lm-studio", "not-needed") is None
    assert mask_of("k1-23456") is not None


def test_secret_headers_are_masked_like_the_key() -> None:
    headers = {"Authorization": "Bearer abc-123456789", "x-api-key": "def-123456789", "user-agent": "ziggurat"}
    secrets = ("abc-123456789", "def-123456789", "ghi-123456789")
    assert secrets_in(headers.items(), "api-version=1&key=ghi-123456789") == secrets


def test_masking_takes_time_in_proportion_to_the_text() -> None:
    mask = KeyMask(CANARY)
    for unit in ("s", "sk-Canary/", "%", "\\", "&#", "a text, ", "\\u0073", "%73", "c2"):
        seconds = []
        for size in (20_000, 80_000):
            text = unit * (size // len(unit))
            begun = time.process_time()
            mask.text(text)
            mask.error(text)
            mask.split(text)
            seconds.append(time.process_time() - begun)
        assert seconds[1] < 8 * max(seconds[0], 0.005), unit
