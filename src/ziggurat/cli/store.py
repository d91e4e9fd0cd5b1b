"""Finding the store and the run of a command."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ziggurat.cli.terminal import note, shell_word
from ziggurat.core.errors import ConfigurationError, RunNotFound, StoreError
from ziggurat.databases.address import without_secrets
from ziggurat.databases.owner import is_gone
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import LogInfo, Store, run_log, session_log
from ziggurat.runs.runs import runs_of
from ziggurat.serve.requests import read_labels
from ziggurat.stores.addresses import shared
from ziggurat.stores.local import InMemoryStore

T = TypeVar("T")

STORE = "ZIGGURAT_STORE"  # the environment variable with the default store, used when no option names one


def default_store() -> Path:
    home = Path.home()
    if sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    elif os.name == "nt":
        folder = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    else:
        data_home = os.environ.get("XDG_DATA_HOME", "")
        folder = Path(data_home) if os.path.isabs(data_home) else home / ".local" / "share"
    return folder / "ziggurat" / "agents.db"


def open_store(option: str | None) -> Store:
    url = option if option is not None else os.environ.get(STORE) or None
    if url is not None:
        try:
            return shared(url)
        except ConfigurationError as error:
            if option is not None:
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
    return shared(f"sqlite:///{path}")


def with_store(option: str | None, work: Callable[[Store], Awaitable[T]]) -> T:
    """Return what a function returns of the store of an option, which must exist, and is open meanwhile."""
    store = open_store(option)
    place = getattr(store, "path", None) or getattr(store, "folder", None)
    if option is not None and isinstance(place, Path) and not place.exists():
        raise ConfigurationError(f"--store {option}: no store exists at {place}; a run with this option creates it")
    return then_closed(store, work(store))


def then_closed(store: Store, work: Awaitable[T]) -> T:
    async def done() -> T:
        try:
            return await work
        finally:
            await store.close()

    return asyncio.run(done())


def load_run(run: str, option: str | None) -> tuple[LogInfo, LocalJournal]:
    return with_store(option, lambda store: read_run(store, run))


async def read_run(store: Store, run: str) -> tuple[LogInfo, LocalJournal]:
    info = await find_run(store, run)
    return info, await runs_of(store).read(info.id)


def where_kept(store: Store, agent: str | None, option: str | None) -> str | None:
    if not is_lasting(store):
        return None
    if option is not None:
        return f" --store {shell_word(without_secrets(option))}"
    if agent is None or store is open_store(None):
        return ""
    return f" --agent {shell_word(agent)}"  # the agent has a store of its own


def is_lasting(store: Store) -> bool:
    return not isinstance(store, InMemoryStore)


def require_lasting(store: Store, what: str, kept: str, option: str) -> None:
    if not is_lasting(store):
        raise ConfigurationError(
            f"{what}: with the store memory: no {kept} outlives the command; omit {option}, or name a store that "
            "lasts, as in --store sqlite:///runs.db"
        )


def labels_from(options: Sequence[str] | None) -> dict[str, object]:
    return read_labels(options or (), "=", "--label")


async def is_kept(store: Store, run_id: str) -> bool:
    """Return whether another command can find the run on record; False also if the store cannot be read."""
    if not is_lasting(store):
        return False
    try:
        return await store.find(run_log(run_id)) is not None
    except StoreError:
        return False


async def report_if_busy(store: Store, session: str) -> None:
    """Report that another run is writing the session, so that waiting does not look like hanging."""
    info = await store.find(session_log(session))
    if info is not None and info.owner and not is_gone(info.owner):
        note(f"another run writes the session {session!r}; waiting for its end (Ctrl-C leaves)")


async def find_run(store: Store, run: str) -> LogInfo:
    if not run.strip():  # an empty prefix would match every run
        raise ConfigurationError("which run? its id is empty; ziggurat runs lists them")
    if not is_lasting(store):
        raise ConfigurationError("with --store memory: no run outlives the command; omit the option")
    exact = await store.find(f"run:{run}")
    if exact is not None:
        return exact
    like = await store.logs(f"run:{run}", limit=2)
    if len(like) == 1:
        return like[0]
    what = f"several runs begin with {run!r}" if like else f"there is no run {run!r}"
    raise RunNotFound(f"{what}; ziggurat runs lists them")
