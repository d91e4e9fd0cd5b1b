"""Full-text search (BM25) with SQLite's FTS5: what is indexed of a memory, and how the index is queried."""

__all__ = ["BM25", "COMMON", "CONTEXT", "MANY", "TABLE", "TextIndex", "expression", "fold", "indexed"]

import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from weakref import finalize

from ziggurat.memory.record import MemoryRecord

CONTEXT = "context"
"""The key in a memory's facts for extra search text, such as what was said just before and after a turn."""

TABLE = """CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5(
    content, context, owner, content='', tokenize='porter unicode61 remove_diacritics 2')"""
"""The table of the index, with stemmed words; the indexed text itself is stored elsewhere."""

BM25 = "-bm25({name}, 1.0, 0.5, 0.0)"
"""The score of a match: the context counts half, the owner nothing."""

_WORD = re.compile(r"\w+")
_COMMON_WORDS = """
    a about above after again against all am an and any are as at be because been before being below between both but
    by can could did do does doing done down during each few for from further had has have having he her here hers him
    his how i if in into is it its just me might more most must my no nor not now of off on once only or other our out
    over own same shall she should so some such than that the their them then there these they this those through to
    too under until up us very was we were what when where which while who whom whose why will with would you your
"""
COMMON = frozenset(_COMMON_WORDS.split())
"""Frequent words that say little about the subject of a text."""


def indexed(record: MemoryRecord) -> tuple[str, str, str]:
    """Return the columns indexed for a memory: its text and tags, its context, and its owner as one word."""
    context = record.facts.get(CONTEXT)
    text = f"{record.content} {' '.join(record.tags)}" if record.tags else record.content
    return text, context if isinstance(context, str) else "", fold(record.owner)


def fold(owner: str) -> str:
    """Return an owner's name as one word of the index, whatever its characters."""
    return f"o{owner.encode().hex()}"


MANY = 5000
"""Words in more memories than this are left out of queries that have rarer words."""


def expression(text: str, owner: str | None = None, spread: Callable[[str], int] | None = None) -> str:
    """Return the FTS5 expression for a query: any of its significant words; empty if there are no words.

    >>> expression("Where is the tea?")
    '{content context} : ("tea")'

    Args:
        text: The query.
        owner: Only this owner's memories; None for all owners.
        spread: Returns in how many memories a word is, or a number above `MANY`; None to use all words.
    """
    words = list(dict.fromkeys(_WORD.findall(text.lower())))
    telling = [word for word in words if word not in COMMON] or words
    if not telling:
        return ""
    if spread is not None:
        spreads = {word: spread(word) for word in telling}
        rare = [word for word in telling if spreads[word] <= MANY]
        telling = rare if any(spreads[word] for word in rare) else telling
    asked = "{content context} : (" + " OR ".join(f'"{word}"' for word in telling) + ")"
    return asked if owner is None else f"{asked} AND owner : {fold(owner)}"


class TextIndex:
    """A full-text index in memory, which maps texts to numbers; like any value, it ends when it is no longer used."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        finalize(self, self._database.close)
        self._database.execute(TABLE.format(name="words"))

    def add(self, texts: Iterable[tuple[int, Sequence[str]]]) -> None:
        """Index texts, as `indexed` returns them, under new numbers."""
        self._database.executemany(
            "INSERT INTO words (rowid, content, context, owner) VALUES (?, ?, ?, ?)",
            [(number, *text) for number, text in texts],
        )

    def remove(self, number: int, text: Sequence[str]) -> None:
        """Remove the text of a number; the same text must be passed, as the index does not store it."""
        self._database.execute(
            "INSERT INTO words (words, rowid, content, context, owner) VALUES ('delete', ?, ?, ?, ?)", (number, *text)
        )

    def search(self, text: str, owner: str | None, count: int) -> dict[int, float]:
        """Return the best matching numbers with their scores, best first."""
        asked = expression(text, owner)
        if not asked:
            return {}
        found = self._database.execute(
            f"SELECT rowid, {BM25.format(name='words')} AS score FROM words WHERE words MATCH ? "  # noqa: S608
            "ORDER BY score DESC, rowid LIMIT ?",
            (asked, count),
        )
        return dict(found.fetchall())
