"""The rows of records in a store: their chain of digests, checked when they are read, and their large values."""

import os
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core import codec
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, JournalCorrupt, RunNotFound
from ziggurat.core.settings import NonEmptyText
from ziggurat.journal.entries import LossAccepted, write_entry
from ziggurat.journal.store import (
    InboxItem,
    LogInfo,
    Row,
    Store,
    SupportsLogMarks,
    acknowledged_in,
    chained,
    loss,
    run_log,
)

KEY = "ZIGGURAT_JOURNAL_KEY"  # the environment variable with the key of the chain; several keys are separated by spaces

Key = str | bytes | Sequence[str | bytes] | None
"""A key, or several: the first is for new rows, all are for reading. None for what the environment has."""

_SHORTEST = 16
_KEYED = 64  # the length of a digest with a key; that of a plain one is half of it


class DigestChain:
    """How the digests of rows are made: each from the digest of the row before and the data of its own."""

    def __init__(self, key: Key = ()) -> None:
        if key is None:
            key = os.environ.get(KEY, "").split()
        keys = [key] if isinstance(key, (str, bytes)) else key
        if not isinstance(keys, Sequence) or not all(
            isinstance(each, (str, bytes)) and len(each) >= _SHORTEST for each in keys
        ):
            raise ConfigurationError(
                f"a key of a journal ({KEY}, or key=) has at least {_SHORTEST} characters; make one with "
                "python -c 'import secrets; print(secrets.token_hex(32))'"
            )
        self._keys = tuple(each.encode() if isinstance(each, str) else each for each in keys)

    def __repr__(self) -> str:
        return "Chain(with a key)" if self._keys else "Chain()"

    @property
    def name(self) -> str:
        """A text that differs for chains with different keys, and tells nothing of them; empty without one."""
        return blake2b(b"\0".join(self._keys), digest_size=16).hexdigest() if self._keys else ""

    def link(self, log: str, before: str, data: bytes) -> str:
        """Return the digest of a new row, from that of the row before, which is empty for the first."""
        return _keyed(self._keys[0], before or log, data) if self._keys else chained(before, data)

    def fits(self, log: str, before: str, row: Row) -> bool:
        """Return whether the digest of a row is right; the arguments are those of `link`."""
        if not self._keys:
            return row.digest == chained(before, row.data)
        return self._made(before or log, row.data, row.digest.encode())

    def sign(self, log: str, key: str, data: bytes) -> tuple[str, bytes]:
        """Return the key and the data with which an item is posted to the inbox of a log."""
        if not self._keys:
            return key, data
        # The key, too, so that nobody can post another item under it first, and the sender believes it was sent.
        key = f"{key} {_keyed(self._keys[0], _part('key', log, key), b'')}"
        return key, _keyed(self._keys[0], _part("data", log, key), data).encode() + data

    def signed(self, log: str, item: InboxItem) -> InboxItem:
        """Return an item of the inbox of a log as it was before `sign`, without what was not signed there."""
        if not self._keys:
            return item
        key, _, of_key = item.key.rpartition(" ")
        of_data, data = item.data[:_KEYED], item.data[_KEYED:]
        if not self._made(_part("key", log, key), b"", of_key.encode()):
            return InboxItem(item.number, "", b"")
        return InboxItem(item.number, key, data if self._made(_part("data", log, item.key), data, of_data) else b"")

    def _made(self, before: str, data: bytes, digest: bytes) -> bool:
        from hmac import compare_digest

        return any(compare_digest(_keyed(key, before, data).encode(), digest) for key in self._keys)

    def check_key(self, log: str, rows: Sequence[Row]) -> None:
        """Check that the first rows of a log were written with a key of this chain, or without one as this chain is."""
        if not rows:
            return
        first = rows[0]
        with_key = len(first.digest) == _KEYED
        if with_key and not self._keys:
            raise ConfigurationError(f"{log} was written with a key: set {KEY}, or pass key= to the store")
        if not self._keys:
            return
        if not with_key:
            raise ConfigurationError(
                f"{log} was written without a key, so with a key nothing shows who wrote it. To read it, unset {KEY} "
                "or omit key=; new runs with a key need another store, or this one when its old runs are removed"
            )
        if not self.fits(log, "", first) and not any(self.fits(log, first.digest, each) for each in rows[1:2]):
            raise ConfigurationError(
                f"entry 1 of {log} does not fit the key: it was written with another one, or is damaged. While old "
                f"keys are in use, give them after the new one: in {KEY} separated by spaces, or as key=[new, old]"
            )

    def moved(self, rows: Sequence[Row], log: str, to: str) -> list[Row]:
        """Return rows of a log for another log; those that do not fit stay as they are."""
        if not self._keys:
            return list(rows)
        moved: list[Row] = []
        before = after = ""
        for row in rows:
            if self.fits(log, before, row):
                before, after = row.digest, self.link(to, after, row.data)
                row = replace(row, digest=after)
            moved.append(row)
        return moved


