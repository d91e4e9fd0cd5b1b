"""Find the names that somebody may have meant by one that does not exist, in time linear in their length."""

from collections.abc import Iterable
from functools import lru_cache
from heapq import nlargest
from itertools import islice, pairwise

_MAX_NAME = 100  # characters of a name that is compared
_MAX_NAMES = 500


def similar(name: str, names: Iterable[str], count: int = 1, least: float = 0.4) -> list[str]:
    """Return the known names that resemble an unknown one, the most similar first.

    Names are compared by the pairs of neighbouring characters that they share (the coefficient of Dice), ignoring
    case, underscores and hyphens; those that share less than `least` of them are left out. Only names of up to 100
    characters are compared, and of these the first 500.

    >>> similar("serach", ["search", "seek", "list"])
    ['search']
    """
    if len(name) > _MAX_NAME:
        return []
    pairs = _pairs(name)
    scored = []
    for each in islice((each for each in names if len(each) <= _MAX_NAME), _MAX_NAMES):
        other_pairs = _pairs(each)
        score = 2 * len(pairs & other_pairs) / (len(pairs) + len(other_pairs))
        if score >= least:
            scored.append((score, each))
    return [each for _, each in nlargest(count, scored, key=lambda pair: pair[0])]


@lru_cache(4096)
def _pairs(name: str) -> frozenset[str]:
    """Return the pairs of neighbouring characters of a name, with a space before and after it."""
    padded = f" {name.lower().replace('_', '').replace('-', '')} "
    return frozenset(map("".join, pairwise(padded)))
