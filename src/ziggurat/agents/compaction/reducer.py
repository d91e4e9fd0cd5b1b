"""Reducers: services from an excerpt of a conversation to the messages that replace it."""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.compaction.selector import units
from ziggurat.core.context import Context
from ziggurat.core.service import Service
from ziggurat.core.settings import CheckedStruct, NonNegativeInt, PositiveInt
from ziggurat.messages.conversation import characters
from ziggurat.messages.message import Message, taint_of
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.parts import Text, Thinking, ToolCall, ToolResult


class Excerpt(Struct, frozen=True, eq=False):
    """A part of a conversation to shorten; it contains the results of every call in it.

    Attributes:
        messages: The part, in order.
        model: The model of the agent.
        room: About how many tokens all excerpts together should have afterwards, None for no limit.
    """

    messages: tuple[Message, ...]
    model: Service[ModelRequest, ModelResponse]
    room: int | None = None


Reducer = Service[Excerpt, tuple[Message, ...]]
"""Returns the messages that replace an excerpt, each call with its results."""


def runtime_message(text: str, about: Iterable[Message] = ()) -> Message:
    """Return a message with ``origin="runtime"``, tainted by the tools whose results are in its text."""
    return Message("user", (Text(text),), None, "runtime", taint_of(about))


class Drop(CheckedStruct, frozen=True):
    """Replaces an excerpt with a short note.

    Attributes:
        note: The note, with ``{count}`` for the number of messages; empty for no note.
    """

    note: str = "[{count} earlier messages were left out]"

    async def __call__(self, excerpt: Excerpt, ctx: Context, /) -> tuple[Message, ...]:
        """Return the note."""
        return (runtime_message(self.note.replace("{count}", str(len(excerpt.messages)))),) if self.note else ()


class Mask(CheckedStruct, frozen=True, kw_only=True):
    """Replaces tool results with a short note; calls, errors and everything else stay.

    Attributes:
        min_tokens: Results of fewer tokens than this stay.
        note: The note, with ``{tool}`` and ``{tokens}``.
    """

    min_tokens: NonNegativeInt = 100
    note: str = "[what {tool} returned, about {tokens} tokens, was left out; call it again if it is needed]"

    async def __call__(self, excerpt: Excerpt, ctx: Context, /) -> tuple[Message, ...]:
        """Return the excerpt with results replaced by notes."""
        return tuple(self._masked(message) for message in excerpt.messages)

    def _masked(self, message: Message) -> Message:
        if message.role != "tool":
            return message
        parts = tuple(self._short(part) if isinstance(part, ToolResult) else part for part in message.parts)
        return message if parts == message.parts else replace(message, parts=parts)

    def _short(self, result: ToolResult) -> ToolResult:
        tokens = characters(Message("tool", (result,))) // 4
        if result.error is not None or tokens < self.min_tokens:
            return result
        note = self.note.replace("{tool}", result.name).replace("{tokens}", str(tokens))
        return replace(result, content=note)


class Concatenate(CheckedStruct, frozen=True, kw_only=True):
    """Joins an excerpt into one text, one shortened line per message part.

    Attributes:
        max_line: The longest line, in characters.
    """

    max_line: PositiveInt = 200

    async def __call__(self, excerpt: Excerpt, ctx: Context, /) -> tuple[Message, ...]:
        """Return the text as one message."""
        return (
            runtime_message("[Earlier, in short]\n" + text_of_parts(excerpt.messages, self.max_line), excerpt.messages),
        )


class Windows(CheckedStruct, frozen=True):
    """Splits an excerpt into windows and shortens each by itself, so that each gets its own replacement.

    Attributes:
        inner: Shortens one window.
        size: How many units a window has; a unit is a message with calls and their results, or any other message.
    """

    inner: Reducer
    size: PositiveInt = 10

    async def __call__(self, excerpt: Excerpt, ctx: Context, /) -> tuple[Message, ...]:
        """Return the shortened windows, in order."""
        blocks = units(excerpt.messages)
        summaries: list[Message] = []
        for first in range(0, len(blocks), self.size):
            window = blocks[first : first + self.size]
            part = excerpt.messages[window[0][0] : window[-1][1]]
            summaries += await self.inner(replace(excerpt, messages=part), ctx.under("window"))
        return tuple(summaries)


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
