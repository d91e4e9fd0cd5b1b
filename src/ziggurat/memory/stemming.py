"""Stems of words: of English ones by Porter's algorithm, of Cyrillic ones without the endings of nouns and adjectives.

Source: M. F. Porter, 1980, "An algorithm for suffix stripping". Words of other scripts are their own stems.
"""

import re
from functools import lru_cache

_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("abli", "able"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "sion", "tion", "ou", "ism", "ate",
    "iti", "ous", "ive", "ize",
)  # fmt: skip

_CYRILLIC = re.compile("[\u0430-\u044f\u0456\u0454]{4,40}")
_ENDING = re.compile(
    "(?<=[\u0430-\u044f]{3})(?:\u0438\u044f\u043c\u0438|[\u0430\u044f\u044b\u0438]\u043c\u0438|"
    "[\u043e\u0435](?:\u0433\u043e|\u043c\u0443)|[\u0430\u044f\u043e\u0435\u044b\u0438][\u043c\u0445]|"
    "[\u043e\u0435]\u0432|\u044c?[\u0430\u0435\u0438\u043e\u0443\u044b\u044e\u044f\u044c]{1,2})$"
)
"""Endings, with the short i as i, as words are folded."""

_Y_VOWEL = re.compile("(?<=[^aeiou])y")
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")
_ENGLISH = re.compile("[a-z]{3,40}")


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of a lowercase word without accents.

    >>> [stem(word) for word in ("barking", "neighbours", "relational", "hopping", "flies")]
    ['bark', 'neighbour', 'relat', 'hop', 'fli']
    >>> stem("москва") == stem("москвы") == "москв"
    True
    """
    if not _ENGLISH.fullmatch(word):
        return _ENDING.sub("", word) if _CYRILLIC.fullmatch(word) else word
    word = _past_and_plural(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    for steps in (_STEP_2, _STEP_3):
        for suffix, instead in steps:
            if word.endswith(suffix):
                if _measure(word[: -len(suffix)]) > 0:
                    word = word[: -len(suffix)] + instead
                break
    suffix = max((each for each in _STEP_4 if word.endswith(each)), key=len, default="")
    left = len(word) - (3 if suffix in ("sion", "tion") else len(suffix))
    if suffix and _measure(word[:left]) > 1:
        word = word[:left]
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _ends_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _past_and_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        if word.endswith(suffix) and _has_vowel(word[: -len(suffix)]):
            word = word[: -len(suffix)]
            if word.endswith(("at", "bl", "iz")):
                return word + "e"
            if _DOUBLE.search(word):
                return word[:-1]
            return word + "e" if _measure(word) == 1 and _ends_short(word) else word
    return word


def _pattern(word: str) -> str:
    """Return the word with v for each vowel and c for each consonant; y is a vowel after a consonant."""
    return re.sub("[^v]", "c", re.sub("[aeiou]", "v", _Y_VOWEL.sub("i", word).replace("v", "c")))


def _measure(word: str) -> int:
    """Return how many times a vowel is followed by a consonant."""
    return _pattern(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _pattern(word)


def _ends_short(word: str) -> bool:
    """Return whether the word ends with consonant, vowel, consonant, the last of them not w, x or y."""
    return _pattern(word).endswith("cvc") and word[-1] not in "wxy"
