"""Trimming: sends the model only a part of a long conversation, without changing the conversation."""

from collections.abc import Sequence

from msgspec.structs import replace

from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonNegativeInt, PositiveInt, checked
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.usage import estimate_tokens


class Trim(Middleware):
    """Sends models the last messages, the first and the last, or as many as fit into a number of tokens.

    System messages are always sent, in front; instructions are not changed. A call and its results stay together, and
    the conversation begins with a user's message, so a few messages fewer than allowed may be sent. What the user asked
    last, and the last message with the call that it answers, are always sent.

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

    @checked
    def __init__(
        self, *, last: PositiveInt | None = None, first: NonNegativeInt = 0, tokens: PositiveInt | None = None
    ) -> None:
        if (last is None) == (tokens is None) or (first and last is None):
            raise ConfigurationError("give Trim(last=...), Trim(first=..., last=...), or Trim(tokens=...)")
        self.first = first
        self.last = last
        self.tokens = tokens

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        """Return the request with the trimmed conversation."""
        if self.last is not None and len(request.messages) <= self.first + self.last:
            return None
        visible = self.view(request.messages)
        if len(visible) == len(request.messages):
            return None
        return replace(request, messages=Transcript.of(*visible))

    def view(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages of a conversation that are sent."""
        systems = [message for message in messages if message.role == "system"]
        units = _units([message for message in messages if message.role != "system"])
        sizes = [len(unit) if self.tokens is None else sum(map(_tokens, unit)) for unit in units]
        left = (self.last or 0) if self.tokens is None else self.tokens - sum(map(_tokens, systems))
        head = _count_within(sizes, self.first)
        start = _start_within(sizes, head, left)
        question = _question(units)
        if question is not None and head <= question < start:  # the question is always sent
            start = _start_within(sizes, question + 1, left - sizes[question])
            seen = [*units[:head], units[question], *units[start:]]
        else:
            if not head and question is not None:  # a conversation begins with a user's message
                start = next(number for number in range(start, len(units)) if units[number][0].role == "user")
            seen = [*units[:head], *units[start:]]
        return [*systems, *(message for unit in seen for message in unit)]


def _question(units: list[list[Message]]) -> int | None:
    """Return the place of what a person asked last, else of the last message in the role of the user."""
    places = [number for number, unit in enumerate(units) if unit[0].role == "user"]
    of_people = [number for number in places if units[number][0].origin is None]
    return max(of_people or places, default=None)


def _units(messages: Sequence[Message]) -> list[list[Message]]:
    """Return messages in groups that must stay together: calls with their results."""
    units: list[list[Message]] = []
    for message in messages:
        if message.role == "tool" and units:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _count_within(sizes: Sequence[int], bound: int) -> int:
    """Return how many of these sizes, from the first on, have a sum within the bound."""
    used = count = 0
    for size in sizes:
        used += size
        if used > bound:
            break
        count += 1
    return count


def _start_within(sizes: Sequence[int], after: int, bound: int) -> int:
    """Return from where on the sizes, `after` at the earliest, have a sum within the bound; the last one always has."""
    rest = sizes[after:]
    return len(sizes) - max(_count_within(rest[::-1], bound), 1) if rest else len(sizes)


def _tokens(message: Message) -> int:
    return estimate_tokens(encode(message.parts).decode())
