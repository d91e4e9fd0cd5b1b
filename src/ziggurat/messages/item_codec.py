"""Conversion of messages to items and back.

What items can express comes back equal: role and text, parallel or single tool calls, the text of results, errors
with their kind, calls without a result and results without a call. Four things come back in another form:

- The texts of a message are joined into one, before its calls. Consecutive calls of one message stay together.
- Arguments that are a JSON object come back as the same object, written without spaces; any others unchanged.
- A result gets its name from the latest call with its id, or ``""`` if there is none.
- A message with several results becomes one message per result.

Items cannot hold thoughts, pictures, sound and files, a message's `name`, `origin` and `taint`, or a result's
`origin`; these are left out, or refused with ``strict=True``. Hand-offs are not messages and are skipped.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import get_args

import msgspec

from ziggurat.core.clock import SYSTEM_CLOCK, Clock, new_id
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, ToolErrorKind
from ziggurat.messages.items import HandoffItem, MessageItem, RunItem, ToolCallItem, ToolOutputItem, said
from ziggurat.messages.limits import check_depth
from ziggurat.messages.message import Message, tool_message
from ziggurat.messages.parts import Text, ToolCall, ToolResult

_ERROR_KINDS: dict[str, ToolErrorKind] = {kind: kind for kind in get_args(ToolErrorKind)}


def messages_to_items(
    messages: Iterable[Message],
    *,
    ids: Callable[[], str] = new_id,
    clock: Clock = SYSTEM_CLOCK,
    strict: bool = False,
) -> list[RunItem]:
    """Return messages as items.

    Args:
        messages: A conversation.
        ids: Makes the ids of all items except calls, which keep their own.
        clock: The source of `created_at`.
        strict: Refuse what items cannot hold, instead of leaving it out.

    Raises:
        ConfigurationError: a call or result has no id, or `strict` found something that would be left out.
    """
    items: list[RunItem] = []
    for number, message in enumerate(messages, 1):
        if strict:
            _refuse_loss(number, message)
        now = datetime.fromtimestamp(clock.now(), UTC)
        calls, results = message.tool_calls, message.tool_results
        if not all([call.id for call in calls] + [result.id for result in results]):
            raise ConfigurationError(
                f"message {number} holds a tool call or result without an id, which items need to pair them"
            )
        if message.text or not results:
            items.append(MessageItem(id=ids(), role=message.role, content=message.text, created_at=now))
        for call in calls:
            arguments = _object_or_text(call.arguments)
            items.append(ToolCallItem(id=call.id, tool_name=call.name, arguments=arguments, created_at=now))
        for result in results:
            output, error = _value_or_text(result.text), None
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


def _object_or_text(text: str) -> object:
    """Return arguments as a dict if they are a JSON object, else the text itself."""
    try:
        check_depth(text)
        return msgspec.json.decode(text, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError):
        return text


def _value_or_text(text: str) -> object:
    """Return a result as a value if encoding that gives the same text again, else the text itself."""
    try:
        check_depth(text)
        value: object = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return value if not isinstance(value, str) and encode(value).decode() == text else text


def _refuse_loss(number: int, message: Message) -> None:
    lost = [name for name in ("name", "origin", "taint") if getattr(message, name) not in (None, ())]
    for part in message.parts:
        if isinstance(part, ToolResult):
            if part.origin is not None:
                lost.append("the origin of a result")
            if not isinstance(part.content, str) and not all(isinstance(each, Text) for each in part.content):
                lost.append("pictures, sound or files of a result")
        elif not isinstance(part, (Text, ToolCall)):
            lost.append(type(part).__name__.lower())
    if lost:
        raise ConfigurationError(
            f"message {number} ({message.role}) holds what items have no place for: {', '.join(lost)}; "
            "keep the messages themselves, or pass strict=False to leave it out"
        )
