"""Read a reply of the Responses API: plain, or streamed, event by event."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw, Struct

from ziggurat.core.errors import ModelError, StreamInterrupted
from ziggurat.http.sse import ServerEvent
from ziggurat.messages.message import Fold, PartDelta, TextDelta, ToolCall
from ziggurat.messages.model import ModelResponse
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure_of
from ziggurat.models.http.fitting import is_object
from ziggurat.models.http.stated import read
from ziggurat.models.openai_responses.items import (
    FunctionCall,
    Item,
    OutputMessage,
    Reasoning,
    ResponseObject,
    first_deltas,
    item_of,
    last_deltas,
    piece,
    pieces_of,
    raise_failure,
    response_of,
    unreadable,
)

_NOTHING = Raw(b"null")
_TEXT = "response.output_text.delta"


class _Event(Struct, gc=False):
    """One event; which fields there are depends on its type."""

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


_event = msgspec.json.Decoder(_Event)
_reply = msgspec.json.Decoder(ResponseObject)


class _Head(Struct, gc=False):
    id: str | None = None


_head = msgspec.json.Decoder(_Head)


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
        return response_of(reply, reply.items())
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
        self._at = ""  # the item, place and pieces of the text in progress
        self._place: int | None = None
        self._sent: list[str] = []

    def push(self, event: ServerEvent) -> list[PartDelta]:
        """Read an event and return its deltas; events of unknown types have none."""
        if self._reply is not None:
            return []
        if self._unread is not None:  # only the last event may be cut off
            raise unreadable(self._dialect, self._unread)
        try:
            content = read(_event, event.data)
            if content.type == _TEXT and content.item_id == self._at and content.content_index == self._place:
                text = content.delta
                if isinstance(text, str) and text:  # fast path for the most frequent event
                    self._sent.append(text)
                    delta = TextDelta(text)
                    self._fold.push(delta)
                    return [delta]
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
        items = self._items
        if not items and all(slot.done for slot in self._slots):
            items = [slot.item for slot in self._slots]
        response = response_of(reply, items)
        if response.message.parts or not self._slots:
            return response
        return self._of_pieces(reply)

    def _of_pieces(self, reply: ResponseObject) -> ModelResponse:
        """Return a response from deltas only; raise if a call's arguments are incomplete."""
        message = self._fold.message()
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        slots = [slot for slot in self._slots if isinstance(slot.item, FunctionCall)]
        for call, slot in zip(calls, slots, strict=True):
            if not slot.done and not is_object(call.arguments):
                raise unreadable(self._dialect, f"the arguments of {call.name or 'a call'} did not come whole")
        return response_of(reply, [slot.item for slot in self._slots if slot.done], message)

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
        self._at = ""
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
        deltas = self._more(slot, place, event.delta)
        if deltas and event.item_id and kind is OutputMessage:
            self._at, self._place, self._sent = event.item_id, event.content_index, slot.sent[place]
        return deltas

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
        name = _head.decode(event.response).id
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
