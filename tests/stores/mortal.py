"""A store whose process can die, for tests that go on in another."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from ziggurat.errors import StoreError
from ziggurat.journal import LogInfo, Row, Store


class MortalStore:
    """A store whose process may die: from a chosen append on, nothing more is written, and nothing is released."""

    def __init__(self, store: Store, lives: int | None = None) -> None:
        self.inner = store
        self.lives = lives

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def dead(self) -> bool:
        """Whether the process has died."""
        return self.lives is not None and self.lives <= 0

    def _live(self) -> None:
        if self.dead:
            raise StoreError("the process has died")

    async def create(self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        """Create a log, unless dead."""
        self._live()
        return await self.inner.create(info, rows, blobs)

    async def lease(self, log: str) -> int:
        """Lease a log, unless dead."""
        self._live()
        return await self.inner.lease(log)

    def append(
        self,
        log: str,
        epoch: int,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes] | None = None,
        *,
        release: bool = False,
        due: float | None = None,
        read: int | None = None,
    ) -> Awaitable[None]:
        """Append rows, or die."""
        if self.lives is not None:
            self.lives -= 1
        if self.dead:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(StoreError("the process has died"))
            return failed
        return self.inner.append(log, epoch, rows, blobs, release=release, due=due, read=read)

    async def release(self, log: str, epoch: int) -> None:
        """Release a lease; a dead process releases nothing."""
        if not self.dead:
            await self.inner.release(log, epoch)
