"""What recorded traffic reads as, in the words of the official SDKs, so that the two readings can be compared.

``run(endpoint, base_url, stream)`` asks a replaying server for one interaction and returns its result: text,
refusal, tool calls, finish, usage, thinking and error, each in the meaning of the endpoint's own SDK.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from ziggurat import Event, Message, ModelRequest, ModelResponse, user
from ziggurat.core import root
from ziggurat.errors import ModelError, StreamInterrupted
from ziggurat.events import Delta, Fold
from ziggurat.messages import Thinking, Transcript
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.http.providers import HttpModel, Provider
from ziggurat.models.openai_responses.from_wire import item_and_place

Reading = dict[str, Any]


class Endpoint(NamedTuple):
    """One wire, and how its reading is put back into the provider's own terms."""

    provider: str
    native: Callable[[ModelResponse, Reading], None]


async def run(endpoint: str, base_url: str, stream: bool) -> Reading:
    """Ask for one recorded interaction and return how Ziggurat reads it."""
    wire = ENDPOINTS[endpoint]
    try:
        async with Provider(DIALECTS[wire.provider])("recorded", base_url=base_url, key="none") as model:
            response = await (_streamed(model) if stream else model(_REQUEST, root()))
    except StreamInterrupted:
        raise
    except ModelError as error:
        if error.kind == "malformed" and error.status == 200:
            raise
        return {"error": {"status": error.status, "type": None}}
    reading = _plain(response)
    wire.native(response, reading)
    return reading


_REQUEST = ModelRequest(Transcript.of(user("What was recorded?")))


async def _streamed(model: HttpModel) -> ModelResponse:
    """Ask for a stream; the pieces that were told must make the message that is returned."""
    fold = Fold()

    def heard(event: Event) -> None:
        if isinstance(event, Delta):
            fold.push(event.delta)

    response = await model(_REQUEST, root().heard_by(heard))
    if _shape(fold.message()) != _shape(response.message):
        raise AssertionError(f"the pieces make {fold.message()}, the response holds {response.message}")
    return response


def _shape(message: Message) -> object:
    return message.text, message.thinking, [(call.id, call.name) for call in message.tool_calls]


def _plain(response: ModelResponse) -> Reading:
    """Return what needs no putting back."""
    usage, message = response.usage, response.message
    known = usage.input is not None or usage.output is not None
    return {
        "text": message.text,
        "refusal": None,
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": _arguments(call.arguments)} for call in message.tool_calls
        ],
        "finish": (response.raw or {}).get("finish_reason", response.finish),
        "usage": {
            "input": usage.input,
            "output": usage.output,
            "cached": usage.cache_read,
            "reasoning": usage.reasoning,
        }
        if known
        else None,
        "thinking": [
            {"text": part.text, "signature": part.signature} for part in message.parts if isinstance(part, Thinking)
        ],
        "error": None,
    }


def _arguments(text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except ValueError:
        return None


def _chat(response: ModelResponse, reading: Reading) -> None:
    """Chat Completions: its SDK has no field for signatures, and keeps refusals and older kinds of calls apart."""
    raw = response.raw or {}
    if refusal := raw.get("refusal"):
        reading["refusal"] = refusal
        reading["text"] = reading["text"].removesuffix(refusal)
    for thought in reading["thinking"]:
        thought["signature"] = None
    if raw.get("finish_reason") == "function_call":
        reading["tool_calls"] = []
    custom = raw.get("custom_calls", ())
    reading["tool_calls"] = [call for call in reading["tool_calls"] if call["id"] not in custom]
    if "usage" in raw:
        reading["usage"] = {name: raw["usage"].get(name) for name in ("input", "output", "cached", "reasoning")}


_STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def _messages(response: ModelResponse, reading: Reading) -> None:
    """Anthropic Messages: its input leaves out cached tokens, and its reading here has none for reasoning."""
    raw, usage = response.raw or {}, response.usage
    reading["finish"] = raw.get("stop_reason") or _STOP_REASONS.get(response.finish)
    reading["thinking"] = [
        {"text": part.text, "signature": part.signature}
        for part in response.message.parts
        if isinstance(part, Thinking) and part.redacted is None
    ]
    if reading["usage"]:
        reading["usage"]["reasoning"] = None
        if usage.input is not None:
            reading["usage"]["input"] = usage.input - (usage.cache_read or 0) - (usage.cache_write or 0)


def _responses(response: ModelResponse, reading: Reading) -> None:
    """Responses: its SDK tells the status, joins summaries by lines, and keeps raw thoughts and refusals apart."""
    raw = response.raw or {}
    reading["finish"] = raw.get("status", "completed")
    if refusal := raw.get("refusal"):
        reading["refusal"] = refusal
        reading["text"] = reading["text"].replace(refusal, "", 1)
    thinking: list[Reading] = []
    for part in response.message.parts:
        if isinstance(part, Thinking) and part.redacted is None:
            item, place = item_and_place(part.id or "")
            last = thinking[-1] if thinking else None
            if last is None or last["item"] != item or place == 0 or last["signature"]:
                thinking.append({"text": "", "signature": None, "item": item})
            if place >= 0:
                thinking[-1]["text"] += ("\n" if thinking[-1]["text"] else "") + part.text
            thinking[-1]["signature"] = part.signature
    reading["thinking"] = thinking


ENDPOINTS: dict[str, Endpoint] = {
    "messages": Endpoint("anthropic", _messages),
    "responses": Endpoint("openai-responses", _responses),
    "chat": Endpoint("openai", _chat),
}
"""Endpoint to the provider whose wire it speaks; other wires add their own entry with a ``native`` of theirs."""
