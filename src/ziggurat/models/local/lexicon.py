"""Closed classes of English words (currencies, units, function words), from a text file beside this module."""

__all__ = ["word_set", "words_in"]

import functools
from importlib import resources


@functools.cache
def _sections() -> dict[str, tuple[str, ...]]:
    text = resources.files(__package__).joinpath("lexicon.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        else:
            found.setdefault(name, []).extend(line.split())
    return {name: tuple(words) for name, words in found.items()}


def words_in(section: str) -> tuple[str, ...]:
    """Return the words of a section, in the order of the file."""
    return _sections()[section]


def word_set(section: str) -> frozenset[str]:
    """Return the words of a section as a set."""
    return frozenset(_sections()[section])
