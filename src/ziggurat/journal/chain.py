"""The chain of digests over the rows of a log, plain or with a secret key."""

import os
from collections.abc import Sequence
from hashlib import blake2b

from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.journal.store import Row, Store, chained

KEY = "ZIGGURAT_JOURNAL_KEY"
"""The environment variable with the key of the chain; several keys are separated by spaces."""

Key = str | bytes | Sequence[str | bytes] | None
"""A key, or several: the first is for new rows, all are for reading. None for what the environment has."""

_SHORTEST = 16
_KEYED = 64
"""The length of a digest with a key; that of a plain one is half of it."""


class DigestChain:
    """How the digests of rows are made: each from the digest of the row before and the data of its own."""

    __slots__ = ("_keys",)

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
        return _keyed(self._keys[0], log, before, data) if self._keys else chained(before, data)

    def fits(self, log: str, before: str, row: Row) -> bool:
        """Return whether the digest of a row is right; the arguments are those of `link`."""
        if not self._keys:
            return row.digest == chained(before, row.data)
        from hmac import compare_digest

        known = row.digest.encode()
        return any(compare_digest(_keyed(key, log, before, row.data).encode(), known) for key in self._keys)

    def check_key(self, log: str, rows: Sequence[Row]) -> None:
        """Check that the first rows of a log were written with a key of this chain, or without one as this chain
        is."""
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


def _keyed(key: bytes, log: str, before: str, data: bytes) -> str:
    from hmac import digest

    return digest(key, (before or log).encode() + b"\n" + data, "sha256").hex()
