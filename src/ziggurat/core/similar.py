"""Find the names that somebody may have meant by one that does not exist, in time linear in their length."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from heapq import nlargest
from itertools import islice, pairwise

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import warn_once

_MAX_NAME = 100  # characters of a name that is compared
_MAX_NAMES = 500


def similar(name: str, names: Iterable[str], count: int = 1, least: float = 0.4) -> list[str]:
    """Return the known names that resemble an unknown one, the most similar first."""
    # By the pairs of neighbouring characters that they share, the coefficient of Dice: difflib takes quadratic time.
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
    padded = f" {name.lower().replace('_', '').replace('-', '')} "
    return frozenset(map("".join, pairwise(padded)))


def check_patterns(where: str, patterns: Iterable[str], names: Collection[str], least: float | None) -> None:
    """Warn once of each pattern that matches no name of a tool; `where` begins the sentence."""
    for pattern in patterns:
        if pattern == "*" or any(fnmatchcase(name, pattern) for name in names):
            continue
        near = similar(pattern, names)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(names)) or 'none'}"
        text = f"{where} has no tool {pattern!r}; {hint}"
        if least is not None and similar(pattern, names, least=least) and not set(pattern) & set("*?["):
            raise ConfigurationError(text)
        warn_once(text)
