"""A whole reply: its output items, their deltas, and what else it states.

A message of ours is one list of parts; an output of the Responses API is a list of items, each with its own fields.
Fields that a part does not have are kept next to it in opaque `Thinking` parts (`redacted` has JSON, `id` the item's
id), so that `encode_message` sends every item back unchanged and in its place:

- a reasoning item is one `Thinking` per summary, with the item's id; the last has the encrypted content. The
  second summary has the id ``rs_1#1``, the first raw thought ``rs_1#content-0``;
- an item of the provider's own tools (a web search, a code interpreter ...) is one opaque part with the whole item;
- a message or a call that follows a reasoning item, or has a phase or a namespace, has an opaque part before it with
  these fields: the server refuses reasoning whose next item has lost its id.

The ids of opaque parts begin with ``responses:``, so that every wire can tell where they come from.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ziggurat.core.errors import ModelError
from ziggurat.messages.message import Fold, Message, PartDelta, TextDelta, Thinking, ThinkingDelta, ToolCallDelta
from ziggurat.messages.model import FinishReason, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure_of
from ziggurat.models.http.stated import count, latest, part_of

OPAQUE = "responses:"
"""The prefix of the ids of parts that only this wire can read."""

_FOREIGN = re.compile(r"\{|google$|anthropic:|reasoning")  # the marks of thoughts from other wires that have an id


class Content(Struct, gc=False):
    """A piece of an item: text of some type, or a refusal."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: Any = None


class OutputMessage(Struct, tag="message", tag_field="type"):
    id: str | None = None
    content: list[Content] | str | None = None
    phase: str | None = None

    def extras(self) -> dict[str, Any]:
        """Return the fields that a text part does not have."""
        return {} if self.phase is None else {"phase": self.phase}

    def contents(self) -> list[Content]:
        """Return its pieces, even if the server sent one text."""
        return [Content(text=self.content)] if isinstance(self.content, str) else self.content or []


class FunctionCall(Struct, tag="function_call", tag_field="type"):
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | dict[str, Any] | None = None
    status: str | None = None
    namespace: str | None = None
    caller: dict[str, Any] | None = None

    def extras(self) -> dict[str, Any]:
        """Return the fields that a tool call does not have."""
        fields = {"namespace": self.namespace, "caller": self.caller}
        return {name: value for name, value in fields.items() if value is not None}

    def written(self) -> str:
        """Return the arguments as text, even if the server sent an object."""
        if isinstance(self.arguments, dict):
            return msgspec.json.encode(self.arguments).decode()
        return self.arguments or ""


class Reasoning(Struct, tag="reasoning", tag_field="type"):
    """A reasoning item: summaries, raw thoughts if the server shows them, and all of it in encrypted form."""

    id: str | None = None
    summary: list[Content] | None = None
    content: list[Content] | None = None
    encrypted_content: str | None = None


class OtherItem(Struct):
    id: str | None
    written: str
    type: str = ""


Item = OutputMessage | FunctionCall | Reasoning | OtherItem

_known: "msgspec.json.Decoder[Item]" = msgspec.json.Decoder(OutputMessage | FunctionCall | Reasoning)


_TYPES = ("message", "function_call", "reasoning")


class _Head(Struct):
    type: str = ""
    id: str | None = None


_head = msgspec.json.Decoder(_Head | None)


def item_of(raw: Raw) -> Item | None:
    """Read an item; None if it has no type."""
    try:
        return _known.decode(raw)
    except msgspec.ValidationError:
        head = _head.decode(raw) or _Head()
        if head.type in _TYPES:
            raise
    return OtherItem(head.id, msgspec.json.format(bytes(raw), indent=-1).decode(), head.type) if head.type else None


