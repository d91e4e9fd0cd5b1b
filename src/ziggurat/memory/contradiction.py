"""Whether two memories cannot both be true, as far as words alone tell."""

__all__ = ["contradict"]

import re

from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.similar import terms


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NOT = frozenset({"not", "no", "never", "none", "without", "cannot", "nobody", "nothing"})
_FILLING = _words("""
    a an the is are was were be been do does did has have had will would can could now any
""")
_SINGLE = _words("""
    is are was were equals lives live works work born named called costs weighs starts ends begins
    expires prefers uses owns reports
""")
"""Verbs after which there is mostly one true answer at a time."""
_LEADING = frozenset(["in", "at", "on", "for", "as", "by", "to", "from", "with", "of"])
_NUMBER = re.compile(r"\d[\d.,:]*")


def contradict(one: MemoryRecord, other: MemoryRecord) -> bool:
    """Tell whether two memories seem to say things that exclude each other.

    They do when they are kept under one key with different texts; when one denies what the other says; when they
    differ in numbers alone; or when both say of one thing, with a verb that mostly has one answer, two short
    different answers. Words alone prove nothing: take it for a hint, and let a model or a person judge.

    >>> def fact(text): return MemoryRecord(id=text, owner="ann", content=text)
    >>> contradict(fact("The user lives in Paris."), fact("The user lives in Rome."))
    True
    >>> contradict(fact("The user likes tea."), fact("The user likes coffee."))
    False
    """
    key = one.facts.get("key")
    if key is not None and key == other.facts.get("key"):
        return one.content != other.content
    words, others = terms(one.content), terms(other.content)
    if words == others:
        return False
    return _denied(words, others) or _other_numbers(one.content, other.content) or _other_answer(words, others)


def _is_no(word: str) -> bool:
    return word in _NOT or word.endswith("n't")


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _denied(words: list[str], others: list[str]) -> bool:
    if sum(map(_is_no, words)) % 2 == sum(map(_is_no, others)) % 2:
        return False
    said, denied = (
        {_stem(word) for word in each if not _is_no(word) and word not in _FILLING} for each in (words, others)
    )
    together = said | denied
    return len(said & denied) >= max(2, 0.75 * len(together))


def _other_numbers(one: str, other: str) -> bool:
    numbers, others = _NUMBER.findall(one), _NUMBER.findall(other)
    if not numbers or len(numbers) != len(others) or numbers == others:
        return False
    rest = terms(_NUMBER.sub(" ", one))
    return len(rest) >= 2 and rest == terms(_NUMBER.sub(" ", other))


def _other_answer(words: list[str], others: list[str]) -> bool:
    same = 0
    while same < min(len(words), len(others)) and words[same] == others[same]:
        same += 1
    head = words[:same]
    while head and head[-1] in _LEADING | {"a", "an", "the"}:
        head.pop()
    if len(head) < 2 or head[-1] not in _SINGLE:
        return False
    tails = [set(each[same:]) - _FILLING for each in (words, others)]
    return all(1 <= len(tail) <= 3 for tail in tails) and not tails[0] & tails[1]
