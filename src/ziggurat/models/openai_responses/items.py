"""Read output items, and turn them into deltas.

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

from ziggurat.messages.message import PartDelta, TextDelta, Thinking, ThinkingDelta, ToolCallDelta

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
    """A provider-specific item, kept unchanged."""

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
