"""Limits: how long a call may take, how large a reply may be, and how many connections there may be."""

__all__ = ["Limits"]

from math import isfinite

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError

_MEBIBYTE = 1 << 20


class Limits(Struct, frozen=True, kw_only=True):
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

    connect: float | None = 10.0
    idle: float | None = 300.0
    total: float | None = 1800.0
    connections: int = 1000
    idle_connections: int = 100
    keep_alive: float = 60.0
    reply: int = 32 * _MEBIBYTE
    stream: int = 256 * _MEBIBYTE

    def __post_init__(self) -> None:
        for name in ("connect", "idle", "total", "keep_alive"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and isfinite(value) and value > 0):
                raise ConfigurationError(f"Limits({name}=...) is a number of seconds above 0, got {value!r}")
        for name in ("connections", "reply", "stream"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"Limits({name}=...) is a whole number of at least 1, got {value!r}")
        if not isinstance(self.idle_connections, int) or self.idle_connections < 0:
            raise ConfigurationError(
                f"Limits(idle_connections=...) is a whole number of at least 0, got {self.idle_connections!r}"
            )
