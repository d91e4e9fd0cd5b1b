"""Validation of conversations: whether one can be sent to a model, and what is wrong if not."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Literal

import msgspec
from msgspec import Struct

from ziggurat.core import codec
from ziggurat.messages.message import Audio, File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult, is_proven

ViolationCode = Literal[
    "AssistantBeforeUser",
    "RepeatedRole",
    "MissingToolResponses",
    "UnknownToolResponse",
    "DuplicateToolResponse",
    "ToolResponsesOutOfOrder",
    "SystemNotFirst",
    "UnsupportedMessageType",
    "DuplicateToolCallIdsInAssistant",
    "EmptyToolCallIdInAssistant",
    "EmptyToolMessageId",
    "ToolBeforeAssistant",
    "ToolResponsesNotContiguous",
    "NoUserMessage",
    "DanglingReasoning",
    "DuplicateReasoning",
    "MissingReasoning",
    "ReasoningOutOfOrder",
]
"""The kinds of violations: fourteen of messages, tool calls and their results, and four of reasoning."""


class Violation(Struct, frozen=True):
    """One violation in a conversation.

    Attributes:
        code: The kind.
        message: What is wrong, where, and how to fix it.
        indices: The indices of the messages concerned, the most relevant first.
        ids: The ids of the tool calls concerned.
    """

    code: ViolationCode
    message: str
    indices: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ValidationPolicy(Struct, frozen=True, kw_only=True):
    """The rules that a conversation is checked against. The defaults are strict, for conversations written by hand.

    No policy allows a result before any call, empty ids, or one id for two calls of one message.

    Attributes:
        allow_system_anywhere: System messages may come after others.
        require_user_first: The first message that is not a system message must not be the model's.
        allow_repeated_roles: Consecutive messages may have the same role; tool results always may.
        enforce_tool_response_order: Results come in the order of their calls.
        allow_unknown_tool_response: A result may answer a call that does not exist.
        allow_duplicate_tool_response: A call may be answered twice.
        allow_developer_and_function: The roles ``developer`` and ``function`` may be used.
        enforce_contiguous_tool_responses: No other message comes between a call and its results.
        require_user_present: There must be a user message.
        allow_dangling_tool_calls: A call may stay without a result.
        enforce_reasoning: A thought with a provider's proof (a signature, a redacted block, an id) must not be
            repeated, and another part must follow it in its message.
    """

    allow_system_anywhere: bool = False
    require_user_first: bool = True
    allow_repeated_roles: bool = False
    enforce_tool_response_order: bool = True
    allow_unknown_tool_response: bool = False
    allow_duplicate_tool_response: bool = False
    allow_developer_and_function: bool = False
    enforce_contiguous_tool_responses: bool = False
    require_user_present: bool = False
    allow_dangling_tool_calls: bool = False
    enforce_reasoning: bool = False

    @classmethod
    def sendable(cls) -> "ValidationPolicy":
        """Return the policy of what providers accept: calls and results in pairs, ids, order, and proven thoughts."""
        return cls(
            allow_system_anywhere=True,
            require_user_first=False,
            allow_repeated_roles=True,
            enforce_contiguous_tool_responses=True,
            enforce_reasoning=True,
        )


_COMPARED = 100  # messages with the same words that a message is compared with to find the thoughts it has lost


def reasoning(messages: Sequence[Message]) -> Iterator[Violation]:
    """Find thoughts at the end of a message, and repeated thoughts."""
    seen: dict[Thinking, int] = {}
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        here: set[Thinking] = set()
        for part in message.parts:
            if not isinstance(part, Thinking) or not is_proven(part):
                continue
            if part in here or (part.id and part in seen):
                yield Violation(
                    "DuplicateReasoning",
                    f"message {index} holds a thought a second time; keep one",
                    (index, seen[part]),
                )
            here.add(part)
            seen.setdefault(part, index)
        last = message.parts[-1] if message.parts else None
        if isinstance(last, Thinking) and is_proven(last):
            yield Violation(
                "DanglingReasoning",
                f"message {index} ends with a thought; put the answer after it, or leave it out",
                (index,),
            )


def lost_reasoning(original: Sequence[Message], rewritten: Sequence[Message]) -> Iterator[Violation]:
    """Find messages of the model that were kept without one of their thoughts, or with thoughts in another place."""
    remaining: dict[tuple[Part, ...], dict[tuple[Part, ...], None]] = {}
    for message in original:
        if message.role == "assistant":
            remaining.setdefault(_without_thoughts(message), {})[message.parts] = None
    for index, message in enumerate(rewritten):
        before = remaining.get(_without_thoughts(message)) if message.role == "assistant" else None
        if not before or message.parts in before:
            continue
        thoughts = {part: None for part in message.parts if isinstance(part, Thinking)}
        compared = islice(before, _COMPARED)
        closest = max(compared, key=lambda parts: sum(part in thoughts for part in parts))
        lost = [part for part in closest if isinstance(part, Thinking) and part not in thoughts]
        if lost:
            yield Violation(
                "MissingReasoning",
                f"message {index} has lost {len(lost)} of the thoughts before it; keep the message as it was",
                (index,),
            )
        elif len(message.parts) == len(closest):
            yield Violation(
                "ReasoningOutOfOrder", f"in message {index} a thought stands in another place than it did", (index,)
            )


def _without_thoughts(message: Message) -> tuple[Part, ...]:
    return tuple([part for part in message.parts if not isinstance(part, Thinking)])


# -- types of fields, which a Struct does not check --------------------------------------------------------------------


def problem_in(message: Message) -> str | None:
    parts: object = message.parts
    for part in parts if isinstance(parts, (tuple, list)) else ():
        if (wrong := problem_in_part(part)) is not None:
            return wrong
    return _mistyped(message)


def problem_in_part(part: object) -> str | None:
    if type(part) is Text and isinstance(part.text, str):
        return None
    if not isinstance(part, Part):
        return f"a message is made of parts, got {part!r:.200}; write Text('...'), or make it with user('...')"
    wrong = _problem_in_media(part) if isinstance(part, (Image, Audio, File)) else None
    if isinstance(part, ToolResult) and isinstance(part.content, (tuple, list)):
        for each in part.content:
            wrong = wrong or (problem_in_part(each) if isinstance(each, Part) else None)
    return wrong or _mistyped(part)


def _mistyped(value: Struct) -> str | None:
    try:
        codec.convert(msgspec.structs.asdict(value), type(value))
    except msgspec.ValidationError as error:
        return f"{type(value).__name__}: {error}"
    return None


def _problem_in_media(part: Image | Audio | File) -> str | None:
    name, data = type(part).__name__, part.data
    if data is not None and not isinstance(data, bytes):
        how = "Path(...).read_bytes(), or the address as url=..." if isinstance(data, str) else "bytes(...)"
        return f"{name}(data=...) takes bytes: give {how}; got {data!r:.80}"
    if data is None and not part.url and not (isinstance(part, File) and part.id):
        more = " or id=..." if isinstance(part, File) else ""
        return f"{name}() holds nothing: give data=b'...', url='https://...'{more}"
    if "/" not in str(part.media_type):
        return f"{name}(media_type=...) is a type such as 'image/png', got {part.media_type!r}"
    return None


# -- order of messages, calls and results ------------------------------------------------------------------------------

_STRICT = ValidationPolicy()
SENDABLE = ValidationPolicy.sendable()
_ROLES = ("system", "user", "assistant", "tool")
_MORE_ROLES = ("developer", "function")
_MAX_INDICES = 20  # messages named by one violation, so that n of them are found in linear time


def validate(messages: Sequence[Message], policy: ValidationPolicy = _STRICT) -> Violation | None:
    """Return the first violation in a conversation, with its `code` and `message`, or None.

    Args:
        messages: The conversation.
        policy: The rules; by default strict ones, for conversations that were written by hand.

    >>> from ziggurat.messages.message import assistant
    >>> validate([assistant("Hello?")]).code
    'AssistantBeforeUser'
    """
    return next(_violations(messages, policy), None)


def validate_all(messages: Sequence[Message], policy: ValidationPolicy = _STRICT) -> list[Violation]:
    """Return all violations in a conversation: first of roles, then of calls and results, then of reasoning.

    One mistake gives one violation: a missing result does not also count as wrong order, and results count as not
    contiguous only if they do come, after another message.
    """
    return list(_violations(messages, policy))


def validate_rewrite(original: Sequence[Message], rewritten: Sequence[Message]) -> list[Violation]:
    # Whole messages may be missing. A kept message of the model must keep all its thoughts; whether one is missing
    # cannot be seen from the message alone, so the original is needed.
    return [*_violations(rewritten, SENDABLE), *lost_reasoning(original, rewritten)]


def _violations(messages: Sequence[Message], policy: ValidationPolicy) -> Iterator[Violation]:
    yield from _roles(messages, policy)
    yield from _pairs(messages, policy)
    if policy.enforce_reasoning:
        yield from reasoning(messages)


# -- roles -------------------------------------------------------------------------------------------------------


def _roles(messages: Sequence[Message], policy: ValidationPolicy) -> Iterator[Violation]:
    started = False
    end = 0  # where the latest messages of one role end
    for index, message in enumerate(messages):
        yield from _kinds(index, message, policy)
        if message.role == "system":
            if started and not policy.allow_system_anywhere:
                yield Violation(
                    "SystemNotFirst", f"message {index} is the system's; move it before all others", (index,)
                )
        elif not started:
            started = True
            if message.role == "assistant" and policy.require_user_first:
                yield Violation("AssistantBeforeUser", f"message {index} is the model's; begin with a user's", (index,))
        if index and not policy.allow_repeated_roles and message.role == messages[index - 1].role != "tool":
            end = max(end, index)
            while end < len(messages) and messages[end].role == message.role:
                end += 1
            yield Violation(
                "RepeatedRole",
                f"{end - index + 1} messages of the role {message.role!r} follow each other from message {index - 1} on"
                "; join them",
                tuple(range(index - 1, min(end, index - 1 + _MAX_INDICES))),
            )
    if policy.require_user_present and not any(message.role == "user" for message in messages):
        yield Violation("NoUserMessage", "no message is a user's; add what is asked")


def _kinds(index: int, message: Message, policy: ValidationPolicy) -> Iterator[Violation]:
    role: str = message.role
    if role not in _ROLES and not (policy.allow_developer_and_function and role in _MORE_ROLES):
        yield Violation(
            "UnsupportedMessageType", f"message {index} has the unknown role {role!r}; use one of {_ROLES}", (index,)
        )
    for part in message.parts:
        if isinstance(part, (ToolCall, Thinking)):
            fits = role == "assistant"
        else:
            fits = (role == "tool") == isinstance(part, ToolResult)
        if not fits:
            kind = type(part).__name__
            yield Violation(
                "UnsupportedMessageType", f"message {index}, of the role {role!r}, holds a {kind}; move it", (index,)
            )
            return


# -- calls and their results -------------------------------------------------------------------------------------


class _Window:
    """The calls of one message of the model, and their results before its next message."""

    def __init__(self, index: int, ids: tuple[str, ...]) -> None:
        self.index = index
        self.ids = tuple(dict.fromkeys(each for each in ids if each))
        self.known = frozenset(self.ids)
        self.answers: dict[str, list[int]] = {}
        self.interrupted: int | None = None
        self.late: list[str] = []

    def interrupt(self, index: int) -> None:
        if self.interrupted is None and len(self.answers) < len(self.ids):
            self.interrupted = index

    def answer(self, index: int, call_id: str, policy: ValidationPolicy) -> Iterator[Violation]:
        if call_id not in self.known:
            if not policy.allow_unknown_tool_response:
                yield Violation(
                    "UnknownToolResponse",
                    f"message {index} answers {call_id!r}, which message {self.index} does not call; leave it out",
                    (index,),
                    (call_id,),
                )
            return
        places = self.answers.setdefault(call_id, [])
        places.append(index)
        if len(places) > 1 and not policy.allow_duplicate_tool_response:
            yield Violation(
                "DuplicateToolResponse",
                f"the call {call_id!r} is answered {len(places)} times; keep one",
                tuple(places if len(places) <= _MAX_INDICES else [*places[: _MAX_INDICES - 1], index]),
                (call_id,),
            )
        if self.interrupted is not None and len(places) == 1:
            self.late.append(call_id)

    def close(self, policy: ValidationPolicy) -> Iterator[Violation]:
        if self.late and policy.enforce_contiguous_tool_responses:
            interrupt = self.interrupted or 0
            yield Violation(
                "ToolResponsesNotContiguous",
                f"message {interrupt} stands between the calls of message {self.index} and their results; move it",
                (self.index, interrupt),
                tuple(self.late),
            )
        missing = tuple(each for each in self.ids if each not in self.answers)
        if missing and not policy.allow_dangling_tool_calls:
            yield Violation(
                "MissingToolResponses",
                f"message {self.index} has calls without a result: {', '.join(missing)}; answer each",
                (self.index,),
                missing,
            )
        expected = tuple(each for each in self.ids if each in self.answers)
        observed = tuple(self.answers)
        if expected != observed and policy.enforce_tool_response_order:
            yield Violation(
                "ToolResponsesOutOfOrder",
                f"message {self.index} calls {', '.join(expected)}, the results come as {', '.join(observed)}",
                (self.index, *(self.answers[each][0] for each in observed)),
                observed,
            )


def _pairs(messages: Sequence[Message], policy: ValidationPolicy) -> Iterator[Violation]:
    window: _Window | None = None
    for index, message in enumerate(messages):
        if message.role == "assistant":
            if window is not None:
                yield from window.close(policy)
            ids = tuple([call.id for call in message.tool_calls])
            yield from _call_ids(index, ids)
            window = _Window(index, ids) if ids else None
        elif message.role != "tool":
            if window is not None:
                window.interrupt(index)
        else:
            for call_id in [result.id for result in message.tool_results] or [""]:
                yield from _result(index, call_id, window, policy)
    if window is not None:
        yield from window.close(policy)


def _call_ids(index: int, ids: tuple[str, ...]) -> Iterator[Violation]:
    twice = tuple(each for each, times in Counter(ids).items() if each and times > 1)
    if twice:
        yield Violation(
            "DuplicateToolCallIdsInAssistant",
            f"calls of message {index} share an id: {', '.join(twice)}; give each its own",
            (index,),
            twice,
        )
    empty = [position for position, each in enumerate(ids) if not each]
    if empty:
        yield Violation(
            "EmptyToolCallIdInAssistant",
            f"calls of message {index} have no id, at {', '.join(map(str, empty))}; give each its own",
            (index,),
        )


def _result(index: int, call_id: str, window: _Window | None, policy: ValidationPolicy) -> Iterator[Violation]:
    if not call_id:
        yield Violation("EmptyToolMessageId", f"message {index} does not say which call it answers", (index,))
    elif window is None:
        yield Violation(
            "ToolBeforeAssistant",
            f"message {index} answers {call_id!r}, but no call stands before it; leave it out",
            (index,),
            (call_id,),
        )
    else:
        yield from window.answer(index, call_id, policy)
