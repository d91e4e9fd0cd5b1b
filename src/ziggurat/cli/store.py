"""Finding the store and the run that a command works on."""

__all__ = [
    "STORE",
    "closed",
    "default_store",
    "find_run",
    "is_kept",
    "kept_store",
    "open_store",
    "record_in",
    "tell_if_busy",
    "where_kept",
]

import os
import shlex
import sys
from pathlib import Path

from ziggurat.agents.stored_runs import StoredRuns, record_of, runs_in
from ziggurat.core.errors import ConfigurationError, RunNotFound, StoreError
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.store import LogInfo, Store, run_log, session_log
from ziggurat.databases.address import without_secrets
from ziggurat.databases.owner import is_gone
from ziggurat.stores.connect import connect
from ziggurat.stores.memory import InMemoryRunStore

STORE = "ZIGGURAT_STORE"
"""The environment variable that says where runs are kept where no option does."""


def default_store() -> Path:
    """Return the database in the user's data directory, as the platform has it."""
    home = Path.home()
    if sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    elif os.name == "nt":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        given = os.environ.get("XDG_DATA_HOME", "")
        folder = Path(given) if os.path.isabs(given) else home / ".local" / "share"
    return folder / "ziggurat" / "runs.db"


def open_store(given: str | None) -> InMemoryRunStore | Store:
    """Return the store of an option, else of the environment, else that of the user.

    Raises:
        ConfigurationError: it cannot be opened; the message says how to go without.
    """
    url = given if given is not None else os.environ.get(STORE) or None
    if url is not None:
        try:
            return connect(url)
        except ConfigurationError as error:
            if given is not None:
                raise
            raise ConfigurationError(f"${STORE}: {error}") from error
    path = default_store()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ConfigurationError(
            f"runs cannot be kept in {path.parent}: {error.strerror}; name another place with --store sqlite:///FILE "
            "or keep none with --store memory:"
        ) from error
    return connect(f"sqlite:///{path}")


def kept_store(given: str | None) -> InMemoryRunStore | Store:
    """Return the store in which a run is to be found: one that is named is not made where there is none.

    Raises:
        ConfigurationError: as `open_store`, or there is no such file or folder.
    """
    store = open_store(given)
    place = getattr(store, "path", None) or getattr(store, "folder", None)
    if given is not None and isinstance(place, Path) and not place.exists():
        raise ConfigurationError(
            f"--store {given}: there is no store yet at {place}; runs make it, this looks into one"
        )
    return store


def where_kept(store: InMemoryRunStore | Store, agent: str | None, given: str | None) -> str | None:
    """Return the options with which another command finds what is kept in a store; None where nothing lasts.

    Args:
        store: Where an agent keeps its runs.
        agent: The option ``--agent``.
        given: The option ``--store``.
    """
    if isinstance(store, InMemoryRunStore):
        return None
    if given is not None:
        return f" --store {shlex.quote(without_secrets(given))}"
    if agent is None or store is open_store(None):
        return ""
    return f" --agent {shlex.quote(agent)}"  # it has a store of its own


async def closed(store: InMemoryRunStore | Store) -> None:
    """Close a store."""
    if not isinstance(store, InMemoryRunStore):
        await store.close()


async def is_kept(store: InMemoryRunStore | Store, run_id: str) -> bool:
    """Return whether a run is on record where another command finds it; no is said also where that cannot be seen."""
    if isinstance(store, InMemoryRunStore):
        return False
    try:
        return await store.find(run_log(run_id)) is not None
    except StoreError:
        return False


async def tell_if_busy(store: InMemoryRunStore | Store, session: str) -> None:
    """Say that a conversation is being written by another, so that a run that waits for it is not taken to hang."""
    info = None if isinstance(store, InMemoryRunStore) else await store.find(session_log(session))
    if info is not None and info.owner and not is_gone(info.owner):
        sys.stderr.write(f"ziggurat: another run writes the session {session!r}; waiting for its end (Ctrl-C leaves)\n")
        sys.stderr.flush()


async def find_run(store: InMemoryRunStore | Store, run: str) -> LogInfo:
    """Return the run that is meant by its id, or by the beginning of it that no other has.

    Raises:
        RunNotFound: there is none, or several; the message lists some.
        ConfigurationError: nothing is meant, or no run is kept there.
    """
    if not run.strip():  # it is the beginning of every id
        raise ConfigurationError("which run? its id is empty; ziggurat runs lists them")
    if isinstance(store, InMemoryRunStore):
        raise ConfigurationError("with --store memory: no run outlives the command; leave it away")
    exact = await store.find(f"run:{run}")
    if exact is not None:
        return exact
    like = await store.logs(f"run:{run}", limit=5)
    if len(like) == 1:
        return like[0]
    if like:
        raise RunNotFound(f"several runs begin with {run!r}: {', '.join(info.id for info in like)}")
    latest = ", ".join(info.id for info in await store.logs("run:", limit=3)) or "none"
    raise RunNotFound(f"there is no run {run!r} (the latest: {latest}); ziggurat runs lists them")


async def record_in(store: InMemoryRunStore | Store, run_id: str) -> MemoryJournal:
    """Return the record of a run, to be read."""
    runs = runs_in(store)
    if isinstance(runs, StoredRuns):
        return await runs.read(run_id)
    return MemoryJournal.load(await record_of(runs, run_id))
