"""Opening stores by their URL."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from weakref import WeakValueDictionary

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import implements
from ziggurat.databases.address import (
    path_and_options,
    refuse_unknown,
    take_seconds,
    take_synchronous,
    without_secrets,
)
from ziggurat.databases.writer import closed_when_unused
from ziggurat.journal.rows import DigestChain, Key
from ziggurat.journal.store import Store
from ziggurat.stores.local import InMemoryStore

_KNOWN = (
    "'memory:', 'sqlite:///file.db' (an absolute path has four slashes), 'file:///var/lib/agents' (always absolute) "
    "and 'postgresql://user@host/database'"
)
LOCAL_RUNS = 1000  # how many runs a store of this process keeps; beyond that the oldest are dropped

_open: "WeakValueDictionary[str, Store]" = WeakValueDictionary()
_lock = threading.Lock()


def connect(url: str | Store, *, key: Key = None) -> Store:
    """Open the store at a URL; the same URL and key in this process give the same object, but each `memory:` a new one.

    ::

        connect("memory:")                                 # in this process, for tests and short-lived use
        connect("sqlite:///agents.db")                     # in the current folder; sqlite:////var/agents.db elsewhere
        connect("sqlite:///agents.db?synchronous=NORMAL")  # faster; a power loss may lose the last moments
        connect("file:///var/agents")                      # a folder of JSON lines, without a queue; always absolute
        connect("postgresql://ada@db.example/agents")      # a server, for many processes on many machines

    Close it with ``await store.close()`` when it is no longer used.

    Args:
        url: The URL; a store is returned as it is.
        key: The secret with which the digests of entries are made, at least 16 characters, or several, the first of
            which is for new entries: who does not have it cannot change an entry unnoticed. By default that of the
            environment variable ``ZIGGURAT_JOURNAL_KEY``, if it is set.

    Raises:
        ConfigurationError: the URL is of no known kind, or has an unknown option; a key is too short, or given for a
            store that is open already.
        MissingExtra: the driver for a PostgreSQL store is not installed.
    """
    if not isinstance(url, str):
        if not implements(url, Store):
            raise ConfigurationError(
                f"connect(url=...) is an address, or an object with the methods of a Store; got {url!r}"
            )
        if key is not None:
            raise ConfigurationError(f"pass the key where {url!r} is made")
        return url
    if url == "memory:":
        return InMemoryStore(limit=LOCAL_RUNS)
    scheme, colon, rest = url.partition(":")
    name = DigestChain(key).name
    if scheme in ("postgresql", "postgres"):
        return _open_once(f"{url} {name}", lambda: _postgres(url, key))
    if not colon or scheme not in ("sqlite", "file"):
        raise ConfigurationError(f"no store is known at {without_secrets(url)!r}; known are {_KNOWN}")
    path, options = path_and_options(url, scheme, rest)
    known = f"{scheme}:{path.absolute()}?{sorted(options.items())} {name}"
    return _open_once(known, lambda: _make_store(url, scheme, path.absolute(), options, key))


def shared(store: str | Store) -> Store:
    """Return a store for an agent that was given its address: nobody has to close it."""
    with closed_when_unused():
        return connect(store)


def _open_once(known: str, make: Callable[[], Store]) -> Store:
    with _lock:
        store = _open.get(known)
        if store is None or getattr(store, "closed", False):
            store = _open[known] = make()
        return store


def _postgres(url: str, key: Key) -> Store:
    from ziggurat.databases.postgres import PostgresAddress
    from ziggurat.stores.postgres import PostgresStore

    address = PostgresAddress.of(url)
    options = dict(address.options)
    timeout = take_seconds(address.shown, options, "timeout", 10.0)
    return PostgresStore(url, timeout=timeout, lease=take_seconds(address.shown, options, "lease", 30.0), key=key)


def _make_store(url: str, scheme: str, path: Path, options: dict[str, str], key: Key) -> Store:
    timeout = take_seconds(url, options, "timeout", 5.0)
    if scheme == "file":
        from ziggurat.stores.file import FileStore

        refuse_unknown(url, options, "timeout")
        first = Path(os.path.normpath(path)).parts[1]
        if not Path("/", first).exists():  # a relative path was meant
            raise ConfigurationError(
                f"{url!r} is an absolute path, and there is no folder /{first}: make it, or, for a folder in the "
                f"current one, write file://{Path.cwd() / first}"
            )
        return FileStore(path, timeout=timeout, key=key)
    from ziggurat.stores.sqlite import SqliteStore

    lease = take_seconds(url, options, "lease", 30.0)
    synchronous = take_synchronous(url, options, "synchronous, timeout, lease")
    return SqliteStore(path, synchronous=synchronous, timeout=timeout, lease=lease, key=key)
