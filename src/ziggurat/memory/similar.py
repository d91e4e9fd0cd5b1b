"""Similarity of texts and of memories, and finding near-duplicates."""

__all__ = ["Near", "duplicates", "say_the_same", "term_cosine"]

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from ziggurat.core.errors import MissingExtra
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.words import stems, terms

_BLOCK = 1024
_FILLING = frozenset(
    ("a", "an", "the", "actually", "also", "currently", "just", "please", "quite", "really", "so", "today", "too")
)
"""Words whose presence does not change what a sentence says."""


@lru_cache(maxsize=4096)
def _count_terms(text: str) -> tuple[Counter[str], float]:
    counts = Counter(terms(text))
    return counts, math.sqrt(sum(count * count for count in counts.values()))


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


def say_the_same(one: str, other: str, *, in_order: bool = True) -> bool:
    """Return whether two texts have the same words, apart from forms and filling words.

    A different number, name or opposite is a different word, so such texts never say the same.

    >>> say_the_same("Dogs bark at the neighbour.", "The dog really barks at neighbours")
    True
    >>> say_the_same("Invoice 1001 is paid.", "Invoice 1002 is paid.")
    False

    Args:
        one: A text.
        other: Another one.
        in_order: The words must be in the same order too; who did what to whom may depend on it.
    """
    words, others = _significant(one), _significant(other)
    return words == others if in_order else sorted(words) == sorted(others)


@lru_cache(maxsize=4096)
def _significant(text: str) -> tuple[str, ...]:
    said = tuple(stems(" ".join(term for term in terms(text) if term not in _FILLING)))
    return said or tuple(terms(text)) or (text.strip(),)


class Near(Struct, frozen=True):
    """A pair of near-duplicates.

    Attributes:
        first: The position of the earlier one in the list.
        second: The position of the other.
        similarity: The cosine of their vectors, or of their words.
    """

    first: int
    second: int
    similarity: float


def duplicates(records: Sequence[MemoryRecord], threshold: float = 0.85) -> list[Near]:
    """Return every pair of memories with a cosine above a threshold, by their positions.

    The vectors are compared when all memories have one of the same size, otherwise the words.

    Raises:
        MissingExtra: there are vectors, and NumPy is not installed.
    """
    sizes = {0 if record.embedding is None else len(record.embedding) for record in records}
    if len(sizes) == 1 and sizes != {0}:
        return _by_vectors(records, threshold)
    return _by_words(records, max(0.0, threshold))


def _by_vectors(records: Sequence[MemoryRecord], threshold: float) -> list[Near]:
    try:
        import numpy as np
    except ImportError:
        raise MissingExtra("comparing embeddings", "memory") from None
    numbers = np.frombuffer(b"".join(record.embedding or b"" for record in records), dtype="<f4")
    vectors = numbers.reshape(len(records), -1)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    matrix = vectors / np.where(lengths == 0, 1, lengths)
    found: list[Near] = []
    for start in range(0, len(records), _BLOCK):
        near = matrix[start : start + _BLOCK] @ matrix[start:].T
        for row, column in np.argwhere(near > threshold).tolist():
            if row < column:
                found.append(Near(start + row, start + column, float(near[row, column])))
    return found


def _by_words(records: Sequence[MemoryRecord], threshold: float) -> list[Near]:
    """Compare only texts that share one of their rarer words; texts that share none cannot be near enough.

    Words are sorted from the rarest to the most common. Of each text, as many words are looked up as are needed for the
    weight of the remaining ones to stay below the bound (Bayardo, Ma and Srikant, 2007: "Scaling up all pairs
    similarity search").
    """
    counted = [_count_terms(record.content)[0] for record in records]
    common = Counter(word for counts in counted for word in counts)
    having: defaultdict[str, list[int]] = defaultdict(list)
    found: list[Near] = []
    for place, counts in enumerate(counted):
        rare = _rarest(counts, common, threshold)
        for other in sorted({other for word in rare for other in having[word]}):
            cosine = term_cosine(records[other].content, records[place].content)
            if cosine > threshold:
                found.append(Near(other, place, cosine))
        for word in rare:
            having[word].append(place)
    found.sort(key=lambda near: (near.first, near.second))
    return found


def _rarest(counts: Counter[str], common: Counter[str], threshold: float) -> list[str]:
    words = sorted(counts, key=lambda word: (common[word], word))
    left = sum(count * count for count in counts.values())
    bound = threshold * threshold * left * (1 - 1e-9)
    for place, word in enumerate(words):
        if left < bound:
            return words[:place]
        left -= counts[word] ** 2
    return words
