"""Words, as every search, index and comparison of memories divides a text."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from threading import local

from ziggurat.memory.record import MemoryRecord, subject_of

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
    """Return the stem of a lowercase word without accents."""
    if _ENGLISH.fullmatch(word):
        return _stemmers.english(word)
    return _stemmers.russian(_SHORT_I.sub("\u0439", word)) if _RUSSIAN.fullmatch(word) else word


def is_stemming() -> bool:
    return _stemmers.installed


CONTEXT = "context"
"""The key in a memory's facts for extra search text, such as what was said just before and after a turn."""

KEY_TAG = "key:"  # the beginning of the tags that stand for the keys of facts

_CONTEXT_WEIGHT = 0.5
_LONGEST = 64  # the characters of a word that count; an index of PostgreSQL holds no entries of some thousand bytes
SLICE = 1000  # characters normalized at once: the time for marks in a row grows with the square
_MACHINERY = frozenset({"compressed", "consolidated"})  # tags of the runtime, which are not searched

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
"""Scripts that are written without spaces, or whose words have endings without a space: each two characters in a row
are a word."""
_MARKS = (
    "\u0591-\u05c7\u0610-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0981-\u0983\u09bc-\u09cd\u0a01-\u0a4d\u0a81-\u0acd"
    "\u0b01-\u0b4d\u0b82-\u0bcd\u0c00-\u0c4d\u0c81-\u0ccd\u0d00-\u0d4d"
)
"""Vowel signs and other marks inside of words."""
_SYMBOL = "[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
"""Pictures, each of which is a word; tones of skin are left out."""
_PAIR = re.compile(f"[{_UNSPACED}]{{2}}")
_PIECES = re.compile(
    f"([{_UNSPACED}]+)|({_SYMBOL})|(?:(?![{_UNSPACED}])[^\\W_]|[{_MARKS}])+(?:'(?:(?![{_UNSPACED}])[^\\W_])+)*"
)
_ASCII = re.compile("[a-z0-9]+(?:'[a-z0-9]+)*")
_ACCENTS = re.compile("[\u0300-\u036f]")
_LETTERS = str.maketrans(
    {"\u2019": "'", "\u00f8": "o", "\u0111": "d", "\u0142": "l", "\u0131": "i", "\u00e6": "ae", "\u0153": "oe"}
)

_COMMON_WORDS = """
    a about above after again against all am an and any are as at be because been before being below between both but
    by can could did do does doing done down during each few for from further had has have having he her here hers him
    his how i if in into is it its just me might more most must my no nor not now of off on once only or other our out
    over own same shall she should so some such than that the their them then there these they this those through to
    too under until up us very was we were what when where which while who whom whose why will with would you your
    don doesn didn isn aren wasn weren won wouldn shouldn couldn hasn haven hadn cannot
"""
_COMMON = frozenset(_COMMON_WORDS.split())  # frequent English words that say little about the subject of a text

_POLITE_WORDS = """
    hi hello hey thanks thank you ok okay yes no yep nope sure bye goodbye good morning evening night great
    fine please welcome cool nice so very much alright right well how are i am the a to and
"""
_POLITE = frozenset(_POLITE_WORDS.split())


def terms(text: str) -> list[str]:
    """Return the words of a text, in order, without case and accents: pairs of characters in scripts without spaces."""
    if text.isascii():
        return [word[:_LONGEST] for word in _ASCII.findall(text.lower())]
    words: list[str] = []
    for match in _PIECES.finditer(_fold(text)):
        run = match[1]
        if run is None or len(run) == 1:
            words.append(match[0][:_LONGEST])
        else:
            words.extend(run[place : place + 2] for place in range(len(run) - 1))
    return words


def telling(text: str) -> list[str]:
    return [word for word in terms(text) if word.partition("'")[0] not in _COMMON]


def is_polite(text: str) -> bool:
    """Return whether a text is only a greeting, thanks or consent, in English."""
    return _POLITE.issuperset(terms(text))


def _fold(text: str) -> str:
    return "".join(_fold_slice(text[start : start + SLICE]) for start in range(0, len(text), SLICE))


def _fold_slice(text: str) -> str:
    text = unicodedata.normalize("NFKC", _ACCENTS.sub("", text)).casefold().translate(_LETTERS)
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", text)))


@lru_cache(maxsize=16_384)
def _stems_of(term: str) -> tuple[str, ...]:
    if "'" not in term:
        return (stem(term),)
    parts = [part for part in term.split("'") if len(part) > 2] or [term.replace("'", "")]
    return tuple(stem(part) for part in parts)


def stems(text: str) -> list[str]:
    """Return the words of a text as they are indexed, in order: those of English by their stems."""
    return [each for term in terms(text) for each in _stems_of(term)]


def query_words(text: str) -> list[str]:
    """Return the words to search for, each once: without common ones, unless there are no others."""
    return list(dict.fromkeys(each for term in telling(text) or terms(text) for each in _stems_of(term)))


def indexed_words(record: MemoryRecord) -> dict[str, float]:
    """Return the words by which a memory is found, with how often they are in its text and its tags."""
    counts: defaultdict[str, float] = defaultdict(float)
    tags = (tag for tag in record.tags if tag not in _MACHINERY and not tag.startswith(KEY_TAG))
    for text in (record.content, *tags):
        for word in stems(text):
            counts[word] += 1.0
    for beside in (record.facts.get(CONTEXT), subject_of(record)):
        for word in stems(beside) if isinstance(beside, str) else ():
            counts[word] += _CONTEXT_WEIGHT
    for pair in [word for word in counts if len(word) == 2 and not word.isascii() and _PAIR.match(word)]:
        for character in pair:
            counts[character] += counts[pair]
    return counts
