"""Stores by their address."""

__all__ = ["connect"]

from ziggurat.core.errors import ConfigurationError
from ziggurat.stores.memory import MemoryStore


def connect(url: str | MemoryStore) -> MemoryStore:
    """Open the store at an address; ``memory:`` keeps runs in this process.

    Raises:
        ConfigurationError: the address is of no known kind.
    """
    if isinstance(url, MemoryStore):
        return url
    if url == "memory:":
        return MemoryStore()
    raise ConfigurationError(f"no store is known at {url!r}; known is 'memory:'")
