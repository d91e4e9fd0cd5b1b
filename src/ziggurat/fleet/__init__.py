"""Many machines: what they share in Redis, such as the state of circuit breakers, a leader and a queue of work."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "fleet.breaker": ("RedisBackend",),
        "fleet.leader": ("RedisLeader", "Term"),
        "fleet.queue": ("RedisJob", "RedisQueue"),
    },
)
