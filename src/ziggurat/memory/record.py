"""A memory record: its text, origin, importance and use, and the record it supersedes."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Literal, TypedDict

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.model import pack, unpack

Origin = Literal["user", "model", "tool", "runtime"]  # who said the content


Words = Iterable[str]  # words, such as tags

DOUBTS = "doubts"  # the key in a fact's facts for the ids of less tainted facts that it was to replace

SUBJECT = "subject"  # the name in a memory's facts for its subject, if it has no key, which would be unique

UNDONE = "undone"  # the key in a memory's facts for the id of the memory into which it was merged until that was undone


class MemoryRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory. Frozen: recalling it changes only when and how often it was used.

    Attributes:
        id: Unique in its store.
        owner: The agent or user it belongs to, by name.
        content: The text to remember.
        kind: Which view stores it: ``"episodic"``, ``"semantic"``, ``"working"``, ``"longterm"`` or one of your own.
        embedding: Its vector, 32-bit floats, least significant byte first; None if it has none.
        embedder: The model that made the vector, if it is known; vectors of different models are not compared.
        importance: From 0 to 1, as judged at creation; the effect of time is computed, never stored.
        tags: Words to filter by.
        origin: Who said it.
        taint: The tools whose results it was made from; it must be treated as data, as they are.
        created: When it was created, in POSIX seconds.
        used: When it was last recalled, in POSIX seconds; at first, when it was created.
        uses: How often it was recalled.
        supersedes: The id of the record that this one replaced; that one is archived.
        archived: Whether it is out of use: no search finds it, but it can still be read.
        facts: A few plain values beside the text, such as a key or the ids it was merged from.
    """

    id: str
    owner: str
    content: str
    kind: str = "episodic"
    embedding: bytes | None = None
    embedder: str = ""
    importance: float = 0.5
    tags: tuple[str, ...] = ()
    origin: Origin = "user"
    taint: tuple[str, ...] = ()
    created: float = 0.0
    used: float = 0.0
    uses: int = 0
    supersedes: str | None = None
    archived: bool = False
    facts: dict[str, object] = {}

    def __post_init__(self) -> None:
        if not 0.0 <= self.importance <= 1.0:
            raise ConfigurationError(
                f"the importance of memory {self.id!r} is a number from 0 to 1, got {self.importance!r}"
            )


class RememberOptions(TypedDict, total=False):
    importance: float
    tags: Words
    origin: Origin
    taint: Words
    supersedes: str | None
    facts: Mapping[str, object] | None


def predecessors(record: MemoryRecord) -> list[str]:
    """Return the ids of the memories that a memory replaced, or that were merged into it."""
    sources = record.facts.get("sources")
    merged = [each for each in sources if isinstance(each, str)] if isinstance(sources, (list, tuple)) else []
    return merged if record.supersedes is None else [*dict.fromkeys([record.supersedes, *merged])]


def combined(group: Sequence[MemoryRecord], base: MemoryRecord) -> MemoryRecord:
    """Return a memory with the text of `base` in place of a group: its id, worth, tags, taint and uses are theirs."""
    sources = [record.id for record in group]
    return replace(
        base,
        id=blake2b("\0".join(sources).encode(), digest_size=16).hexdigest(),
        importance=sum(record.importance for record in group) / len(group),
        tags=tuple(dict.fromkeys([*base.tags, *(tag for record in group for tag in record.tags)])),
        taint=tuple(sorted({each for record in group for each in record.taint})),
        uses=sum(record.uses for record in group),
        facts={**base.facts, "sources": sources},
    )


def subject_of(record: MemoryRecord) -> str | None:
    """Return the key of a fact, or its subject; None if it has neither."""
    known = (record.facts.get("key"), record.facts.get(SUBJECT))
    return next((each for each in known if isinstance(each, str) and each), None)


def mean_of(embeddings: Sequence[bytes | None]) -> bytes | None:
    vectors = [unpack(each) for each in embeddings if each is not None]
    if len(vectors) < len(embeddings) or len({len(vector) for vector in vectors}) != 1:
        return None
    return pack(sum(column) / len(vectors) for column in zip(*vectors, strict=True))
