"""The parts of a conversation that are compacted; a call and its result are never separated."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import CheckedStruct, PositiveInt
from ziggurat.messages.conversation import characters
from ziggurat.messages.message import Message
from ziggurat.messages.model import Model
from ziggurat.messages.parts import Text, Thinking, ToolCall, ToolResult

Span = tuple[int, int]
"""A range of messages: the index of the first, and the index after the last."""


class Excerpt(Struct, frozen=True, eq=False):
    """A part of a conversation to shorten; it contains the results of every call in it.

    Attributes:
        messages: The part, in order.
        model: The model of the agent.
        room: About how many tokens all excerpts together should have afterwards, None for no limit.
    """

    messages: tuple[Message, ...]
    model: Model
    room: int | None = None


class Selector(Protocol):
    """Chooses the messages that may be shortened."""

    def __call__(self, messages: Sequence[Message], /, *, level: int = 0, minimum: int = 1) -> list[Span]:
        """Return the ranges to shorten, in order; they begin and end between units.

        Args:
            messages: The conversation.
            level: How much more to shorten than configured: at each level, less is kept.
            minimum: How many units at the end are kept at any level.
        """
        ...


def units(messages: Sequence[Message]) -> list[Span]:
    """Return the ranges that are kept or removed as a whole: a message with calls and their results, or any other."""
    spans: list[Span] = []
    at = 0
    while at < len(messages):
        end = at + 1
        if messages[at].tool_calls:
            index = end
            while index < len(messages) and messages[index].role != "assistant":
                index += 1
                if messages[index - 1].role == "tool":
                    end = index
        spans.append((at, end))
        at = end
    return spans


class Recent(CheckedStruct, frozen=True, kw_only=True):
    """Keeps the last messages, system messages, and the user's latest message, which is the current task.

    Of several limits the tightest applies. The last unit, whose results the model has not seen yet, is always kept
    unless it alone is too long for the model.

    Attributes:
        messages: How many messages to keep at the end.
        turns: How many user turns to keep at the end; a turn is a user message and all that follows it.
        tokens: How many tokens to keep at the end.
        first: Keep the user's first message too.
    """

    messages: PositiveInt | None = None
    turns: PositiveInt | None = None
    tokens: PositiveInt | None = None
    first: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.messages is self.turns is self.tokens is None:
            raise ConfigurationError("Recent() keeps nothing: give messages=..., turns=... or tokens=...")

    def __call__(self, messages: Sequence[Message], /, *, level: int = 0, minimum: int = 1) -> list[Span]:
        """Return the ranges between the messages that are kept."""
        blocks = units(messages)
        count = max(self._kept(messages, blocks) >> level, minimum)
        cut = len(blocks) - count
        pinned = self._pinned(messages)
        spans: list[Span] = []
        for start, end in blocks[: max(cut, 0)]:
            if start in pinned:
                continue
            if spans and spans[-1][1] == start:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
        return spans

    def _kept(self, messages: Sequence[Message], blocks: list[Span]) -> int:
        """Return how many units at the end are within the limits."""
        turns = tokens = 0
        for number, (start, end) in enumerate(reversed(blocks)):
            tokens += sum(characters(message) for message in messages[start:end]) // 4
            if self.messages is not None and len(messages) - start > self.messages:
                return number
            if self.tokens is not None and tokens > self.tokens:
                return number
            if messages[start].role == "user" and messages[start].origin is None:
                turns += 1
                if turns == self.turns:
                    return number + 1
        return len(blocks)

    def _pinned(self, messages: Sequence[Message]) -> set[int]:
        prompts = [index for index, message in enumerate(messages) if message.role == "user" and message.origin is None]
        pinned = {index for index, message in enumerate(messages) if message.role == "system" and not message.origin}
        return pinned | set(prompts[-1:]) | (set(prompts[:1]) if self.first else set())


def text_of_parts(messages: Sequence[Message], limit: int | None = None) -> str:
    """Return messages as text, one line per part, to be read as data."""
    lines: list[str] = []
    for message in messages:
        who = message.role if message.origin is None else "note"
        for part in message.parts:
            if isinstance(part, Text):
                line = f"{who}: {part.text}"
            elif isinstance(part, ToolCall):
                line = f"{who} calls {part.name}: {part.arguments}"
            elif isinstance(part, ToolResult):
                line = f"{part.name} returned{' an error' if part.error else ''}: {part.text}"
            elif isinstance(part, Thinking):
                continue
            else:
                line = f"{who}: [{type(part).__name__.lower()}]"
            lines.append(line if limit is None or len(line) <= limit else line[: limit - 1] + "…")
    return "\n".join(lines)
