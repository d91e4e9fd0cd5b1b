"""The memory of the running agent, and storing notes in it."""

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.context import IDS, Context, Key
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.failures import call_given
from ziggurat.core.service import as_service, name_of
from ziggurat.core.settings import CheckedStruct, Fraction, NonEmptyText
from ziggurat.memory.agent_memory import AgentMemory, Kind
from ziggurat.memory.kinds import EpisodicMemory, SemanticMemory
from ziggurat.memory.record import DOUBTS, SUBJECT, MemoryRecord, Origin
from ziggurat.memory.scoring import Score
from ziggurat.memory.search import Bounds
from ziggurat.memory.similar import wording
from ziggurat.memory.store import MemoryStore, Query
from ziggurat.messages.model import Embedder, Embeddings, EmbedRequest
from ziggurat.messages.usage import Usage
from ziggurat.runs.fork import ids_with_origins

_NEAR = 5  # how many similar facts are compared with a new fact

_SHOWN = 5  # how many of the nearest facts a model is shown beside a new one


class Note(CheckedStruct, frozen=True, kw_only=True):
    """Something to remember.

    Attributes:
        kind: The kind of memory; ``"semantic"`` is a fact.
        key: What a fact is about; it replaces the fact with the same key.
        subject: What a fact is about, to find it by, if several facts may be about the same.
        replaces: The id of a stored fact that no longer holds, as a person or a model judged; it is archived.
        importance: From 0 to 1.
        tags: Words to find it by.
        origin, taint: Who stated it, and the tools whose results it was made from.
    """

    content: NonEmptyText
    kind: Kind = "episodic"
    key: NonEmptyText | None = None
    subject: NonEmptyText | None = None
    replaces: str | None = None
    importance: Fraction = 0.5
    tags: tuple[str, ...] = ()
    origin: Origin = "user"
    taint: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("key", "subject", "replaces"):
            if getattr(self, name) is not None and self.kind != "semantic":
                raise ConfigurationError(f"Note({name}=...) is for a fact, with kind='semantic'; got {self.kind!r}")


class StoredNote(Struct, frozen=True):
    record: MemoryRecord
    replaced: MemoryRecord | None = None
    known: bool = False
    doubted: tuple[MemoryRecord, ...] = ()
    nearest: tuple[MemoryRecord, ...] = ()


class ActiveMemory(Struct, frozen=True, eq=False):
    store: MemoryStore
    owner: str
    by: object
    bounds: Bounds
    embedder: Embedder | None = None
    score: Score | None = None
    capacity: int | None = None
    max_age: float | None = None

    def open(self, ctx: Context) -> AgentMemory:
        embedder, score = None if self.embedder is None else _counted(self.embedder), self.score
        episodic = EpisodicMemory(
            self.store, self.owner, capacity=self.capacity, max_age=self.max_age, embedder=embedder, ctx=ctx
        )
        semantic = SemanticMemory(self.store, self.owner, capacity=self.capacity, embedder=embedder, ctx=ctx)
        return AgentMemory(
            self.store,
            self.owner,
            score=None if score is None else lambda record, at: call_given(score, ctx, record, at),
            episodic=episodic,
            semantic=semantic,
            embedder=embedder,
            bounds=self.bounds,
            ctx=ctx,
        )


class _Spent(Struct, frozen=True):
    model: str
    usage: Usage


def _counted(embedder: Embedder) -> Embedder:
    """Return an embedder whose usage counts in the run and its budgets; its vectors are not recorded."""

    embedder = as_service(embedder)

    async def embed(request: EmbedRequest, ctx: Context) -> Embeddings:
        results: list[Embeddings] = []

        async def call(request: EmbedRequest, ctx: Context) -> _Spent:
            results.append(await embedder(request, ctx))
            if not isinstance(results[0], Embeddings):
                raise ConfigurationError(f"an embedder returns Embeddings, got {results[0]!r:.200}")
            return _Spent(results[0].model, results[0].usage)

        spent = await ctx.once(name_of(embedder), request, call, returns=_Spent)
        ctx.charge(spent.usage)  # has an effect only within a tool, of whose record the call is a part
        return results[0] if results else await embedder(request, ctx)

    return embed


