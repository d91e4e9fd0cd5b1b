"""Items: the history of a run as a flat list of messages, tool calls, tool outputs and hand-offs, for storing.

`to_messages` converts any list of items into a history for a model. To store messages as items and read them back
unchanged, use the two functions of `item_codec`.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.message import Message, Role, tool_message
from ziggurat.messages.parts import Text, ToolCall, ToolResult

Moment = Annotated[datetime, Meta(tz=True)]


class _Item(Struct, frozen=True, kw_only=True, tag_field="type"):
    """The base of all items."""

    id: str

    def __post_init__(self) -> None:
        created: object = self.created_at  # type: ignore[attr-defined]
        if not isinstance(created, datetime) or created.tzinfo is None:
            raise ConfigurationError(
                f"created_at of {type(self).__name__} {self.id!r} is not a time with a zone: "
                "pass datetime.now(UTC), or add tzinfo=UTC"
            )
        if created.tzinfo is not UTC:
            force_setattr(self, "created_at", created.astimezone(UTC))  # in the making: nobody has seen it yet


class MessageItem(_Item, frozen=True, kw_only=True, tag="Message"):
    """A message.

    Attributes:
        id: Its own id.
        role: The role of the author.
        content: The text.
        created_at: The time; kept in UTC, written as RFC 3339.
    """

    role: Role
    content: str
    created_at: Moment


class ToolCallItem(_Item, frozen=True, kw_only=True, tag="ToolCall"):
    """A tool call requested by an agent.

    Attributes:
        id: The id of the call, which its output repeats.
        tool_name: The tool.
        arguments: Any JSON value.
        created_at: The time; kept in UTC, written as RFC 3339.
    """

    tool_name: str
    arguments: object
    created_at: Moment


class ToolOutputItem(_Item, frozen=True, kw_only=True, tag="ToolOutput"):
    """The output of a tool call.

    Attributes:
        id: Its own id.
        tool_call_id: The id of the call.
        output: Any JSON value.
        error: How the call failed; None if it did not.
        created_at: The time; kept in UTC, written as RFC 3339.
    """

    tool_call_id: str
    output: object
    error: str | None = None
    created_at: Moment


class HandoffItem(_Item, frozen=True, kw_only=True, tag="Handoff"):
    """A hand-off of the conversation from one agent to another.

    Attributes:
        id: Its own id.
        from_agent: The agent that hands over.
        to_agent: The agent that takes over.
        reason: The reason, if one was given.
        created_at: The time; kept in UTC, written as RFC 3339.
    """

    from_agent: str
    to_agent: str
    reason: str | None = None
    created_at: Moment


RunItem = MessageItem | ToolCallItem | ToolOutputItem | HandoffItem
"""The union of all items; in JSON ``"type"`` names the kind."""

Kind = TypeVar("Kind", MessageItem, ToolCallItem, ToolOutputItem, HandoffItem)


def filter_by_type(items: Iterable[RunItem], kind: type[Kind]) -> list[Kind]:
    """Return the items of one kind, in order.

    >>> filter_by_type([HandoffItem(id="1", from_agent="a", to_agent="b", created_at=datetime.now(UTC))], MessageItem)
    []
    """
    return [item for item in items if isinstance(item, kind)]


def to_messages(items: Sequence[RunItem]) -> list[Message]:
    """Convert items into the history that is sent to a model.

    Tool calls are collected: the next assistant message gets them, or an assistant message without text is made if
    the very next item is an output, or at the end. Three consequences are worth knowing:

    - An assistant message *before* its calls stays alone, and the calls follow in a message without text.
    - A hand-off is left out; one between a call and its output makes the result come before the call.
    - A failed output becomes ``Error: ...``; any other becomes the JSON of its value, so that a string has quotes.

    Use `items_to_messages` of `item_codec` to read back what `messages_to_items` wrote.
    """
    messages: list[Message] = []
    waiting: list[ToolCall] = []
    names: dict[str, str] = {}
    for index, item in enumerate(items):
        if isinstance(item, MessageItem):
            takes = item.role == "assistant"
            messages.append(said(item, waiting if takes else ()))
            if takes:
                waiting = []
        elif isinstance(item, ToolCallItem):
            waiting.append(ToolCall(item.id, item.tool_name, encode(item.arguments).decode()))
            names[item.id] = item.tool_name
            if index + 1 < len(items) and isinstance(items[index + 1], ToolOutputItem):
                messages.append(Message("assistant", tuple(waiting)))
                waiting = []
        elif isinstance(item, ToolOutputItem):
            failed = item.error is not None
            content = f"Error: {item.error}" if failed else encode(item.output).decode()
            name = names.get(item.tool_call_id, "")
            messages.append(tool_message(ToolResult(item.tool_call_id, name, content, "permanent" if failed else None)))
    if waiting:
        messages.append(Message("assistant", tuple(waiting)))
    return messages


def said(item: MessageItem, calls: Iterable[ToolCall] = ()) -> Message:
    """Return a message item as a message, with these calls."""
    text = (Text(item.content),) if item.content else ()
    return Message(item.role, (*text, *calls))
