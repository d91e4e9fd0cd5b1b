"""Layers and combinators for any service: a model, a tool, an agent, a team."""

from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.cache import CACHE_POLICY, CacheStore, DedupeStore, cache, dedupe
from ziggurat.layers.circuit_breaker import CircuitBreaker, circuit_breaker
from ziggurat.layers.concurrency_limit import Bulkhead, Gate, backpressure, concurrency_limit
from ziggurat.layers.pipeline import pipeline, steer, tap
from ziggurat.layers.rate_limiter import RateLimiter, rate_limit
from ziggurat.layers.retry import RetryBudget, retry, timeout

__all__ = [
    "CACHE_POLICY",
    "Bulkhead",
    "CacheStore",
    "CircuitBreaker",
    "DedupeStore",
    "Gate",
    "RateLimiter",
    "RetryBudget",
    "backpressure",
    "cache",
    "circuit_breaker",
    "concurrency_limit",
    "dedupe",
    "fallback",
    "hedge",
    "pipeline",
    "rate_limit",
    "retry",
    "steer",
    "tap",
    "timeout",
]
