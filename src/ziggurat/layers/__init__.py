"""Layers and combinators that fit any service: a model, a tool, an agent, a team."""

from ziggurat.layers.cache import CacheStore, cache
from ziggurat.layers.fallback import fallback
from ziggurat.layers.hedge import hedge
from ziggurat.layers.retry import RetryBudget, retry
from ziggurat.layers.tap import tap
from ziggurat.layers.timeout import timeout

__all__ = ["CacheStore", "RetryBudget", "cache", "fallback", "hedge", "retry", "tap", "timeout"]
