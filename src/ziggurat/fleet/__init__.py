"""Many machines: what they share in Redis, such as the state of circuit breakers, a leader and a queue of work."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.fleet.backend import RedisBackend as RedisBackend
    from ziggurat.fleet.coordination import RedisJob as RedisJob, RedisLeader as RedisLeader, RedisQueue as RedisQueue
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
