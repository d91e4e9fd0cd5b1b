"""Computing the vectors of memories: failures of an embedder are detected and tolerated, and repaired later."""

__all__ = [
    "BATCH",
    "Reembedded",
    "embed",
    "embed_pending",
    "embedded_text",
    "notice_changed_embedder",
    "reembed",
    "try_embed",
    "warn",
]

import logging
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Literal
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ModelError, ServiceError, described
from ziggurat.core.settings import checked
from ziggurat.memory.record import MemoryRecord, unpack
from ziggurat.memory.store import UNEMBEDDED, MemoryStore
from ziggurat.messages.embedding import Embedder, Embeddings, EmbedRequest
from ziggurat.messages.events import Warned

BATCH = 128
"""How many texts are embedded in one request."""

_PENDING = 32
"""How many memories without a vector are embedded together with a new one."""

logger: logging.Logger = logging.getLogger("ziggurat")

_noticed: WeakKeyDictionary[MemoryStore, set[tuple[str, str]]] = WeakKeyDictionary()


async def warn(text: str, ctx: Context) -> None:
    """Log a warning and emit `Warned`."""
    logger.warning("%s: %s", ctx.path, text)
    if ctx.listens(Warned):
        await ctx.emit(Warned(ctx.path, f"memory: {text}"))


async def embed(
    embedder: Embedder, texts: Sequence[str], purpose: Literal["document", "query"], ctx: Context
) -> Embeddings:
    """Return the vectors of texts, in requests of at most `BATCH` texts.

    Raises:
        ServiceError: the embedder failed, or did not return one vector of finite numbers for each text.
        OSError: the embedder failed.
    """
    vectors: list[bytes] = []
    model = ""
    for start in range(0, len(texts), BATCH):
        some = tuple(texts[start : start + BATCH])
        made = await embedder(EmbedRequest(some, purpose), ctx.under("embed"))
        _check(made, len(some))
        vectors += made.vectors
        model = made.model
    return Embeddings(tuple(vectors), model)


def _check(made: object, count: int) -> None:
    if not isinstance(made, Embeddings):
        raise ConfigurationError(f"an embedder returns Embeddings, got {made!r:.200}")
    sizes = {len(vector) for vector in made.vectors}
    if len(made.vectors) != count or len(sizes) != 1 or sizes & {0} or any(size % 4 for size in sizes):
        raise ModelError(f"the embedder returned {len(made.vectors)} vectors for {count} texts", kind="malformed")
    if not all(isfinite(sum(unpack(vector))) for vector in made.vectors):
        raise ModelError("the embedder returned a vector with numbers that are not finite", kind="malformed")


def embedded_text(record: MemoryRecord) -> str:
    """Return the text whose vector a memory gets: its content, after the key that says what a fact is about."""
    key = record.facts.get("key")
    return f"{key}: {record.content}" if isinstance(key, str) else record.content


async def try_embed(
    embedder: Embedder | None, texts: Sequence[str], purpose: Literal["document", "query"], ctx: Context
) -> Embeddings | None:
    """Return the vectors of texts; None without an embedder, or, with a warning, if it failed."""
    if embedder is None or not texts:
        return None
    try:
        return await embed(embedder, texts, purpose, ctx)
    except (ServiceError, OSError) as error:
        await warn(f"only words are compared, as nothing could be embedded: {described(error)}", ctx)
        return None


async def embed_pending(store: MemoryStore, owner: str, embedder: Embedder, ctx: Context) -> int:
    """Embed some memories that were stored without a vector; return how many. A failure is only a warning."""
    pending = await store.stale(owner, None, _PENDING)
    made = await try_embed(embedder, [embedded_text(record) for record in pending], "document", ctx)
    if made is None:
        return 0
    vectors = {record.id: vector for record, vector in zip(pending, made.vectors, strict=True)}
    return await store.set_vectors(vectors, made.model)


class Reembedded(Struct, frozen=True):
    """The progress of `reembed`.

    Attributes:
        done: How many memories were embedded so far.
        model: The model that made the vectors.
        examined: How many memories were looked at so far; those that have a vector of the model are left as they are.
        total: How many there are to look at.
    """

    done: int
    model: str
    examined: int = 0
    total: int = 0


@checked
async def reembed(
    store: MemoryStore,
    owner: str | None,
    embedder: Embedder,
    ctx: Context,
    *,
    progress: Callable[[Reembedded], None] | None = None,
) -> Reembedded:
    """Embed all memories in use that have no vector, or one of another or an unknown model.

    Vectors are written after each batch, so that it can be stopped at any time and called again.

    Args:
        store: Where the memories are stored.
        owner: Whose memories; None for those of all owners.
        embedder: Makes the vectors.
        ctx: The context of its calls.
        progress: Called after each batch.

    Raises:
        ConfigurationError: an argument has a wrong type.
        ServiceError: the embedder failed; what was embedded before is stored.
    """
    model = (await embed(embedder, ["model"], "document", ctx)).model
    state = Reembedded(0, model, 0, await store.count(owner=owner))
    batch: list[MemoryRecord] = []
    async for record in store.scan(owner=owner):
        state = replace(state, examined=state.examined + 1)
        if record.kind not in UNEMBEDDED and (record.embedding is None or record.embedder != model):
            batch.append(record)
        if len(batch) == BATCH:
            state = await _reembed_batch(store, batch, embedder, ctx, state, progress)
            batch = []
    return await _reembed_batch(store, batch, embedder, ctx, state, progress)


async def _reembed_batch(
    store: MemoryStore,
    batch: Sequence[MemoryRecord],
    embedder: Embedder,
    ctx: Context,
    state: Reembedded,
    progress: Callable[[Reembedded], None] | None,
) -> Reembedded:
    if batch:
        made = await embed(embedder, [embedded_text(record) for record in batch], "document", ctx)
        if made.model != state.model:
            raise ModelError(f"the embedder calls itself {state.model!r} and {made.model!r}", kind="malformed")
        written = {record.id: vector for record, vector in zip(batch, made.vectors, strict=True)}
        state = replace(state, done=state.done + await store.set_vectors(written, made.model))
    if progress is not None:
        progress(state)
    return state


async def notice_changed_embedder(store: MemoryStore, owner: str, model: str, ctx: Context) -> None:
    """Warn, once in this process, if memories of an owner have vectors of another model."""
    noticed = _noticed.setdefault(store, set())
    if not model or (owner, model) in noticed:
        return
    noticed.add((owner, model))
    others = sorted({record.embedder for record in await store.stale(owner, model, 100) if record.embedder})
    if others:
        await warn(
            f"memories of {owner!r} have vectors of {', '.join(others)}, not of {model}; until reembed() only their "
            "words are compared",
            ctx,
        )
