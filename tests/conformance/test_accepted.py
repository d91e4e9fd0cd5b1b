"""Whatever one model did wrong, the next provider accepts the request, and its answer means our tools."""

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.conformance.accepted import faults
from tests.conformance.episodes import EPISODES, ODD_TOOLS
from tests.conformance.faulty import TOOLS, WIRES, conversation
from tests.conformance.requests import ROOMS
from tests.samples import SEED, amount
from ziggurat import Message, ModelRequest, ModelResponse, ModelSettings, Text, ToolCall, ToolResult, Usage, user
from ziggurat.errors import ModelError
from ziggurat.messages import Transcript, assistant
from ziggurat.messages.model import OutputSchema
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.http.fitting import Names
from ziggurat.wires.types import ReplyHead
from ziggurat.wires.writer import WRITERS

SOURCES = [*WIRES, "by hand"]
MODELS = {"gemini": "gemini-3-pro", "anthropic": "claude-sonnet-4-5"}
ANSWER = OutputSchema("Answer", {"type": "object", "properties": {"$id": {"type": "string"}}, "required": ["$id"]})
HISTORIES = amount(200, 2_000)


def histories() -> Iterator[tuple[str, list[Message]]]:
    for number in range(HISTORIES):
        source = SOURCES[number % len(SOURCES)]
        yield source, conversation(source, random.Random(f"{SEED} {number}"))


def sent(provider: str, request: ModelRequest) -> bytes:
    to_wire = import_module(f"ziggurat.models.{ROOMS[WIRES[provider]]}").to_wire
    body: bytes = to_wire(request, model=MODELS.get(provider, "any"), stream=False, dialect=DIALECTS[provider])
    return body


@pytest.mark.parametrize("provider", WIRES)
def test_what_another_model_did_wrong_is_accepted(provider: str) -> None:
    found: list[tuple[str, list[str], list[Message]]] = []
    for source, messages in histories():
        before = [*messages]
        request = ModelRequest(Transcript.of(*messages), "Be brief.", TOOLS, output=ANSWER)
        body = sent(provider, request)
        wrong = faults(provider, body)
        if wrong:
            found.append((source, wrong, messages))
        assert sent(provider, request) == body  # the same one each time
        assert [*request.messages] == before  # what was said stays on record
    assert not found[:2], len(found)


@pytest.mark.parametrize("provider", WIRES)
def test_a_longer_conversation_begins_as_before(provider: str) -> None:
    for _, messages in list(histories())[:40]:
        turns = [at for at, message in enumerate(messages) if message.role == "user"]
        whole = json.loads(sent(provider, ModelRequest(Transcript.of(*messages), tools=TOOLS)))
        part = json.loads(sent(provider, ModelRequest(Transcript.of(*messages[: turns[-1]], messages[turns[-1]]))))
        items = "input" if "input" in whole else "messages"
        if messages[-1].role != "assistant":
            assert whole[items][: len(part[items]) - 1] == part[items][:-1]


def _tools(body: bytes) -> list[dict[str, Any]]:
    found = [tool.get("function", tool) for tool in json.loads(body)["tools"]]
    return [{"name": each["name"], "schema": each.get("parameters", each.get("input_schema"))} for each in found]


@pytest.mark.parametrize("provider", WIRES)
def test_the_answer_maps_back(provider: str) -> None:
    request = ModelRequest(Transcript.of(), tools=TOOLS, settings=ModelSettings(tool_choice="2fa_list"))
    body = sent(provider, request)
    shown = _tools(body)[: len(TOOLS)]
    assert faults(provider, body) in ([], ["no messages"], ["the first message is not the user's"])
    assert shown[1]["name"] in json.dumps(json.loads(body)["tool_choice"])
    calls = []
    for number, tool in enumerate(shown):
        names = list(tool["schema"]["properties"])
        strict = set(tool["schema"].get("required", ())) == set(names) and number == 0
        values = {name: None if strict and at else 7 for at, name in enumerate(names)}
        calls.append(ToolCall(str(number), tool["name"], json.dumps(values)))
    answer = Names(request, DIALECTS[provider]).restored(ModelResponse(assistant(*calls))).tool_calls
    assert [call.name for call in answer] == [tool.name for tool in TOOLS]
    for call, known in zip(answer, TOOLS, strict=True):
        assert call.parsed().keys() <= known.parameters["properties"].keys()
        assert None not in call.parsed().values()
    assert answer[1].parsed().keys() == TOOLS[1].parameters["properties"].keys()


def _read_from(source: str, messages: list[Message]) -> list[Message]:
    """Return a conversation as it is on record if a provider has sent what the model said."""
    if source == "by hand":
        return messages
    reader = import_module(f"ziggurat.models.{ROOMS[WIRES[source]]}")
    found: list[Message] = []
    ids: dict[str, str] = {}  # a reader gives an id to a call that has none, and results name that one
    for message in messages:
        if message.role == "assistant":
            written = message.tool_calls
            with suppress(ModelError):  # what no provider of this wire can send
                parts = [part for part in message.parts if isinstance(part, (Text, ToolCall))]
                body = WRITERS[WIRES[source]](ReplyHead("1", "m", {})).plain(parts, "stop", Usage(3, 4))
                message = reader.from_wire(msgspec.json.encode(body), DIALECTS[source]).message
            ids |= {old.id: new.id for old, new in zip(written, message.tool_calls, strict=False)}
        if message.role == "tool":
            results = (each for each in message.parts if isinstance(each, ToolResult))
            message = replace(message, parts=tuple(replace(each, id=ids.get(each.id, each.id)) for each in results))
        found.append(message)
    return found


@pytest.mark.parametrize("provider", WIRES)
def test_what_was_written_by_hand_is_accepted(provider: str) -> None:
    found: list[tuple[str, str, list[str]]] = []
    for name, told in EPISODES.items():
        for source in ("by hand", "openai", "openai-responses", "anthropic"):
            messages = _read_from(source, told)
            body = sent(provider, ModelRequest(Transcript.of(*messages), "Be brief.", ODD_TOOLS))
            if wrong := faults(provider, body):
                found.append((name, source, wrong))
    assert len(EPISODES) >= 60
    assert not found[:2], len(found)


@pytest.mark.parametrize("provider", WIRES)
def test_odd_names_of_tools_and_keys_map_back(provider: str) -> None:
    request = ModelRequest(Transcript.of(user("go")), tools=ODD_TOOLS)
    shown = _tools(sent(provider, request))
    assert len({each["name"] for each in shown}) == len(ODD_TOOLS)
    calls = [
        ToolCall(str(n), each["name"], json.dumps(dict.fromkeys(each["schema"].get("properties", ()), 7)))
        for n, each in enumerate(shown)
    ]
    answer = Names(request, DIALECTS[provider]).restored(ModelResponse(assistant(*calls))).tool_calls
    assert [call.name for call in answer] == [tool.name for tool in ODD_TOOLS]
    for called, tool in zip(answer, ODD_TOOLS, strict=True):
        assert called.parsed().keys() == tool.parameters.get("properties", {}).keys()