def first_deltas(item: Item, call: int, after_reasoning: bool) -> list[PartDelta]:
    """Return the deltas of an item that can be sent before its texts arrive."""
    if not isinstance(item, (OutputMessage, FunctionCall)):
        return []
    deltas: list[PartDelta] = []
    extras = item.extras()
    if extras or (after_reasoning and item.id):
        beside = {"type": "message" if isinstance(item, OutputMessage) else "function_call", "id": item.id, **extras}
        deltas.append(ThinkingDelta(redacted=msgspec.json.encode(beside).decode(), id=OPAQUE + (item.id or "")))
    if isinstance(item, FunctionCall):
        deltas.append(ToolCallDelta(call, "", item.call_id or item.id or "", item.name or ""))
    return deltas


def pieces_of(item: Item) -> list[tuple[int, str]]:
    """Return the texts of an item with their places: contents and summaries from 0 up, raw thoughts from -1 down."""
    if isinstance(item, OutputMessage):
        return [(place, each.text or each.refusal or "") for place, each in enumerate(item.contents())]
    if isinstance(item, FunctionCall):
        return [(0, item.written())]
    if isinstance(item, Reasoning):
        summaries = [(place, each.text or "") for place, each in enumerate(item.summary or ())]
        return summaries + [(-1 - place, each.text or "") for place, each in enumerate(item.content or ())]
    return []


def _thought_id(item: str | None, place: int) -> str:
    """Return the id of one text of a reasoning item; for an item without an id, a mark of this wire."""
    name = item or OPAQUE
    if place == 0:
        return name
    return f"{name}#{place}" if place > 0 else f"{name}#content-{-1 - place}"


def piece(item: Item, place: int, text: str, call: int) -> PartDelta:
    if isinstance(item, FunctionCall):
        return ToolCallDelta(call, text)
    return ThinkingDelta(text, id=_thought_id(item.id, place)) if isinstance(item, Reasoning) else TextDelta(text)


def last_deltas(item: Item) -> list[PartDelta]:
    """Return the last deltas of an item: the encrypted content, or the whole of a provider-specific item."""
    if isinstance(item, OtherItem):
        return [ThinkingDelta(redacted=item.written, id=OPAQUE + (item.id or ""))]
    if not isinstance(item, Reasoning):
        return []
    places = [place for place, text in pieces_of(item) if text]
    if places and not item.encrypted_content:
        return []
    return [ThinkingDelta(signature=item.encrypted_content, id=_thought_id(item.id, places[-1] if places else 0))]


def deltas_of_items(items: Iterable[Item]) -> Iterator[PartDelta]:
    calls, after_reasoning = 0, False
    for item in items:
        yield from first_deltas(item, calls, after_reasoning)
        for place, text in pieces_of(item):
            if text:
                yield piece(item, place, text, calls)
        yield from last_deltas(item)
        calls += isinstance(item, FunctionCall)
        after_reasoning = isinstance(item, Reasoning)


def item_and_place(thought: str) -> tuple[str | None, int]:
    """Split the id of a thought into the id of its item and the place of its text; the reverse of `thought_id`."""
    name, mark, place = thought.rpartition("#")
    content = place.removeprefix("content-")
    if not mark or not content.isdigit():
        return (None if thought == OPAQUE else thought), 0
    return (None if name == OPAQUE else name), int(content) if content == place else -1 - int(content)


def is_ours(thought: Thinking) -> bool:
    """Return whether a thought came from this API: other models' thoughts have no id, or one with another mark."""
    if thought.redacted is not None:
        return (thought.id or "").startswith(OPAQUE)
    return bool(thought.id) and not _FOREIGN.match(thought.id or "")


# -- the reply as a whole ------------------------------------------------------------------------------------------


class _Incomplete(Struct, gc=False):
    reason: str | None = None


