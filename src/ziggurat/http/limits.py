"""Limits: how long a call may take, how large a reply may be, and how many connections there may be."""

from ziggurat.core.settings import CheckedStruct, NonNegativeInt, PositiveInt, Seconds

_MEBIBYTE = 1 << 20


class Limits(CheckedStruct, frozen=True, kw_only=True):
    """The limits of calls to one service; None for no limit. All times are in seconds, on the run's clock.

    Attributes:
        connect: The time to connect, TLS and proxy included.
        idle: The time without a byte from the server, before or during a reply.
        total: The time of a whole call; waiting for a slow reader of a stream does not count.
        connections: The largest number of connections to one service; further calls wait for one.
        idle_connections: How many connections stay open while unused.
        keep_alive: How long they stay open.
        reply: The largest plain reply in bytes, after decompression.
        stream: The largest streamed reply in bytes, after decompression.
    """

    connect: Seconds | None = 10.0
    idle: Seconds | None = 300.0
    total: Seconds | None = 1800.0
    connections: PositiveInt = 1000
    idle_connections: NonNegativeInt = 100
    keep_alive: Seconds = 60.0
    reply: PositiveInt = 32 * _MEBIBYTE
    stream: PositiveInt = 256 * _MEBIBYTE
