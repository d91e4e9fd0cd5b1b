"""Bus: messages between the coroutines of one process, to all, to one, or to a role."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from types import TracebackType

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError, ServiceError
from ziggurat.core.settings import CheckedStruct, NonEmptyText, PositiveInt, checked
from ziggurat.core.visible import visible_line


class Broadcast(Struct, frozen=True):
    """The address of all subscribers of a bus, the sender included."""


class Specific(CheckedStruct, frozen=True):
    """The address of one subscriber of a bus: ``ann.send("hello", Specific("ben"))``."""

    name: NonEmptyText


class Role(CheckedStruct, frozen=True):
    """The address of all subscribers of a bus with a role: ``ann.send("please review", Role("reviewer"))``."""

    name: NonEmptyText


Address = Broadcast | Specific | Role
"""Whom a message is for."""


class BusMessage(Struct, frozen=True):
    """A message on a bus, which sets its number and sender; `reply_to` is the id of the message that it answers."""

    id: int
    sender: str
    to: Address
    content: object
    reply_to: int | None = None


class Lagged(Struct, frozen=True):
    """Comes in place of the messages, `count` of them, that a subscriber has missed, because it was too slow."""

    count: int


class BusStatistics(Struct, frozen=True):
    """The figures of a bus.

    `lagged` is how many messages each subscriber has missed so far, by name; the subscribers are in the order in which
    they subscribed, and the roles that they have are sorted.
    """

    total_sent: int
    dead_letters: int
    lagged: dict[str, int]
    subscribers: tuple[str, ...]
    roles: tuple[str, ...]


class BusClosed(ServiceError):
    """The bus was closed or the subscription has ended, and everything that was received before has been read."""


class Bus:
    """Passes messages on to all subscribers that they are for; a slow one misses messages, and gets to know how many.

    ::

        bus = Bus()
        ann, ben = bus.subscribe("ann"), bus.subscribe("ben", role="reviewer")
        ann.send("please review", Role("reviewer"))
        message = await ben.receive()

    A subscriber gets what is sent after it has subscribed, and misses the oldest message when more than `capacity`
    wait. The sender of a message is set by the bus. It is not recorded: for messages between members of a durable run,
    use a team.
    """

    @checked
    def __init__(self, capacity: PositiveInt = 256) -> None:
        self.capacity = capacity
        self._subscriptions: dict[str, Subscription] = {}
        self._roles: dict[str, dict[str, Subscription]] = {}
        self._sent = self._dead = 0
        self._closed = False

    def subscribe(self, name: NonEmptyText, *, role: NonEmptyText | None = None) -> "Subscription":
        """Add a subscriber.

        Raises:
            ConfigurationError: there is one of this name, or it has blanks at its ends or characters that are not seen.
            BusClosed: the bus was closed.
        """
        self._require_open()
        if visible_line(name).strip() != name:
            raise ConfigurationError(f"a name has no hidden characters, or blanks at its ends; got {name!a}")
        if name in self._subscriptions:
            raise ConfigurationError(f"there is a subscriber named {name!r}; the sender of a message must be certain")
        subscription = self._subscriptions[name] = Subscription(self, name, role)
        if role is not None:
            self._roles.setdefault(role, {})[name] = subscription
        return subscription

    def close(self) -> None:
        """Close the bus: nothing more can be sent; what was sent can still be received."""
        self._closed = True
        for subscription in self._subscriptions.values():
            subscription.wake()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def statistics(self) -> BusStatistics:
        """The figures of the bus at this moment."""
        lagged = {name: each.lagged for name, each in self._subscriptions.items()}
        roles = tuple(sorted(role for role, members in self._roles.items() if members))
        return BusStatistics(self._sent, self._dead, lagged, tuple(self._subscriptions), roles)

    def pass_on(self, sender: "Subscription", content: object, to: Address, reply_to: int | None) -> BusMessage:
        self._require_open()
        if self._subscriptions.get(sender.name) is not sender:
            raise BusClosed(f"{sender.name} has left the bus")
        self._sent += 1
        message = BusMessage(self._sent, sender.name, to, content, reply_to)
        receivers = self._receivers(to)
        if not receivers:
            self._dead += 1
        for subscription in receivers:
            subscription.take(message)
        return message

    def leave(self, subscription: "Subscription") -> None:
        if self._subscriptions.get(subscription.name) is subscription:
            del self._subscriptions[subscription.name]
            if subscription.role is not None:
                del self._roles[subscription.role][subscription.name]

    def _receivers(self, to: Address) -> "Iterable[Subscription]":
        match to:
            case Broadcast():
                return tuple(self._subscriptions.values())
            case Specific():
                subscription = self._subscriptions.get(to.name)
                return () if subscription is None else (subscription,)
        return tuple(self._roles.get(to.name, {}).values())

    def _require_open(self) -> None:
        if self._closed:
            raise BusClosed("the bus is closed")

    def __repr__(self) -> str:
        return f"Bus({', '.join(self._subscriptions)})"


_EVERYONE = Broadcast()


class Subscription:
    """One subscriber of a bus: it sends and receives in its own name, and has missed `lagged` messages so far.

    When the bus was closed, or it has left, `send` raises BusClosed; so does `receive` when everything is received.
    """

    @checked
    def __init__(self, bus: Bus, name: NonEmptyText, role: NonEmptyText | None) -> None:
        self.name = name
        self.role = role
        self.lagged: int = 0
        self._bus = bus
        self._has_left = False
        self._missed = 0  # since the last report
        self._waiting: deque[BusMessage] = deque()
        self._bell: asyncio.Future[None] | None = None

    def send(self, content: object, to: Address = _EVERYONE) -> BusMessage:
        """Send a message at once; it never waits."""
        return self._bus.pass_on(self, content, to, None)

    def reply(self, message: BusMessage, content: object) -> BusMessage:
        """Answer a message, to its sender alone."""
        return self._bus.pass_on(self, content, Specific(message.sender), message.id)

    async def receive(self) -> BusMessage | Lagged:
        """Return the next message, or how many were missed before it."""
        while True:
            if self._missed:
                missed, self._missed = self._missed, 0
                return Lagged(missed)
            if self._waiting:
                return self._waiting.popleft()
            if self._has_left or self._bus.is_closed:
                why = "the bus is closed" if self._bus.is_closed else f"{self.name} has left the bus"
                raise BusClosed(f"{why}, and all messages have been received")
            if self._bell is not None:
                raise ConfigurationError(f"two tasks receive for {self.name} at the same time; give each a name")
            self._bell = asyncio.get_running_loop().create_future()
            try:
                await self._bell
            finally:
                self._bell = None

    async def __aiter__(self) -> AsyncIterator[BusMessage | Lagged]:
        while True:
            try:
                message = await self.receive()
            except BusClosed:
                return
            yield message

    def take(self, message: BusMessage) -> None:
        if len(self._waiting) >= self._bus.capacity:
            self._waiting.popleft()
            self._missed += 1
            self.lagged += 1
        self._waiting.append(message)
        self.wake()

    def wake(self) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    def leave(self) -> None:
        """End the subscription; a `receive` that waits ends with BusClosed."""
        self._has_left = True
        self._bus.leave(self)
        self.wake()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def __repr__(self) -> str:
        return f"Subscription({self.name!r})"
