"""Junk: rules for memories that should not have been stored."""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.words import terms

JunkRule = Callable[[MemoryRecord], str | None]
"""Returns why a memory is junk, or None if it is not."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_POLITE = _words("""
    hi hello hey thanks thank you ok okay yes no yep nope sure bye goodbye good morning evening night great
    fine please welcome cool nice so very much alright right well how are i am the a to and
""")
_EMPTY = re.compile(
    r"(todo|tbd|n/?a|null|none|undefined|nan|test|foo|bar|lorem ipsum\b.*|\.{3}"
    r"|(there (is|are|was|were) )?(no|nothing) (new |relevant |useful |other )?"
    r"(information|facts?|memor(y|ies)|details?|context|to remember)\b.*"
    r"|(the user )?(said|says) (hello|hi|hey|thanks|thank you|goodbye|bye))[.!]*",
    re.IGNORECASE,
)
_PROMPT = re.compile(
    r"\b(you are (a|an|the)( \w+)? (assistant|agent|chatbot|language model)|as an ai( language)? model|system prompt"
    r"|(ignore|disregard|forget) (all |any )?(the |your )?(previous|prior|above|earlier)"
    r" (instructions?|prompts?|rules))",
    re.IGNORECASE,
)
_FAILURE = re.compile(
    r"^\s*(traceback \(most recent call last\)|(\w+\.)*\w*(error|exception): |(error|http) [45]\d\d\b"
    r"|\[?(debug|trace)\b|heartbeat|ping$|pong$)",
    re.IGNORECASE,
)
_BLOB = re.compile(r"\S{120,}")


def is_polite(text: str) -> bool:
    """Return whether a text is only a greeting, thanks or consent, in English.

    >>> is_polite("OK, thank you very much!"), is_polite("Thanks, where is the key?")
    (True, False)
    """
    return _POLITE.issuperset(terms(text))


def _says_nothing(record: MemoryRecord) -> str | None:
    words = terms(record.content)
    if not any(character.isalpha() for character in record.content):
        return "it has no words"
    if _EMPTY.fullmatch(record.content.strip()):
        return "it says nothing"
    if len(words) < 2 and "name" not in record.facts and "key" not in record.facts:
        return "it is a single word"
    return "it is mere politeness" if is_polite(record.content) else None


def _repeats(record: MemoryRecord) -> str | None:
    words = terms(record.content)
    if len(words) >= 6 and Counter(words).most_common(1)[0][1] > len(words) / 2:
        return "it repeats one word"
    return None


def _is_prompt(record: MemoryRecord) -> str | None:
    return "it is an instruction to a model, nothing to know" if _PROMPT.search(record.content) else None


def _is_failure(record: MemoryRecord) -> str | None:
    return "it is a failure or noise of a program" if _FAILURE.search(record.content) else None


def _is_blob(record: MemoryRecord) -> str | None:
    letters = sum(character.isalpha() or character.isspace() for character in record.content)
    if _BLOB.search(record.content) or (len(record.content) > 20 and letters < len(record.content) / 2):
        return "it is data, not text"
    return None


JUNK: Sequence[JunkRule] = (_says_nothing, _repeats, _is_prompt, _is_failure, _is_blob)
"""The default rules of `audit`."""


def junk_in(record: MemoryRecord, rules: Sequence[JunkRule] = JUNK) -> str | None:
    """Return why a memory is junk, by the first rule that matches, or None.

    >>> junk_in(MemoryRecord(id="1", owner="ann", content="ok, thanks!"))
    'it is mere politeness'
    """
    return next((why for rule in rules if (why := rule(record)) is not None), None)
