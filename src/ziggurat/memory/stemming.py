"""Stems of English and Russian words, by the extra ``memory``.

Words of other languages are their own stems, and so are all words if the extra is not installed.
"""

import re
from collections.abc import Callable
from threading import local

_ENGLISH = re.compile("[a-z]{3,40}")
_RUSSIAN = re.compile("[\u0430-\u044f]{4,40}")
_SHORT_I = re.compile("(?<=[\u0430\u0435\u0438\u043e\u0443\u044b\u044d\u044e\u044f])\u0438$")
"""A short i at the end, as i: words are folded."""


class _Stemmers(local):
    """The stemmers of a thread: a stemmer holds the word that it works on."""

    def __init__(self) -> None:
        try:
            from snowballstemmer import stemmer
        except ImportError:
            self.installed = False
            self.english: Callable[[str], str] = str
            self.russian: Callable[[str], str] = str
        else:
            self.installed = True
            self.english, self.russian = stemmer("porter").stemWord, stemmer("russian").stemWord


_stemmers = _Stemmers()


def stem(word: str) -> str:
    """Return the stem of a lowercase word without accents.

    >>> [stem(word) for word in ("barking", "neighbours", "relational", "hopping", "flies")]
    ['bark', 'neighbour', 'relat', 'hop', 'fli']
    >>> stem("москва") == stem("москвы") == "москв"
    True
    """
    if _ENGLISH.fullmatch(word):
        return _stemmers.english(word)
    return _stemmers.russian(_SHORT_I.sub("\u0439", word)) if _RUSSIAN.fullmatch(word) else word


def is_stemming() -> bool:
    """Return whether words have stems here."""
    return _stemmers.installed
