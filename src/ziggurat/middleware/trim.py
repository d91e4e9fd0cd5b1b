"""Trimming: sends the model only a part of a long conversation, without changing the conversation."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

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
        self._measure = _one if tokens is None else _tokens

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        messages = request.messages
        if self.last is not None and len(messages) <= self.first + self.last:
            return None
        units = self._units_of(messages)
        head, question, start = self._seen(units)
        if start <= head + (question == head):  # nothing is left out
            return None
        return replace(request, messages=Transcript.of(*units.chosen(head, question, start)))

    def view(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages of a conversation that are sent."""
        units = self._units()
        units.add(messages)
        return units.chosen(*self._seen(units))

    def _units(self) -> "_Units":
        return _Units(self._measure)

    def _units_of(self, messages: Transcript) -> "_Units":
        """Return the units of a conversation, of which only what is new is read."""
        units = messages.note(self._measure, lambda: self._units_before(messages))
        if units.read > len(messages):
            units = self._units()
        units.add(messages[units.read :])
        return units

    def _units_before(self, messages: Transcript) -> "_Units":
        return self._units() if messages.beginning is None else self._units_of(messages.beginning).copy()

    def _seen(self, units: "_Units") -> tuple[int, int | None, int]:
        """Return how many units at the start are sent, perhaps the question's, and the first at the end."""
        left = (self.last or 0) if self.tokens is None else self.tokens - units.systems_size
        head = max(0, bisect_right(units.sums, self.first) - 1)
        start = units.start_within(head, left)
        question = max(units.of_people[-1:] or units.of_users[-1:], default=None)
        if question is not None and head <= question < start:  # the question is always sent
            return head, question, units.start_within(question + 1, left - units.size(question))
        if not head and question is not None:  # a conversation begins with a user's message
            start = units.of_users[bisect_left(units.of_users, start)]
        return head, None, start


class _Units:
    """The messages of a conversation in groups that must stay together: calls with their results."""

    def __init__(self, measure: Callable[[Message], int]) -> None:
        self.read = 0  # the number of messages
        self.systems: list[Message] = []
        self.systems_size = 0
        self.of_users: list[int] = []  # the units that begin with a message in the role of the user
        self.of_people: list[int] = []  # those of them that a person has said
        self.sums = [0]  # the size of the first units, for each number of them
        self._units: list[list[Message]] = []
        self._measure = measure

    def copy(self) -> "_Units":
        copy = _Units(self._measure)
        copy.read, copy.systems, copy.systems_size = self.read, [*self.systems], self.systems_size
        copy.of_users, copy.of_people, copy.sums = [*self.of_users], [*self.of_people], [*self.sums]
        copy._units = [*self._units[:-1], *([*each] for each in self._units[-1:])]
        return copy

    def add(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.read += 1
            size = self._measure(message)
            if message.role == "system":
                self.systems.append(message)
                self.systems_size += size
            elif message.role == "tool" and self._units:
                self._units[-1].append(message)
                self.sums[-1] += size
            else:
                if message.role == "user":
                    self.of_users.append(len(self._units))
                    if message.origin is None:
                        self.of_people.append(len(self._units))
                self._units.append([message])
                self.sums.append(self.sums[-1] + size)

    def size(self, number: int) -> int:
        return self.sums[number + 1] - self.sums[number]

    def start_within(self, after: int, bound: int) -> int:
        """Return from where on the units, `after` at the earliest, are within the bound; the last one always is."""
        start = bisect_left(self.sums, self.sums[-1] - bound, after)
        return min(start, max(after, len(self._units) - 1))

    def chosen(self, head: int, question: int | None, start: int) -> list[Message]:
        """Return the system messages, the first units, perhaps the question, and the units from `start` on."""
        asked = [] if question is None else [self._units[question]]
        units = [*self._units[:head], *asked, *self._units[max(head, start) :]]
        return [*self.systems, *(message for unit in units for message in unit)]


def _one(message: Message) -> int:
    return 1


def _tokens(message: Message) -> int:
    return estimate_tokens(encode(message.parts).decode())