class ResponseObject(Struct):
    """The fields of a reply that are read."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[Raw] | None = None
    usage: Any = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    service_tier: str | None = None

    def items(self) -> list[Item]:
        return [item for raw in self.output or () if (item := item_of(raw)) is not None]


_INCOMPLETE: dict[str | None, FinishReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}
_ANSWERED = ("completed", "complete", "incomplete")
"""The statuses of replies that contain an answer."""

_CUT = "your last reply was cut short within a tool call, which was not made; make it again, and briefly"
_PLAIN_TIERS = (None, "auto", "default")


def unreadable(dialect: Dialect, why: object) -> ModelError:
    return ModelError(f"{dialect.name} answered with something that is not a reply: {why}", kind="malformed")


def raise_failure(reply: ResponseObject, dialect: Dialect, *, plain: bool = False) -> None:
    """Raise the error that a reply reports instead of an answer, if any."""
    error: ModelError | None = None
    if reply.error is not None and reply.status not in _ANSWERED:
        error = failure_of(reply.error, dialect)
    elif reply.status in ("failed", "cancelled"):
        error = ModelError(f"{dialect.name}: the reply {reply.id or ''} {reply.status}", kind="server")
    if error is not None:
        error.usage = None if reply.usage is None else _usage_of(reply.usage)
        raise error
    if reply.output is None and (reply.status is None or (plain and reply.status in _ANSWERED)):
        raise unreadable(dialect, "it has no output")


def response_of(reply: ResponseObject, items: list[Item], message: Message | None = None) -> ModelResponse:
    if message is None:
        fold = Fold()
        for delta in deltas_of_items(items):
            fold.push(delta)
        message = fold.message()
    contents = [each for item in items if isinstance(item, OutputMessage) for each in item.contents()]
    refusal = "".join([each.refusal or "" for each in contents])
    finish = "malformed" if _is_cut_within_a_call(reply, items) else _finish(reply, message, refusal)
    raw = _raw(reply, items, contents, refusal)
    if finish == "malformed":
        raw["malformed"] = _CUT
    return ModelResponse(message, finish, _usage_of(reply.usage), reply.model or "", reply.id or "", raw or None)


def _finish(reply: ResponseObject, message: Message, refusal: str) -> FinishReason:
    status = reply.status or "completed"
    if status == "incomplete":
        return _INCOMPLETE.get(reply.incomplete_details.reason if reply.incomplete_details else None, "other")
    if status not in ("completed", "complete"):
        return "other"
    if message.tool_calls:
        return "tool_calls"
    return "refusal" if refusal else "stop"


def _is_cut_within_a_call(reply: ResponseObject, items: list[Item]) -> bool:
    """Return whether a call's arguments may be incomplete; such a reply must not be acted on."""
    if reply.status != "incomplete" or not items:
        return False
    return isinstance(items[-1], FunctionCall) or any(
        isinstance(each, FunctionCall) and each.status != "completed" for each in items
    )


def _usage_of(stated: object) -> Usage:
    usage = latest({}, stated)
    given, written = part_of(usage, "input_tokens_details"), part_of(usage, "output_tokens_details")
    return Usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(given.get("cached_tokens")),
        count(given.get("cache_write_tokens")),
        count(written.get("reasoning_tokens")),
        requests=1,
    )


def _raw(reply: ResponseObject, items: list[Item], contents: list[Content], refusal: str) -> dict[str, Any]:
    """Return the fields without a place in the response; empty for most replies."""
    raw: dict[str, Any] = {}
    if reply.status != "completed":
        raw["status"] = reply.status
    if reply.incomplete_details is not None and reply.incomplete_details.reason is not None:
        raw["incomplete_reason"] = reply.incomplete_details.reason
    if reply.service_tier not in _PLAIN_TIERS:
        raw["service_tier"] = reply.service_tier
    if refusal:
        raw["refusal"] = refusal
    others = [msgspec.json.decode(item.written) for item in items if isinstance(item, OtherItem)]
    if others:
        raw["items"] = others
    annotations = [one for each in contents if isinstance(each.annotations, list) for one in each.annotations]
    if annotations:
        raw["annotations"] = annotations
    return raw
