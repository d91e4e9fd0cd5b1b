"""``ziggurat memory export``, ``import`` and ``reembed``: move memories, and make their vectors anew."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ziggurat.cli.exit_codes import COMPLETED
from ziggurat.cli.memories import embedder_here, open_memories
from ziggurat.cli.terminal import note, write, write_json
from ziggurat.core.context import root
from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.databases.files import private_opener
from ziggurat.memory.store import MemoryStore
from ziggurat.memory.transfer import Imported, export_memories, import_memories
from ziggurat.memory.vectorizing import Reembedded, reembed

T = TypeVar("T")

_EVERY = 1.0
"""Seconds between two reports of progress."""


def export_to(target: str, store: str | None, owner: str | None, *, vectors: bool) -> int:
    """Write memories as JSON lines to a file, or to standard output for ``-``; return the exit code."""

    async def exported(memories: MemoryStore, put: Callable[[bytes], object]) -> int:
        count = 0
        async for line in export_memories(memories, owner=owner, vectors=vectors):
            put(line)
            count += 1
        return count

    if target == "-":
        _with(store, lambda memories: exported(memories, write_json), must_exist=True)
        return COMPLETED
    with _replacing(Path(target)) as put:
        count = _with(store, lambda memories: exported(memories, put), must_exist=True)
    write(f"exported: {count}")
    return COMPLETED


@contextmanager
def _replacing(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Open a file for writing that replaces another one only when it is complete."""
    part = path.with_name(f"{path.name}.part")
    try:
        with open(part, "wb", opener=private_opener) as file:
            yield file.write
        os.replace(part, path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def import_from(source: str, store: str | None, *, overwrite: bool) -> int:
    """Store the memories of a file, or of standard input for ``-``; return the exit code."""

    def imported(lines: Iterable[bytes]) -> Imported:
        return _with(store, lambda memories: import_memories(memories, lines, overwrite=overwrite))

    if source == "-":
        report = imported(line.encode(errors="surrogateescape") for line in sys.stdin)
    else:
        try:
            with open(source, "rb") as file:
                report = imported(file)
        except OSError as error:
            raise ConfigurationError(f"{source} cannot be read: {error.strerror}") from error
    write(f"imported: {report.stored}; skipped: {report.skipped}")
    return COMPLETED


def reembed_memory(store: str | None, owner: str | None, *, renew_all: bool) -> int:
    """Make the vectors of memories anew that have none, or one of another model, or all; return the exit code."""
    embedder = embedder_here()
    if embedder is None:
        raise MissingExtra("embedding memories on this machine", "local")
    last = time.monotonic()

    def report(state: Reembedded) -> None:
        nonlocal last
        if time.monotonic() - last >= _EVERY:
            last = time.monotonic()
            note(f"looked at {state.examined} of {state.total}")

    context = root("memory")
    done = _with(
        store,
        lambda opened: reembed(opened, owner, embedder, context, renew_all=renew_all, progress=report),
        must_exist=True,
    )
    write(f"embedded: {done.done}")
    return COMPLETED


def _with(store: str | None, work: Callable[[MemoryStore], Awaitable[T]], *, must_exist: bool = False) -> T:
    async def run() -> T:
        memories = open_memories(store, must_exist=must_exist)
        try:
            return await work(memories)
        finally:
            await memories.close()

    return asyncio.run(run())
