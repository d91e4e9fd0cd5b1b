"""Read a reply of the Responses API: plain, or streamed, event by event.

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
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ziggurat.core import codec
from ziggurat.core.errors import ModelError, StreamInterrupted
from ziggurat.http.sse import ServerEvent
from ziggurat.messages.message import (
    Fold,
    Message,
    PartDelta,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCallDelta,
)
from ziggurat.messages.model import FinishReason, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure_of, unreadable
from ziggurat.models.http.stated import count, latest, part_of, read

OPAQUE = "responses:"  # the prefix of the ids of parts that only this wire can read
_FOREIGN = re.compile(r"\{|google$|anthropic:|reasoning")  # the marks of thoughts from other wires that have an id


class Content(Struct, gc=False):
    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: Any = None


class OutputMessage(Struct, tag="message", tag_field="type"):
    id: str | None = None
    content: list[Content] | str | None = None
    phase: str | None = None

    def extras(self) -> dict[str, Any]:
        return {} if self.phase is None else {"phase": self.phase}

    def contents(self) -> list[Content]:
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
        fields = {"namespace": self.namespace, "caller": self.caller}
        return {name: value for name, value in fields.items() if value is not None}

    def written(self) -> str:
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

_known: "msgspec.json.Decoder[Item]" = codec.decoder(OutputMessage | FunctionCall | Reasoning)


_TYPES = ("message", "function_call", "reasoning")


class _Head(Struct, gc=False):
    type: str = ""
    id: str | None = None


_head = codec.decoder(_Head | None)


def item_of(raw: Raw) -> Item | None:
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

_CUT = "your last reply was cut short within a tool call, which was not made; make it again, and briefly"
_PLAIN_TIERS = (None, "auto", "default")


def raise_failure(reply: ResponseObject, dialect: Dialect, *, plain: bool = False) -> None:
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


def response_of(reply: ResponseObject, items: list[Item], message: Message) -> ModelResponse:
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


_NOTHING = Raw(b"null")


class _Event(Struct, gc=False):
    type: str = ""
    delta: Any = None
    item_id: str | None = None
    output_index: int | str | None = None
    content_index: int | None = None
    summary_index: int | None = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    item: Raw = _NOTHING
    response: Raw = _NOTHING
    error: Any = None
    code: Any = None
    message: Any = None


_event = codec.decoder(_Event)
_reply = codec.decoder(ResponseObject)


class _Slot:
    __slots__ = ("after_reasoning", "begun", "call", "done", "item", "sent")

    def __init__(self, item: Item, call: int, after_reasoning: bool) -> None:
        self.item = item
        self.call = call
        self.after_reasoning = after_reasoning
        self.begun = False
        self.done = False
        self.sent: dict[int, list[str]] = {}


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    # A reply that was cut off within a call, such as by its length limit, finishes ``malformed``, because the call's
    # arguments are incomplete. ``raw["malformed"]`` is the text that tells the model.
    try:
        reply = read(_reply, body)
        raise_failure(reply, dialect, plain=True)
        return Reader(dialect).whole(reply, reply.items())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise unreadable(dialect, error) from error


class Reader:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._fold = Fold()
        self._slots: list[_Slot] = []
        self._by_id: dict[str, _Slot] = {}
        self._by_place: dict[int | str | None, _Slot] = {}
        self._calls = 0
        self._id: str | None = None
        self._reply: ResponseObject | None = None
        self._items: list[Item] = []
        self._unread: str | None = None

    def push(self, event: ServerEvent) -> list[PartDelta]:
        if self._reply is not None:
            return []
        if self._unread is not None:  # only the last event may be cut off
            raise unreadable(self._dialect, self._unread)
        try:
            content = read(_event, event.data)
            return self._take(content, content.type or event.event)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            if event.data and not event.data.startswith("[DONE]"):
                self._unread = str(error)
            return []

    def _take(self, event: _Event, kind: str) -> list[PartDelta]:
        subject, _, end = kind.rpartition(".")
        if subject in _TEXTS and end in ("delta", "done"):
            return self._text(event, subject, done=end == "done")
        take = _TAKES.get(kind)
        return [] if take is None else take(self, event)

    def finish(self) -> ModelResponse:
        reply = self._reply
        if reply is None:
            why = f": {self._unread}" if self._unread else ""
            raise StreamInterrupted(
                f"{self._dialect.name}: the stream was cut before its end{why}", partial=self._fold.message()
            )
        items = self._items or [slot.item for slot in self._slots]
        response = Reader(self._dialect).whole(reply, items)
        is_lost = not response.message.parts and any(slot.sent for slot in self._slots)
        if not is_lost and (self._items or all(slot.done for slot in self._slots)):
            return response
        if reply.status != "incomplete":
            raise unreadable(self._dialect, "it has no output")
        return response_of(reply, items, self._fold.message())

    def whole(self, reply: ResponseObject, items: list[Item]) -> ModelResponse:
        """Return the response of a whole reply, whose items are read as those of a stream."""
        for item in items:
            self._settle(self._opened(item, _Event()), item)
        return response_of(reply, items, self._fold.message())

    def _tell(self, deltas: list[PartDelta]) -> list[PartDelta]:
        for delta in deltas:
            self._fold.push(delta)
        return deltas

    def _slot(self, event: _Event, create: Callable[[], Item]) -> _Slot:
        """Return the slot of an event's item: by its id, or, because some servers change ids, by its index."""
        slot = self._by_id.get(event.item_id or "") or self._by_place.get(event.output_index)
        return self._opened(create(), event) if slot is None else slot

    def _opened(self, item: Item, event: _Event) -> _Slot:
        before = self._slots[-1].item if self._slots else None
        slot = _Slot(item, self._calls, isinstance(before, Reasoning))
        self._calls += isinstance(item, FunctionCall)
        self._slots.append(slot)
        self._by_place[event.output_index] = slot
        if item.id:
            self._by_id[item.id] = slot
        return slot

    def _more(self, slot: _Slot, place: int, text: Any) -> list[PartDelta]:
        if not isinstance(text, str) or not text:
            return []
        sent = slot.sent.get(place)
        if sent is None:
            slot.sent[place] = [text]
        else:
            sent.append(text)
        return self._tell([piece(slot.item, place, text, slot.call)])

    def _rest(self, slot: _Slot, place: int, text: Any) -> list[PartDelta]:
        """Return the rest of a text that is now complete, if not all of it was sent."""
        pieces = slot.sent.get(place, [])
        sent = "".join(pieces)
        pieces[:] = [sent]  # so that it is joined once, however often the end is announced
        if not isinstance(text, str) or text == sent or not text.startswith(sent):
            return []
        return self._more(slot, place, text[len(sent) :])

    def _text(self, event: _Event, subject: str, *, done: bool) -> list[PartDelta]:
        kind = _TEXTS[subject]
        slot = self._slot(event, lambda: kind(event.item_id))
        place = event.summary_index or event.content_index or 0
        if subject == _RAW_THOUGHT:
            place = -1 - place
        if done:
            texts = (event.text, event.refusal, event.arguments)
            return self._rest(slot, place, next((each for each in texts if each is not None), None))
        return self._more(slot, place, event.delta)

    def _added(self, event: _Event) -> list[PartDelta]:
        item = item_of(event.item)
        return [] if item is None else self._begin(self._opened(item, event), item)

    def _begin(self, slot: _Slot, item: Item) -> list[PartDelta]:
        slot.begun = True
        return self._tell(first_deltas(item, slot.call, slot.after_reasoning))

    def _done(self, event: _Event) -> list[PartDelta]:
        item = item_of(event.item)
        if item is None:
            return []
        slot = self._by_id.get(item.id or "") or self._by_place.get(event.output_index)
        if slot is None or slot.done or type(slot.item) is not type(item):
            slot = self._opened(item, event)
        return self._settle(slot, item)

    def _settle(self, slot: _Slot, item: Item) -> list[PartDelta]:
        slot.done = True
        deltas = [] if slot.begun else self._begin(slot, item)
        slot.item = item
        for place, text in pieces_of(item):
            deltas += self._rest(slot, place, text)
        return deltas + self._tell(last_deltas(item))

    def _ended(self, event: _Event) -> list[PartDelta]:
        reply = read(_reply, bytes(event.response))
        try:
            raise_failure(reply, self._dialect)
        except ModelError as error:
            error.partial = self._fold.message()
            raise
        self._reply = reply
        self._items = reply.items()
        deltas: list[PartDelta] = []
        for place, item in enumerate(self._items):
            slot = self._by_id.get(item.id or "") or (self._slots[place] if place < len(self._slots) else None)
            if slot is None or type(slot.item) is not type(item):
                slot = self._opened(item, _Event())
            if not slot.done:
                deltas += self._settle(slot, item)
        return deltas

    def _created(self, event: _Event) -> list[PartDelta]:
        name = (_head.decode(event.response) or _Head()).id
        if self._id is not None and (name != self._id or self._slots):
            another = f"another reply began in the stream of {self._dialect.name}"
            raise StreamInterrupted(another, partial=self._fold.message())
        self._id = name
        return []

    def _failed(self, event: _Event) -> list[PartDelta]:
        flat = {"code": event.code, "message": event.message}
        error = failure_of(flat if event.error is None else event.error, self._dialect)
        error.partial = self._fold.message()
        raise error


_RAW_THOUGHT = "response.reasoning_text"
_TEXTS: dict[str, type[OutputMessage | FunctionCall | Reasoning]] = {
    "response.output_text": OutputMessage,
    "response.refusal": OutputMessage,
    "response.function_call_arguments": FunctionCall,
    "response.reasoning_summary_text": Reasoning,
    _RAW_THOUGHT: Reasoning,
}
"""The items whose texts events bring, by the types of events without their ends."""

_TAKES: dict[str, Callable[[Reader, _Event], list[PartDelta]]] = {
    "response.created": Reader._created,
    "response.output_item.added": Reader._added,
    "response.output_item.done": Reader._done,
    "response.completed": Reader._ended,
    "response.incomplete": Reader._ended,
    "response.failed": Reader._ended,
    "response.cancelled": Reader._ended,
    "response.done": Reader._ended,
    "error": Reader._failed,
    "response.error": Reader._failed,
}
