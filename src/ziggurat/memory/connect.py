"""Opening stores of memories by their URL."""

from urllib.parse import parse_qsl, unquote

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import checked
from ziggurat.databases.address import without_secrets
from ziggurat.memory.store import MemoryStore

_KNOWN = "'memory:', 'sqlite:///file.db' (an absolute path has four slashes) and 'postgresql://user@host/database'"


@checked
def open_memory(url: str | MemoryStore) -> MemoryStore:
    """Open the memory store at a URL; nothing is read until it is used.

    ::

        store = open_memory("sqlite:///agents.db")                     # the file may hold runs and sessions as well
        store = open_memory("sqlite:///agents.db?synchronous=NORMAL")  # faster; a power loss may lose the last
        store = open_memory("postgresql://agents@db.example/agents")   # needs the extension pgvector

    Args:
        url: The URL; a store is returned as it is.

    Raises:
        ConfigurationError: the URL is of no known kind, or has an unknown option.
        MissingExtra: the database needs a package that is not installed.
    """
    if not isinstance(url, str):
        return url
    scheme, colon, rest = url.partition(":")
    if url == "memory:":
        from ziggurat.memory.stores.local import LocalMemoryStore

        return LocalMemoryStore()
    if colon and scheme == "sqlite":
        return _sqlite(url, rest)
    if colon and scheme in ("postgres", "postgresql"):
        from ziggurat.memory.stores.postgres import PostgresMemoryStore

        return PostgresMemoryStore(url)
    raise ConfigurationError(f"no memory is known at {without_secrets(url)!r}; known are {_KNOWN}")


def _sqlite(url: str, rest: str) -> MemoryStore:
    from ziggurat.memory.stores.sqlite import SqliteMemoryStore

    place, _, query = rest.partition("?")
    path = unquote(place.removeprefix("///"))
    if not place.startswith("///") or not path.strip("/") or "\0" in path:
        raise ConfigurationError(f"{url!r} names no file: write three slashes before it, as in {_KNOWN}")
    if path == ":memory:":
        raise ConfigurationError("a database in memory does not outlive the process: open 'memory:' instead")
    options = dict(parse_qsl(query, keep_blank_values=True))
    synchronous = options.pop("synchronous", "FULL").upper()
    timeout = options.pop("timeout", "5")
    if options or synchronous not in ("FULL", "NORMAL") or not timeout.replace(".", "", 1).isdigit():
        raise ConfigurationError(
            f"{url!r}: the options after the question mark are synchronous=FULL or NORMAL, and timeout in seconds"
        )
    return SqliteMemoryStore(path, synchronous="NORMAL" if synchronous == "NORMAL" else "FULL", timeout=float(timeout))
