"""Similarity of texts and of memories, and finding memories that say the same."""

import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from functools import lru_cache

from msgspec import Struct

from ziggurat.core.settings import Fraction, checked
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.vectors import similarities
from ziggurat.memory.words import SLICE, stems, terms

_FIRSTS = 16
"""With how many memories of the same words but another meaning a memory is compared, so that time stays linear."""

_FILLING = frozenset({"actually", "also", "currently", "please", "really"})
"""Words that do not change the meaning of a sentence, unless it is a negation."""

_NOT = frozenset({"not", "no", "never", "none", "without", "cannot", "nobody", "nothing"})

_LOOSE = _FILLING | {"a", "an", "the", "just", "quite", "so", "today", "too"}
"""Words that seldom change the meaning of a sentence."""

_PIECES = re.compile(r"[.,]?\d+(?:[.,:/]\d+)*|[^\W\d_]+(?:['\u2019][^\W\d_]+)*|\S")
_PAUSES = frozenset(".,;:!\"'()[]{}\u2026\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb\u00a1\u3002\uff0c\u3001\uff01")
"""Punctuation that does not change the meaning of a text; a question mark, a sign or a currency does."""


def term_cosine(one: str, other: str) -> float:
    """Return the cosine of two texts' word counts: ``sum(f1 * f2) / sqrt(sum(f1**2) * sum(f2**2))``, from 0 to 1.

    >>> round(term_cosine("tea is hot", "tea is cold"), 3)
    0.667
    """
    (counts, length), (others, other_length) = _count_terms(one), _count_terms(other)
    if not length or not other_length:
        return 0.0
    if len(others) < len(counts):
        counts, others = others, counts
    return sum(count * others[word] for word, count in counts.items() if word in others) / (length * other_length)


@lru_cache(maxsize=4096)
def _count_terms(text: str) -> tuple[Counter[str], float]:
    counts = Counter(terms(text))
    return counts, math.sqrt(sum(count * count for count in counts.values()))


def wording(text: str) -> tuple[str, ...]:
    """Return the words of a text that give it its meaning: two texts with the same wording can stand for each other.

    Punctuation, spaces, a capital at the beginning, and filling words such as "really" do not matter, the last unless
    there is a negation. Everything else does: forms, order and case of words, accents, numbers, signs and units.

    >>> wording("The dog barks!") == wording("the dog barks")
    True
    >>> wording("It takes 5 mW.") == wording("It takes 5 MW.")
    False
    """
    words = [each for each in _PIECES.findall(_composed(text)) if each not in _PAUSES]
    if words and words[0][1:].islower():
        words[0] = words[0].lower()
    words = [each.replace("\u2019", "'") for each in words]
    if not any(map(_is_negation, words)):
        words = [each for each in words if each not in _FILLING] or words
    return tuple(words) or (text.strip(),)


def _is_negation(word: str) -> bool:
    return word in _NOT or word.endswith("n't")


def _composed(text: str) -> str:
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFC", text[start : start + SLICE]) for start in range(0, len(text), SLICE))


def _subject(text: str) -> tuple[str, ...]:
    subject = sorted(stems(" ".join(term for term in terms(text) if term not in _LOOSE)))
    return tuple(subject) or wording(text)


def say_the_same(one: str, other: str) -> bool:
    """Return whether two texts have the same `wording`.

    >>> say_the_same("Invoice 1001 is paid.", "invoice 1001 is really paid")
    True
    >>> say_the_same("Invoice 1001 is paid.", "Invoice 1002 is paid.")
    False
    """
    return wording(one) == wording(other)


class Duplicates(Struct, frozen=True):
    """Memories that say the same."""

    places: list[int]
    similarity: float


@checked
def find_same(
    records: Sequence[MemoryRecord], threshold: Fraction = 0.85, *, loosely: bool = False
) -> list[Duplicates]:
    """Return the groups of memories that have the same wording and a cosine above a threshold.

    In each group, the first memory is compared with the others: by their vectors if both have one of the same size and
    model, otherwise by their words. The time is linear in the number of memories.

    Args:
        records: The memories, the earliest first.
        threshold: The cosine to exceed, from 0 to 1.
        loosely: Compare words in any order and by their stems, without those that seldom matter, for hints to a person.

    Raises:
        ConfigurationError: a setting has a wrong value.
    """
    alike: defaultdict[Hashable, list[list[int]]] = defaultdict(list)
    nearest: dict[int, float] = {}
    for place, record in enumerate(records):
        groups = alike[_subject(record.content) if loosely else wording(record.content)]
        for group in groups[:_FIRSTS]:
            similarity = _cosine(records[group[0]], record)
            if similarity > threshold:
                group.append(place)
                nearest[group[0]] = min(similarity, nearest.get(group[0], 1.0))
                break
        else:
            groups.append([place])
    duplicates = sorted(group for groups in alike.values() for group in groups if len(group) > 1)
    return [Duplicates(group, nearest[group[0]]) for group in duplicates]


def _cosine(one: MemoryRecord, other: MemoryRecord) -> float:
    mine, theirs = one.embedding, other.embedding
    if mine and theirs and len(mine) == len(theirs) and one.embedder == other.embedder:
        return similarities(mine, [theirs])[0]
    return 1.0 if one.content == other.content else term_cosine(one.content, other.content)
