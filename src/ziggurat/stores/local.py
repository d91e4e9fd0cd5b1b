"""InMemoryStore: logs in this process, the smallest store, for tests and short-lived use."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Mapping, Sequence
from typing import Unpack

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import LeaseLost, RunExists, RunNotFound, StoreError
from ziggurat.core.settings import PositiveInt, Seconds, checked
from ziggurat.databases.owner import lease_held, new_owner
from ziggurat.journal.rows import DigestChain
from ziggurat.journal.store import UNFINISHED, Claim, InboxItem, LogFilters, LogInfo, Row
from ziggurat.stores.live import LocalLive

_POLL = 0.02  # the longest wait for work, in seconds


class _Log(Struct):
    info: LogInfo
    epoch: int
    until: float
    rows: list[Row] = []
    blobs: dict[str, bytes] = {}
    inbox: list[InboxItem] = []
    keys: set[str] = set()  # of the inbox
    taken: int = 0

    def described(self, now: float) -> LogInfo:
        return self.info if not self.info.owner or self.until > now else replace(self.info, owner="")


class InMemoryStore:
    """Hold logs in memory, with every guarantee of a store except durability.

    Args:
        clock: The clock.
        lease: Seconds after which a lease expires.
        shared: Another one to share the logs with, as two processes share a disk.
        limit: The maximum number of runs; beyond it the oldest that nobody drives are dropped. All by default.
    """

    @checked
    def __init__(
        self,
        *,
        clock: Clock = SYSTEM_CLOCK,
        lease: Seconds = 30.0,
        shared: "InMemoryStore | None" = None,
        limit: PositiveInt | None = None,
    ) -> None:
        self.limit = limit
        self._idle: OrderedDict[str, None] = OrderedDict()  # runs that nobody drives, the oldest first
        self.clock = clock
        self.seconds = lease
        self.owner: str = new_owner()
        self.chain: DigestChain = DigestChain(None)
        self._logs: dict[str, _Log] = {} if shared is None else shared._logs
        self.live: LocalLive = LocalLive() if shared is None else shared.live
        self._held: dict[str, int] = {}
        self.closed: bool = False

    def _check_open(self) -> None:
        if self.closed:
            raise StoreError("the store is closed; connect to it again")

    def _require(self, log: str) -> _Log:
        self._check_open()
        known = self._logs.get(log)
        if known is None:
            raise RunNotFound(f"there is no {log} in memory")
        return known

    async def create(self, info: LogInfo, rows: Sequence[Row] = (), blobs: Mapping[str, bytes] | None = None) -> int:
        self._check_open()
        now = self.clock.now()
        due = now if info.due == 0 else info.due
        created = replace(info, created=info.created or now, updated=now, owner=self.owner, count=0, due=due)
        new = _Log(created, 1, now + self.seconds)
        if rows:
            self._write(new, rows, blobs or {}, False, info.due)
        if self._logs.setdefault(info.log, new) is not new:  # last: another thread may read it from here on
            raise RunExists(f"{info.log} exists already; choose another id")
        self._held[info.log] = 1
        return 1

    async def lease(self, log: str) -> int:
        known, now = self._require(log), self.clock.now()
        owner = known.info.owner
        if owner and owner != self.owner and known.until > now:
            raise lease_held(log, owner, known.until - now)
        return self._take(log, known)

    def _take(self, log: str, known: _Log) -> int:
        known.epoch += 1
        known.until = self.clock.now() + self.seconds
        known.info = replace(known.info, owner=self.owner)
        self._idle.pop(log, None)
        self._held[log] = known.epoch
        return known.epoch

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
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._append(log, epoch, rows, blobs or {}, release, due, read)
        except (StoreError, RunNotFound) as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def _append(
        self,
        log: str,
        epoch: int,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes],
        release: bool,
        due: float | None,
        read: int | None,
    ) -> None:
        known = self._require(log)
        if known.epoch != epoch or not known.info.owner or rows[0].number != known.info.count + 1:
            raise LeaseLost(f"{log}: another process now holds the lease; resume the run to continue it")
        self._write(known, rows, blobs, release, due, read)
        if release:
            self._rest(log)

    def _write(
        self,
        known: _Log,
        rows: Sequence[Row],
        blobs: Mapping[str, bytes],
        release: bool,
        due: float | None,
        read: int | None = None,
    ) -> None:
        info, now = known.info, self.clock.now()
        known.rows.extend(rows)
        known.blobs.update(blobs)
        known.taken = rows[-1].taken
        known.until = now + self.seconds
        if not release and rows[-1].status == info.status:
            due = info.due
        elif due == 0 or (read is not None and len(known.inbox) > read):
            due = now
        known.info = replace(
            info,
            count=info.count + len(rows),
            status=rows[-1].status,
            updated=now,
            owner="" if release else info.owner,
            due=due,
            asks=rows[-1].asks,
        )  # last: another thread counts on as many rows

    def _rest(self, log: str) -> None:
        if self.limit is None or not log.startswith("run:"):
            return
        self._idle[log] = None
        self._idle.move_to_end(log)
        while len(self._idle) > self.limit:
            oldest, _ = self._idle.popitem(last=False)
            self._logs.pop(oldest, None)
            self._held.pop(oldest, None)

    async def release(self, log: str, epoch: int) -> None:
        known = self._logs.get(log)
        if known is not None and known.epoch == epoch and known.info.owner == self.owner:
            known.info = replace(known.info, owner="")
            self._rest(log)

    async def find(self, log: str) -> LogInfo | None:
        return None if log not in self._logs else self._require(log).described(self.clock.now())

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        if log not in self._logs:
            return []
        end = None if limit is None else after + limit
        return self._require(log).rows[after:end]

    async def blob(self, log: str, digest: str) -> bytes | None:
        return self._logs[log].blobs.get(digest) if log in self._logs else None

    async def logs(self, prefix: str = "", *, limit: int = 100, **filters: Unpack[LogFilters]) -> list[LogInfo]:
        now = self.clock.now()
        newest = reversed(self._logs.items())
        return LogInfo.chosen(
            (known.described(now) for log, known in newest if log.startswith(prefix)), limit, **filters
        )

    async def quarantine(self, log: str, problem: str) -> None:
        known = self._require(log)
        known.epoch += 1
        known.info = replace(known.info, status="Quarantined", problem=problem, owner="", due=None)

    async def delete(self, log: str) -> bool:
        self._idle.pop(log, None)
        self._held.pop(log, None)
        return self._logs.pop(log, None) is not None

    async def vacuum(self, before: float, *, prefix: str = "run:", unfinished: bool = False) -> int:
        now = self.clock.now()
        old = [
            name
            for name, known in self._logs.items()
            if name.startswith(prefix)
            and known.info.updated < before
            and (unfinished or known.info.status not in UNFINISHED)
            and (not known.info.owner or known.until < now)
        ]
        for name in old:
            del self._logs[name]
        return len(old)

    async def post(self, log: str, key: str, data: bytes) -> bool:
        known, now = self._require(log), self.clock.now()
        if key in known.keys:
            return False
        known.inbox.append(InboxItem.following(log, len(known.inbox), known.taken, key, data))
        known.keys.add(key)
        if known.info.status == "Suspended" and (known.info.due is None or known.info.due > now):
            known.info = replace(known.info, due=now)
        return True

    async def inbox(self, log: str, after: int = 0) -> list[InboxItem]:
        return self._require(log).inbox[after:] if log in self._logs else []

    async def arrived(self) -> dict[str, int]:
        known = {log: self._logs[log] for log in self._held if log in self._logs}
        return {log: len(each.inbox) for log, each in known.items() if each.inbox and each.info.owner == self.owner}

    async def claim(self, agent: str, limit: int = 1) -> list[Claim]:
        self._check_open()
        now, due = self.clock.now(), list[tuple[tuple[float, ...], str]]()
        for log, known in self._logs.items():
            info = known.info
            free = not info.owner or (info.owner != self.owner and known.until <= now)
            if info.agent == agent and info.due is not None and info.due <= now and free:
                due.append(((info.rank, info.due, info.created), log))
        chosen = [(log, self._logs[log]) for _, log in sorted(due)[:limit]]
        return [Claim(log, lost=bool(known.info.owner), epoch=self._take(log, known), at=now) for log, known in chosen]

    async def woken(self, after: int, seconds: float) -> int:
        await SYSTEM_CLOCK.sleep(min(seconds, _POLL))
        return 0

    async def close(self) -> None:
        for log, epoch in self._held.items():
            await self.release(log, epoch)
        self.closed = True
