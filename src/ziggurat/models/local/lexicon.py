"""Closed classes of English words (currencies, units, small words), kept as text beside this module."""

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
    """The words of a section, in the order of the file."""
    return _sections()[section]


def word_set(section: str) -> frozenset[str]:
    """The words of a section, to ask whether a word is among them."""
    return frozenset(_sections()[section])
