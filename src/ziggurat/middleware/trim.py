"""Trimming: sends the model only a part of a long conversation, without changing the conversation."""

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
    """Sends models the last messages, the first and the last, or as many as fit into a number of tokens.

    System messages are always sent, in front; instructions are not changed. A call and its results stay together, so
    a few messages fewer than allowed may be sent; the last message, with the call that it answers, is always sent.

    ::

        Trim(last=20)
        Trim(first=2, last=20)
        Trim(tokens=8_000)

    Args:
        last: The number of messages at the end.
        first: The number of messages at the start, in addition.
        tokens: The maximum tokens of the messages, as estimated by `estimate_tokens`; the oldest are left out first.

    Raises:
        ConfigurationError: not exactly one of `last` and `tokens` was given, or a number is not valid.
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
        """Return the request with the trimmed conversation."""
        if self.last is not None and len(request.messages) <= self.first + self.last:
            return None
        kept = self.view(request.messages)
        if len(kept) == len(request.messages):
            return None
        return replace(request, messages=Transcript.of(*kept))

    def view(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages of a conversation that are sent."""
        systems = [message for message in messages if message.role == "system"]
        units = _units([message for message in messages if message.role != "system"])
        if self.tokens is None:
            head = _count_within(map(len, units), self.first)
            rest = units[head:]
            tail = _count_within(map(len, rest[::-1]), self.last or 1)
        else:
            head, rest = 0, units
            left = self.tokens - sum(map(_tokens, systems))
            tail = _count_within((sum(map(_tokens, unit)) for unit in rest[::-1]), left)
        tail = max(tail, 1) if rest else 0
        seen = units[:head] + rest[len(rest) - tail :]
        return [*systems, *(message for unit in seen for message in unit)]


def _units(messages: Sequence[Message]) -> list[list[Message]]:
    """Return messages in groups that must stay together: calls with their results."""
    units: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and units:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _count_within(sizes: Iterable[int], bound: int) -> int:
    """Return how many of these sizes, from the first on, have a sum within the bound."""
    used = taken = 0
    for size in sizes:
        used += size
        if used > bound:
            break
        taken += 1
    return taken


def _tokens(message: Message) -> int:
    return estimate_tokens(encode(message.parts).decode())
