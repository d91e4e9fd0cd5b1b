"""A store at whose every moment something can be done: before and after each of its operations."""

from collections.abc import Awaitable, Callable
from typing import Any

from ziggurat.journal import Store

OPERATIONS = frozenset({"append", "create", "find", "inbox", "lease", "post", "read", "release"})


class WatchedStore:
    """A store that awaits a function before and after each operation, with the number of the moment."""

    def __init__(self, store: Store, reached: Callable[[int], Awaitable[None]]) -> None:
        self.inner = store
        self.moments: int = 0
        self._reached = reached

    async def _pass(self) -> None:
        self.moments += 1
        await self._reached(self.moments)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.inner, name)
        if name not in OPERATIONS:
            return method

        async def watched(*arguments: Any, **settings: Any) -> Any:
            await self._pass()
            result = await method(*arguments, **settings)
            await self._pass()
            return result

        return watched
