"""The queue of a PostgreSQL store: what is due is found by index, claimed in one statement, and signalled."""

from asyncio import Future
from collections.abc import Sequence
from typing import Any

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import RunNotFound, StoreError
from ziggurat.databases.owner import LostLeases, is_gone
from ziggurat.databases.postgres import Connection, PostgresConnection
from ziggurat.databases.writer import Writer
from ziggurat.journal.store import Claim, InboxItem
from ziggurat.stores.pending import ListsPending
from ziggurat.stores.postgres import statements as sql
from ziggurat.stores.postgres.listener import PostgresListener

_POLL = 0.1
"""The longest wait for work of other processes, in seconds, while the server sends no signals."""


class PostgresQueue(ListsPending):
    """The methods of `Queue`, and access to the database for all methods."""

    seconds: float
    owner: str
    _clock: Clock | None
    _channel: str
    _held: dict[str, tuple[int, int]]
    _writing: PostgresConnection
    _reading: PostgresConnection
    _writer: Writer
    _reader: Writer
    _listener: PostgresListener
    _lost: LostLeases

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock.now()

    def _read(self, statement: str, *values: object) -> "Future[Sequence[Any]]":
        return self._reader.submit(lambda: self._reading.fetch(statement, *values))

    def _claim(self, agent: str, limit: int) -> list[Claim]:
        claims = [] if self._lost.are_due(agent) else self._claim_due(sql.CLAIM, agent, limit)
        if len(claims) < limit:  # there is time to look for others
            try:
                claims += self._claim_due(sql.CLAIM_ANY, agent, limit - len(claims), *self._lost_to(agent))
            except StoreError:
                if not claims:  # those must be driven, for their leases are renewed; the next claim fails, too
                    raise
        if any(claim.lost for claim in claims):
            self._lost.found(agent)
        return claims

    def _lost_to(self, agent: str) -> tuple[list[str], list[int]]:
        """Return the owners of leases that are gone, and the logs of this store, whose leases are renewed."""
        holders = [owner for (owner,) in self._writing.fetch(sql.HOLDERS, agent)]
        lost = [owner for owner in holders if owner != self.owner and is_gone(owner)]
        return lost, [number for number, _ in self._held.values()]

    def _claim_due(self, statement: str, agent: str, limit: int, *lost: object) -> list[Claim]:
        due = self._writing.fetch(statement, self._now(), self.seconds, self.owner, agent, limit, *lost)
        claims: list[Claim] = []
        for *_, number, log, epoch, was_owned, at in sorted(tuple(row) for row in due):
            self._held[log] = (number, epoch)
            claims.append(Claim(log, epoch, was_owned, at))
        return claims

    def _post(self, log: str, key: str, data: bytes) -> bool:
        async def work(connection: Connection, again: bool) -> bool:
            async with connection.transaction():
                known = await connection.fetchrow(sql.POSTED, log)
                if known is None:
                    raise RunNotFound(f"there is no {log} in this store")
                number, posted, taken = known
                if await connection.fetchval(sql.ADD, number, posted + 1, key, data) is None:
                    return again  # it was added before the connection was lost
                new = InboxItem.following(log, posted, taken, key, data)  # an error takes it back
                await connection.fetch(sql.WAKE, self._now(), new.number, number, self._channel)
            return True

        return self._writing.run(work)

    # -- the methods of Queue ------------------------------------------------------------------------------------

    async def post(self, log: str, key: str, data: bytes) -> bool:
        return await self._writer.submit(lambda: self._post(log, key, data), log)

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        return [InboxItem(*row) for row in await self._read(sql.INBOX, log, after)]

    async def arrived(self) -> dict[str, int]:
        return dict(await self._read(sql.ARRIVED, self.owner)) if self._held else {}

    async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
        return await self._writer.submit(lambda: self._claim(agent, limit), f"due {agent}")

    async def woken(self, after: int, seconds: float) -> int:
        if await self._listener.ready():
            return await self._listener.signalled(after, seconds)
        await SYSTEM_CLOCK.sleep(min(seconds, _POLL))
        return after
