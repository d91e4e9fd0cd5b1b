"""Opening stores by their URL."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import overload
from urllib.parse import parse_qsl, unquote
from weakref import WeakValueDictionary

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.protocols import implements
from ziggurat.databases.address import without_secrets
from ziggurat.databases.writer import closed_when_unused
from ziggurat.journal.rows import DigestChain, Key
from ziggurat.journal.store import Store
from ziggurat.stores.local import InMemoryStore
from ziggurat.stores.pending import RunStore

_KNOWN = (
    "'memory:', 'sqlite:///file.db' (an absolute path has four slashes), 'file:///folder' "
    "and 'postgresql://user@host/database'"
)
LOCAL_RUNS = 1000
"""How many runs a store of this process keeps; beyond that the oldest are dropped."""

_open: "WeakValueDictionary[str, Store]" = WeakValueDictionary()
_lock = threading.Lock()


@overload
def connect(url: str, *, key: Key = None) -> RunStore: ...


@overload
def connect(url: str | Store, *, key: Key = None) -> Store: ...


def connect(url: str | Store, *, key: Key = None) -> Store:
    """Open the store at a URL; the same URL and key in this process give the same object.

    ::

        connect("memory:")                                 # in this process, for tests and short-lived use
        connect("sqlite:///agents.db")                     # in the current folder; sqlite:////var/agents.db elsewhere
        connect("sqlite:///agents.db?synchronous=NORMAL")  # faster; a power loss may lose the last moments
        connect("file:///var/agents")                      # a folder of JSON lines, without a queue
        connect("postgresql://ada@db.example/agents")      # a server, for many processes on many machines

    Close it with ``await store.close()`` when it is no longer used.

    Args:
        url: The URL; a store is returned as it is.
        key: The key of the digests of entries, or several, the first of which is for new entries; see `DigestChain`. By
            default that of the environment variable ``ZIGGURAT_JOURNAL_KEY``, if it is set.

    Raises:
        ConfigurationError: it is neither a URL nor a store; the URL is of no known kind, or has an unknown option; a
            key is too short, or given for a store that is open already.
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
    path, options = _path(url, scheme, rest)
    known = f"{scheme}:{path.absolute()}?{sorted(options.items())} {name}"
    return _open_once(known, lambda: _make_store(url, scheme, path.absolute(), options, key))


@overload
def shared(store: str) -> RunStore: ...


@overload
def shared(store: str | Store) -> Store: ...


def shared(store: str | Store) -> Store:
    """Return a store for an agent that was given its address: it needs no closing, unless its user has opened it."""
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
    timeout = _seconds(address.shown, options, "timeout", 10.0)
    return PostgresStore(url, timeout=timeout, lease=_seconds(address.shown, options, "lease", 30.0), key=key)


def _path(url: str, scheme: str, rest: str) -> tuple[Path, dict[str, str]]:
    place, _, query = rest.partition("?")
    if not place.startswith("///"):
        raise ConfigurationError(f"{url!r} has no path: write three slashes, as in {_KNOWN}")
    path = unquote(place[3:] if scheme == "sqlite" else place[2:])
    if not path.strip("/") or "\0" in path:
        raise ConfigurationError(f"{url!r} names no {'file' if scheme == 'sqlite' else 'folder'}; known are {_KNOWN}")
    if path == ":memory:":
        raise ConfigurationError("a database in memory does not outlive the process: use store='memory:' instead")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if query and not options:
        raise ConfigurationError(f"{url!r}: what follows the question mark is not an option such as synchronous=NORMAL")
    return Path(path), options


def _make_store(url: str, scheme: str, path: Path, options: dict[str, str], key: Key) -> Store:
    timeout = _seconds(url, options, "timeout", 5.0)
    if scheme == "file":
        from ziggurat.stores.file import FileStore

        _refuse_unknown(url, options, "timeout")
        return FileStore(path, timeout=timeout, key=key)
    from ziggurat.stores.sqlite import SqliteStore

    lease = _seconds(url, options, "lease", 30.0)
    synchronous = options.pop("synchronous", "FULL").upper()
    _refuse_unknown(url, options, "synchronous, timeout, lease")
    if synchronous not in ("FULL", "NORMAL"):
        raise ConfigurationError(f"{url!r}: synchronous is FULL or NORMAL, got {synchronous!r}")
    normal = synchronous == "NORMAL"
    return SqliteStore(path, synchronous="NORMAL" if normal else "FULL", timeout=timeout, lease=lease, key=key)


def _refuse_unknown(url: str, options: dict[str, str], known: str) -> None:
    if options:
        raise ConfigurationError(f"{url!r}: unknown options {', '.join(options)}; known are {known}")


def _seconds(url: str, options: dict[str, str], name: str, default: float) -> float:
    text = options.pop(name, None)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ConfigurationError(f"{url!r}: {name} is a positive number of seconds, got {text!r}")
    return seconds
