"""Computing the vectors of memories: failures of an embedder are detected and tolerated, and repaired later."""

from collections.abc import Awaitable, Callable, Sequence
from math import hypot, isfinite
from typing import Literal
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ModelError, ServiceError, described
from ziggurat.core.log import logger
from ziggurat.core.service import as_service
from ziggurat.memory.record import MemoryRecord, subject_of
from ziggurat.memory.store import UNEMBEDDED, MemoryStore
from ziggurat.messages.events import Warned
from ziggurat.messages.model import Embedder, Embeddings, EmbedRequest, pack, unpack

BATCH = 128  # how many texts are embedded in one request

_PENDING = 32  # how many memories without a vector are embedded together with a new one

_noticed: WeakKeyDictionary[MemoryStore, set[tuple[str | None, str]]] = WeakKeyDictionary()


async def warn(text: str, ctx: Context) -> None:
    logger.warning("%s: %s", ctx.path, text)
    if ctx.listens(Warned):
        await ctx.emit(Warned(ctx.path, f"memory: {text}"))


async def embed(
    embedder: Embedder, texts: Sequence[str], purpose: Literal["document", "query"], ctx: Context
) -> Embeddings:
    vectors: list[bytes] = []
    model = ""
    for start in range(0, len(texts), BATCH):
        some = tuple(texts[start : start + BATCH])
        embeddings = await as_service(embedder)(EmbedRequest(some, purpose), ctx.under("embed"))
        _check(embeddings, len(some))
        vectors += embeddings.vectors
        model = embeddings.model
    return Embeddings(tuple(vectors), model)


def _check(embeddings: object, count: int) -> None:
    if not isinstance(embeddings, Embeddings):
        raise ConfigurationError(f"an embedder returns Embeddings, got {embeddings!r:.200}")
    sizes = {len(vector) for vector in embeddings.vectors}
    if len(embeddings.vectors) != count or len(sizes) != 1 or sizes & {0} or any(size % 4 for size in sizes):
        raise ModelError(f"the embedder returned {len(embeddings.vectors)} vectors for {count} texts", kind="malformed")
    if not all(isfinite(sum(unpack(vector))) for vector in embeddings.vectors):
        raise ModelError("the embedder returned a vector with numbers that are not finite", kind="malformed")


async def embed_records(embedder: Embedder, records: Sequence[MemoryRecord], ctx: Context) -> Embeddings:
    """Return a vector for each memory: that of its text; for a fact with a subject, between this and the subject's."""
    subjects = [subject_of(record) for record in records]
    texts = [
        record.content if subject is None else f"{subject}: {record.content}"
        for record, subject in zip(records, subjects, strict=True)
    ]
    embeddings = await embed(embedder, [*texts, *(each for each in subjects if each is not None)], "document", ctx)
    of_subjects = iter(embeddings.vectors[len(texts) :])
    vectors = [
        vector if subject is None else _between(vector, next(of_subjects))
        for vector, subject in zip(embeddings.vectors[: len(texts)], subjects, strict=True)
    ]
    return Embeddings(tuple(vectors), embeddings.model)


def _between(one: bytes, other: bytes) -> bytes:
    first, second = unpack(one), unpack(other)
    size, other_size = hypot(*first) or 1.0, hypot(*second) or 1.0
    return pack(x / size + y / other_size for x, y in zip(first, second, strict=True))


async def try_embed(embeddings: Awaitable[Embeddings], ctx: Context) -> Embeddings | None:
    """Return the vectors of `embed` or `embed_records`; None, with a warning, if the embedder failed."""
    try:
        return await embeddings
    except (ServiceError, OSError) as error:
        await warn(f"only words are compared, as nothing could be embedded: {described(error)}", ctx)
        return None


async def with_vectors(
    records: Sequence[MemoryRecord], store: MemoryStore, embedder: Embedder | None, ctx: Context
) -> list[MemoryRecord]:
    """Return new memories with vectors, or without if the embedder fails, and embed some that were stored without."""
    if embedder is None or not records:
        return list(records)
    embeddings = await try_embed(embed_records(embedder, records, ctx), ctx)
    if embeddings is None:
        return list(records)
    pending = await store.stale(records[0].owner, None, _PENDING)
    late = await try_embed(embed_records(embedder, pending, ctx), ctx) if pending else None
    if late is not None:
        await store.set_vectors(_by_id(pending, late), late.model)
    both = zip(records, embeddings.vectors, strict=True)
    return [replace(record, embedding=vector, embedder=embeddings.model) for record, vector in both]


def _by_id(records: Sequence[MemoryRecord], embeddings: Embeddings) -> dict[str, bytes]:
    return {record.id: vector for record, vector in zip(records, embeddings.vectors, strict=True)}


class Reembedded(Struct, frozen=True):
    done: int
    model: str
    examined: int = 0
    total: int = 0


Progress = Callable[[Reembedded], None]
"""Is told how far `reembed` is."""


async def reembed(
    store: MemoryStore,
    owner: str | None,
    embedder: Embedder,
    ctx: Context,
    progress: Progress | None = None,
) -> Reembedded:
    """Embed all memories in use without a vector of this model; written in batches, so that it can be called again."""
    model = (await embed(embedder, ["model"], "document", ctx)).model
    state = Reembedded(0, model, 0, await store.count(owner=owner))
    batch: list[MemoryRecord] = []

    async def renew() -> None:
        nonlocal state
        if batch:
            embeddings = await embed_records(embedder, batch, ctx)
            if embeddings.model != model:
                raise ModelError(f"the embedder calls itself {model!r} and {embeddings.model!r}", kind="malformed")
            done = await store.set_vectors(_by_id(batch, embeddings), model)
            state = replace(state, done=state.done + done)
            batch.clear()
        if progress is not None:
            progress(state)

    async for record in store.scan(owner=owner):
        state = replace(state, examined=state.examined + 1)
        if record.kind not in UNEMBEDDED and (record.embedding is None or record.embedder != model):
            batch.append(record)
        if len(batch) == BATCH:
            await renew()
    await renew()
    return state


async def notice_changed_embedder(store: MemoryStore, owner: str | None, model: str, ctx: Context) -> None:
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
