"""Items: the history of a run as a flat list of messages, tool calls, tool outputs and hand-offs, for storing.

`to_messages` converts any list of items into a history for a model. To store messages as items and read them back
unchanged, use `messages_to_items` and `items_to_messages`.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, TypeVar, get_args

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from ziggurat.core.clock import SYSTEM_CLOCK, Clock, new_id
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, ToolErrorKind
from ziggurat.messages.message import Message, Role, Text, ToolCall, ToolResult, decoded, tool_message

Moment = Annotated[datetime, Meta(tz=True)]


class _Item(Struct, frozen=True, kw_only=True, tag_field="type"):
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
    """A message among the items of a session.

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
"""An item of a session; in JSON ``"type"`` names the kind."""

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

    Use `items_to_messages` to read back what `messages_to_items` wrote.
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


_HANDED, _GOES_ON, _REASON, _CONTEXT = (
    " has handed this conversation over to ", ", who goes on with it now.", "Reason: ", "Context: "
)  # fmt: skip


def handoff_entries(source: str, target: str, reason: str | None, context: object) -> list[str]:
    entries = [f"{source}{_HANDED}{target}{_GOES_ON}"]
    if reason:
        entries.append(f"{_REASON}{reason}")
    if context:
        entries.append(f"{_CONTEXT}{encode(context).decode()}")
    return entries


def handoff_in(message: Message, *, ids: Callable[[], str], at: datetime) -> HandoffItem | None:
    line, _, rest = message.text.partition("\n")
    _, _, target = line.partition(_HANDED)
    if message.origin != "runtime" or message.name is None or not target.endswith(_GOES_ON):
        return None
    given = f"\n{rest}".partition(f"\n{_CONTEXT}")[0].removeprefix(f"\n{_REASON}")
    reason = given.replace("\n  ", "\n").lstrip("\n") or None  # further lines of it are indented
    return HandoffItem(
        id=ids(), from_agent=message.name, to_agent=target.removesuffix(_GOES_ON), reason=reason, created_at=at
    )


def said(item: MessageItem, calls: Iterable[ToolCall] = ()) -> Message:
    text = (Text(item.content),) if item.content else ()
    return Message(item.role, (*text, *calls))


# -- messages as items, and back ---------------------------------------------------------------------------------------

# What items can express comes back equal: role and text, parallel or single tool calls, the text of results, errors
# with their kind, calls without a result and results without a call. The texts of a message are joined into one,
# before its calls; arguments that are a JSON object come back without spaces; a result gets its name from the latest
# call with its id; a message with several results becomes one message per result. Thoughts, pictures, sound and files,
# a message's name, origin and taint, and a result's origin are left out; hand-offs are skipped.

_ERROR_KINDS: dict[str, ToolErrorKind] = {kind: kind for kind in get_args(ToolErrorKind)}


def messages_to_items(
    messages: Iterable[Message],
    *,
    ids: Callable[[], str] = new_id,
    clock: Clock = SYSTEM_CLOCK,
) -> list[RunItem]:
    """Return messages as items, without what items cannot hold, such as thoughts, pictures and names.

    Args:
        ids: Makes the ids of all items except calls, which keep their own.

    Raises:
        ConfigurationError: a call or result has no id.
    """
    items: list[RunItem] = []
    for number, message in enumerate(messages, 1):
        now = datetime.fromtimestamp(clock.now(), UTC)
        calls, results = message.tool_calls, message.tool_results
        if not all([call.id for call in calls] + [result.id for result in results]):
            raise ConfigurationError(
                f"message {number} holds a tool call or result without an id, which items need to pair them"
            )
        if message.text or not results:
            items.append(MessageItem(id=ids(), role=message.role, content=message.text, created_at=now))
        for call in calls:
            arguments = decoded(call.arguments, dict[str, object])
            items.append(ToolCallItem(id=call.id, tool_name=call.name, arguments=arguments, created_at=now))
        for result in results:
            value, error = decoded(result.text, object), None
            # A value only if it gives the same text again.
            output = value if not isinstance(value, str) and _text_of(value) == result.text else result.text
            if result.error is not None:
                output, error = {"kind": result.error}, result.text
            items.append(ToolOutputItem(id=ids(), tool_call_id=result.id, output=output, error=error, created_at=now))
    return items


def items_to_messages(items: Iterable[RunItem]) -> list[Message]:
    """Return items as messages, whether `messages_to_items` wrote them or not.

    An assistant message gets the calls that follow it; calls without such a message get a message of their own. A
    failed output becomes a result with the error's text as its content and the error's kind, `permanent` if there is
    none. A string becomes the text of a result unchanged; any other value becomes its JSON.
    """
    messages: list[Message] = []
    names: dict[str, str] = {}
    opened: MessageItem | None = None
    calls: list[ToolCall] = []

    def close() -> None:
        nonlocal opened, calls
        if opened is not None:
            messages.append(said(opened, calls))
        elif calls:
            messages.append(Message("assistant", tuple(calls)))
        opened, calls = None, []

    for item in items:
        if isinstance(item, HandoffItem):
            continue
        if isinstance(item, ToolCallItem):
            names[item.id] = item.tool_name
            calls.append(ToolCall(item.id, item.tool_name, _text_of(item.arguments)))
            continue
        close()
        if isinstance(item, ToolOutputItem):
            messages.append(tool_message(_result_of(item, names.get(item.tool_call_id, ""))))
        elif item.role == "assistant":
            opened = item
        else:
            messages.append(said(item))
    close()
    return messages


def _result_of(item: ToolOutputItem, name: str) -> ToolResult:
    if item.error is None:
        return ToolResult(item.tool_call_id, name, _text_of(item.output))
    kind = item.output.get("kind") if isinstance(item.output, dict) else None
    return ToolResult(item.tool_call_id, name, item.error, _ERROR_KINDS.get(str(kind), "permanent"))


def _text_of(value: object) -> str:
    return value if isinstance(value, str) else encode(value).decode()