def chain_of(store: Store) -> DigestChain:
    """Return the chain of a store: its own, or what the environment says for a store that has none."""
    chain = getattr(store, "chain", None)
    return chain if isinstance(chain, DigestChain) else DigestChain(None)


def _part(part: str, log: str, key: str) -> str:
    """Return what a part of an item is signed with; no log has this name."""
    return encode((part, log, key)).decode()


def _keyed(key: bytes, before: str, data: bytes) -> str:
    from hmac import digest

    return digest(key, before.encode() + b"\n" + data, "sha256").hex()


BLOB_BYTES = 64 * 1024  # an entry longer than this is stored as a separate large value, and its row has only the digest


class Blob(Struct, frozen=True):
    """The data of a row whose entry is stored as a separate large value."""

    blob: str
    size: int


async def lines_of(store: Store, log: str, rows: Iterable[Row]) -> list[bytes]:
    lines: list[bytes] = []
    for row in rows:
        data = row.data
        if data.startswith(b'{"blob":'):
            blob = codec.decoder(Blob).decode(data)
            content = await store.blob(log, blob.blob)
            if content is None or blake2b(content, digest_size=32).hexdigest() != blob.blob:
                raise JournalCorrupt(f"entry {row.number} of {log}: its large value is missing or damaged")
            data = content
        lines.append(data)
    return lines


async def read_rows(
    store: Store, log: str, after: int = 0, before: str = "", *, accept_loss: bool = False
) -> list[Row]:
    """Return the rows of a log after checking their numbers and digests, and that no later one is missing."""
    mark = None if after else await acknowledged_in(store, log)
    problem = ""
    try:
        rows = await store.read(log, after)
    except JournalCorrupt as error:
        problem, rows = str(error), []
    chain = chain_of(store)
    for number, row in enumerate(rows, after + 1):
        is_other = mark is not None and number == mark.number and not mark.fits(row)
        if row.number != number or not chain.fits(log, before, row) or is_other:
            if number == 1:
                chain.check_key(log, rows)
            problem = f"entry {number} of {log} was changed, lost or damaged after it was written"
            break
        before = row.digest
    if problem:
        await store.quarantine(log, problem)
        raise JournalCorrupt(f"{problem}; only this run is affected")
    if mark is not None and len(rows) < mark.number and not accept_loss:
        raise loss(log, len(rows), mark.number)
    return rows


async def read_inbox(store: Store, run_id: str, after: int = 0) -> list[InboxItem]:
    """Return the items of a run's inbox numbered higher than `after`, in order; without data if they are forged."""
    log, chain = run_log(run_id), chain_of(store)
    return [chain.signed(log, item) for item in await store.inbox(log, after)]


async def known_run(store: Store, run_id: str) -> LogInfo:
    info = await store.find(run_log(run_id))
    if info is None:
        raise RunNotFound(f"there is no run {run_id!r} in this store")
    if info.status == "Quarantined":
        raise JournalCorrupt(f"the run {info.id!r} is in quarantine: {info.problem}")
    return info


async def accept_loss(store: Store, log: NonEmptyText, *, clock: Clock = SYSTEM_CLOCK) -> range:
    """Accept that the last entries of a run are lost, so that it can be continued from those that are left.

    The acceptance is recorded in the run. Calls whose entries are lost are made again when the run is resumed, also
    those of tools with ``effect="once"``. If nothing is left of a run or a session, its id becomes free; a session of
    which something is left goes on by itself.

    Args:
        store: The store of the run.
        log: The log, which is ``run:ID`` of a run and ``session:ID`` of a session.
        clock: The clock.

    Returns:
        The numbers of the lost entries; empty if none is missing, and then nothing is written.

    Raises:
        ConfigurationError: an argument has a wrong type, or no log is named.
        LeaseHeld: another process drives the run.
        JournalCorrupt: an entry further back is damaged.
    """
    mark = await acknowledged_in(store, log)
    if mark is None:
        return range(0)
    try:
        await store.find(log)
    except JournalCorrupt:  # nothing is left
        await store.delete(log)
        return range(1, mark.number + 1)
    if log != run_log(log.partition(":")[2]):
        return range(0)
    epoch = await store.lease(log)
    try:
        rows = await read_rows(store, log, accept_loss=True)
        if 0 < len(rows) < mark.number:
            data = write_entry(LossAccepted("", mark.number, clock.now()))
            digest = chain_of(store).link(log, rows[-1].digest, data)
            await cast("SupportsLogMarks", store).accept_loss(log, epoch, [Row(len(rows) + 1, digest, data)])
    finally:
        await store.release(log, epoch)
    if not rows:
        await store.delete(log)
    return range(len(rows) + 1, mark.number + 1)