ACTIVE_MEMORY: Key[ActiveMemory] = Key("active memory")  # the memory of the agent that is running


async def keep(mind: ActiveMemory, notes: list[Note], ctx: Context) -> list[StoredNote]:
    """Store notes; a call repeated after a crash, or in a fork, stores none of them twice."""
    stored: list[StoredNote] = []
    for number, note in enumerate(notes, 1):
        stored.append(await _keep_note(mind, note, ids_with_origins(ctx, number, note.content), ctx))
    return stored


async def _keep_note(mind: ActiveMemory, note: Note, ids: list[str], ctx: Context) -> StoredNote:
    before = await mind.store.get(ids)
    if before:
        return StoredNote(before[0], known=True)
    memory = mind.open(ctx.within(IDS, lambda: ids[0]))
    facts: dict[str, object] = {"run": ctx.run_id, "path": ctx.path}
    if note.subject is not None:
        facts[SUBJECT] = note.subject
    related = await _find_related(memory, note) if note.kind == "semantic" else _Related()
    if related.same is not None:
        record = related.same
        if related.replaced is not None:
            record = replace(record, supersedes=record.supersedes or related.replaced.id)
            await memory.store.put([record, replace(related.replaced, archived=True)])
        return StoredNote(record, related.replaced, known=related.replaced is None)
    if related.doubted:
        facts[DOUBTS] = [record.id for record in related.doubted]
    record = await memory.remember(
        note.content,
        kind=note.kind,
        key=note.key if related.may_take_key else None,
        importance=note.importance,
        tags=note.tags,
        origin=note.origin,
        taint=note.taint,
        supersedes=None if related.replaced is None else related.replaced.id,
        facts=facts,
    )
    return StoredNote(record, related.replaced, doubted=related.doubted, nearest=related.nearest)


class _Related(Struct, frozen=True):
    same: MemoryRecord | None = None
    replaced: MemoryRecord | None = None
    doubted: tuple[MemoryRecord, ...] = ()
    nearest: tuple[MemoryRecord, ...] = ()
    may_take_key: bool = True


async def _find_related(memory: AgentMemory, note: Note) -> _Related:
    """Find the facts related to a note; a more tainted note replaces no less tainted fact."""
    query = Query(owner=memory.owner, text=note.content, limit=_NEAR, kind=SemanticMemory.kind)
    near = [hit.record for hit in await memory.store.search(query)]
    nearest = [each.record for each in await memory.semantic.find(note.content, limit=_SHOWN + 1, floor=0.0)]
    about = None if note.key is None else await memory.semantic.about(note.key)
    matches = [] if note.replaces is None else await memory.store.get([note.replaces])
    named = next((each for each in matches if each.owner == memory.owner and not each.archived), None)
    taint = set(note.taint)
    known = {record.id: record for record in (named, about, *near, *nearest) if record is not None}
    said = wording(note.content)
    copies = [record for record in known.values() if wording(record.content) == said]
    same = next((record for record in copies if set(record.taint) <= taint), None)
    if same is not None and about is not None and about.id != same.id:
        same = None  # stored, but not under this key
    if same is not None:
        del known[same.id]
    replaceable = [record for record in (named, about, *copies) if record is not None and record.id in known]
    replaced = next((record for record in replaceable if taint <= set(record.taint)), None)
    for each in (replaced, *copies):
        if each is not None:
            known.pop(each.id, None)
    doubted = [record for record in known.values() if record in (named, about)]
    others = [record for record in nearest if record.id in known and record not in doubted]
    may_take_key = about is None or about in (replaced, same)
    return _Related(same, replaced, tuple(doubted), tuple(others[:_SHOWN]), may_take_key)
