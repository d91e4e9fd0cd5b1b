"""The memory of the running agent, and storing notes in it."""

__all__ = ["ACTIVE_MEMORY", "ActiveMemory", "Kept", "Note", "keep", "taint_in"]

from collections.abc import Iterable
from typing import get_args

from msgspec import Struct

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core.clock import IDS
from ziggurat.core.codec import digest
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.scope import Key
from ziggurat.memory.agent_memory import AgentMemory, Kind
from ziggurat.memory.contradiction import contradict
from ziggurat.memory.record import MemoryRecord, Origin
from ziggurat.memory.scoring import Score
from ziggurat.memory.semantic import SemanticMemory
from ziggurat.memory.store import MemoryStore, Query
from ziggurat.messages.embedding import Embedder
from ziggurat.messages.message import MEMORY, Message, taint_of
from ziggurat.messages.tool import GRAPH_ADDED, GRAPH_ORIGIN

_NEAR = 5
"""How many similar facts are checked for one that a new fact contradicts."""


class Note(Struct, frozen=True, kw_only=True):
    """Something to remember.

    Attributes:
        content: The text to remember.
        kind: The kind of memory; ``"semantic"`` is a fact, which replaces a fact that it contradicts.
        key: What a fact is about; it replaces the fact with the same key.
        importance: From 0 to 1.
        tags: Words to find it by.
        origin: Who stated it.
        taint: The tools whose results it was made from.

    Raises:
        ConfigurationError: one of these is invalid.
    """

    content: str
    kind: Kind = "episodic"
    key: str | None = None
    importance: float = 0.5
    tags: tuple[str, ...] = ()
    origin: Origin = "user"
    taint: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.content, str) or not self.content.strip():
            raise ConfigurationError(f"Note(content=...) is a non-empty string, got {self.content!r}")
        for name, value, known in (("kind", self.kind, get_args(Kind)), ("origin", self.origin, get_args(Origin))):
            if value not in known:
                raise ConfigurationError(f"Note({name}=...) is one of {', '.join(known)}; got {value!r}")
        if self.key is not None and (not isinstance(self.key, str) or not self.key or self.kind != "semantic"):
            raise ConfigurationError(f"Note(key=...) says what a fact is about, with kind='semantic'; got {self.key!r}")
        number = isinstance(self.importance, (int, float)) and not isinstance(self.importance, bool)
        if not number or not 0 <= self.importance <= 1:
            raise ConfigurationError(f"Note(importance=...) is a number from 0 to 1, got {self.importance!r}")
        for name, words in (("tags", self.tags), ("taint", self.taint)):
            if not isinstance(words, tuple) or not all(isinstance(word, str) for word in words):
                raise ConfigurationError(f"Note({name}=...) is a tuple of words, such as ('travel',); got {words!r}")


class Kept(Struct, frozen=True):
    """The outcome of storing a note.

    Attributes:
        record: The memory.
        replaced: The memory that it replaced, None if none.
        known: Whether it was stored already.
    """

    record: MemoryRecord
    replaced: MemoryRecord | None = None
    known: bool = False


class ActiveMemory(Struct, frozen=True, eq=False):
    """The memory that an agent uses.

    Attributes:
        store: The store that holds it.
        owner: The owner of the memories.
        by: The middleware that gave it to the agent.
        embedder: Makes vectors of memories and queries.
        score: Orders recalled memories.
    """

    store: MemoryStore
    owner: str
    by: object
    embedder: Embedder | None = None
    score: Score | None = None

    def open(self, ctx: Context) -> AgentMemory:
        """Return the memory, with the clock and ids of a context."""
        return AgentMemory(self.store, self.owner, score=self.score, embedder=self.embedder, ctx=ctx)


ACTIVE_MEMORY: Key[ActiveMemory] = Key("active memory")
"""The memory of the agent that is running."""


def taint_in(ctx: Context, said: Iterable[Message] = ()) -> tuple[str, ...]:
    """Return the tools whose results this agent, and the agents that called it, have read in this run.

    Recalled memories and graph facts add the taint they were stored with, not the tool that read them.

    Args:
        ctx: The context of the agent.
        said: Further messages, for an agent that has no loop of its own.
    """
    frame = ctx.scope.get(AGENT_CALL)
    found = set(taint_of(said))
    while frame is not None:
        found.update(taint_of(frame.said()))
        frame = frame.outer
    read = (f"{MEMORY}:", GRAPH_ORIGIN, GRAPH_ADDED)
    plain = {each for each in found if not each.startswith(read)}
    recalled = {tool for each in found - plain for tool in each.partition(":")[2].split(",") if tool}
    return tuple(sorted(plain | recalled))


async def keep(mind: ActiveMemory, notes: Iterable[Note], ctx: Context) -> list[Kept]:
    """Store the notes of the call at this context; a call repeated after a crash stores none of them twice."""
    kept: list[Kept] = []
    for number, note in enumerate(notes, 1):
        made = digest([ctx.idempotency_key, number, note.content])
        kept.append(await _keep_note(mind, note, made, ctx.within(IDS, lambda made=made: made)))  # type: ignore[misc]
    return kept


async def _keep_note(mind: ActiveMemory, note: Note, made: str, ctx: Context) -> Kept:
    before = await mind.store.get([made])
    if before:
        return Kept(before[0], known=True)
    memory = mind.open(ctx)
    key, replaced = note.key, None
    if note.kind == "semantic":
        same, replaced = await _find_related(memory, note, ctx.clock.now())
        if same is not None:
            return Kept(same, known=True)
        if key is not None and await memory.semantic.about(key) not in (None, replaced):
            key = None  # more tainted notes must not replace less tainted facts
    record = await memory.remember(
        note.content,
        kind=note.kind,
        key=key,
        importance=note.importance,
        tags=note.tags,
        origin=note.origin,
        taint=note.taint,
        supersedes=None if replaced is None else replaced.id,
        facts={"run": ctx.run_id, "path": ctx.path},
    )
    return Kept(record, replaced)


async def _find_related(memory: AgentMemory, note: Note, now: float) -> tuple[MemoryRecord | None, MemoryRecord | None]:
    """Return a stored fact that says the same as a note, and the fact that the note replaces."""
    facts: dict[str, object] = {} if note.key is None else {"key": note.key}
    new = MemoryRecord(id="", owner=memory.owner, content=note.content, kind="semantic", created=now, facts=facts)
    query = Query(owner=memory.owner, text=note.content, limit=_NEAR, kind=SemanticMemory.kind)
    near = [hit.record for hit in await memory.store.search(query)]
    about = None if note.key is None else await memory.semantic.about(note.key)
    if about is not None:
        near.insert(0, about)
    taint = set(note.taint)
    for record in near:
        if record.content.casefold() == note.content.casefold() and set(record.taint) <= taint:
            return record, None
    for record in near:
        opposed = record is about or record.content.casefold() == note.content.casefold() or contradict(new, record)
        if opposed and taint <= set(record.taint):
            return None, record
    return None, None
