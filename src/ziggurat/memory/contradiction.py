"""Whether two memories cannot both be true, as far as words alone tell."""

__all__ = ["contradict", "contradictions"]

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations, product

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
_ARTICLES = frozenset({"a", "an", "the"})
_BEING = frozenset({"is", "are", "was", "were"})
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


def contradictions(records: Sequence[MemoryRecord]) -> list[tuple[int, int]]:
    """Return every two memories that `contradict`, by their places; only those that have something in common are met.

    Args:
        records: The memories of one owner.
    """
    said = [terms(record.content) for record in records]
    content = [_content(words) for words in said]
    common = Counter(word for words in content for word in words)
    meeting: defaultdict[object, list[int]] = defaultdict(list)
    affirmed: defaultdict[str, list[int]] = defaultdict(list)
    denied: defaultdict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        for point in set(_points(record)):
            meeting[point].append(place)
        for word in _rarest(content[place], common):
            (denied if _denies(said[place]) else affirmed)[word].append(place)
    pairs = {pair for places in meeting.values() for pair in combinations(places, 2)}
    for word, places in denied.items():
        pairs.update((min(pair), max(pair)) for pair in product(places, affirmed[word]))
    return [(one, other) for one, other in sorted(pairs) if contradict(records[one], records[other])]


def _points(record: MemoryRecord) -> Iterator[object]:
    """Return what two memories that differ in one answer, in numbers, or under one key have both."""
    key = record.facts.get("key")
    if isinstance(key, str):
        yield "key", key
    words = terms(record.content)
    if _NUMBER.search(record.content):
        yield "numbers", *terms(_NUMBER.sub(" ", record.content))
    for end in range(2, len(words) + 1):
        if words[end - 1] in _SINGLE and _says_who(words[:end]):
            yield "answer", *words[:end]


def _rarest(content: set[str], common: Counter[str]) -> list[str]:
    """Return so many of the rarer words that two of which one denies the other have one of them in common."""
    rarest = sorted(content, key=lambda word: (common[word], word))
    return rarest[: len(rarest) // 4 + 1]


def _is_no(word: str) -> bool:
    return word in _NOT or word.endswith("n't")


def _denies(words: list[str]) -> bool:
    return sum(map(_is_no, words)) % 2 == 1


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _content(words: list[str]) -> set[str]:
    return {_stem(word) for word in words if not _is_no(word) and word not in _FILLING}


def _denied(words: list[str], others: list[str]) -> bool:
    if _denies(words) == _denies(others):
        return False
    said, denied = _content(words), _content(others)
    return len(said & denied) >= max(2, 0.75 * len(said | denied))


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
    while head and head[-1] in _LEADING | _ARTICLES:
        head.pop()
    if len(head) < 2 or head[-1] not in _SINGLE or not _says_who(head):
        return False
    tails = [set(each[same:]) - _FILLING for each in (words, others)]
    return all(1 <= len(tail) <= 3 for tail in tails) and not tails[0] & tails[1]


def _says_who(head: list[str]) -> bool:
    """Tell whether a verb stands after something with one answer: many things are said of who "is"."""
    return head[-1] not in _BEING or len([word for word in head if word not in _ARTICLES]) > 2
