"""Trimming: the model sees a part of a long conversation; the conversation itself stays whole."""

__all__ = ["Trim"]

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.usage import estimate_tokens


class Trim(Middleware):
    """Shows models the last messages, the first and the last, or as many as fit.

    System messages always stay, in front; instructions are not touched. A call and its results go together, so a view
    may hold a few messages fewer than it might; the last message, with the call that it answers, is always seen.

    ::

        Trim(last=20)
        Trim(first=2, last=20)
        Trim(tokens=8_000)

    Args:
        last: How many messages are seen at the end.
        first: How many are seen at the beginning, besides.
        tokens: How many tokens of messages, as `estimate_tokens` guesses, are seen at the end; the oldest go first.

    Raises:
        ConfigurationError: neither `last` nor `tokens` was given, or a number makes no sense.
    """

    def __init__(self, *, last: int | None = None, first: int = 0, tokens: int | None = None) -> None:
        for name, value, least in (("last", last, 1), ("first", first, 0), ("tokens", tokens, 1)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise ConfigurationError(f"Trim({name}=...) is a whole number of at least {least}, got {value!r}")
        if (last is None) == (tokens is None) or (first and last is None):
            raise ConfigurationError("give Trim(last=...), Trim(first=..., last=...), or Trim(tokens=...)")
        self.first = first
        self.last = last
        self.tokens = tokens

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        """Return the question with what the model is to see."""
        if self.last is not None and len(request.messages) <= self.first + self.last:
            return None
        kept = self.view(request.messages)
        if len(kept) == len(request.messages):
            return None
        return replace(request, messages=Transcript.of(*kept))

    def view(self, messages: Sequence[Message]) -> list[Message]:
        """Return what is seen of a conversation."""
        systems = [message for message in messages if message.role == "system"]
        units = _units([message for message in messages if message.role != "system"])
        if self.tokens is None:
            head = _taken(map(len, units), self.first)
            rest = units[head:]
            tail = _taken(map(len, rest[::-1]), self.last or 1)
        else:
            head, rest = 0, units
            left = self.tokens - sum(map(_tokens, systems))
            tail = _taken((sum(map(_tokens, unit)) for unit in rest[::-1]), left)
        tail = max(tail, 1) if rest else 0
        seen = units[:head] + rest[len(rest) - tail :]
        return [*systems, *(message for unit in seen for message in unit)]


def _units(messages: Sequence[Message]) -> list[list[Message]]:
    """Return messages in groups that only make sense together: calls with their results."""
    units: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and units:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _taken(sizes: Iterable[int], bound: int) -> int:
    """Return how many of these sizes fit into the bound, from the first on."""
    used = taken = 0
    for size in sizes:
        used += size
        if used > bound:
            break
        taken += 1
    return taken


def _tokens(message: Message) -> int:
    return estimate_tokens(encode(message.parts).decode())
