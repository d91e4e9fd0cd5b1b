"""Contradictions: decide from the words alone whether two memories cannot both be true."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct

from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.words import terms

DOUBTS = "doubts"
"""The key in a memory's facts for the ids of facts that it may contradict."""


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
"""Verbs that usually have one true answer at a time."""
_COUNTING = _SINGLE | {"has", "have", "had", "needs", "takes", "counts"}
"""Verbs after which a number is a value, and not a name as in "day 3"."""
_LEADING = frozenset(["in", "at", "on", "for", "as", "by", "to", "from", "with", "of"])
_ARTICLES = frozenset({"a", "an", "the"})
_BEING = frozenset({"is", "are", "was", "were"})
_NUMBER = re.compile(r"\d[\d.,:]*")
_LONGEST_HEAD = 64
"""Words up to the verb of a statement that gives one answer."""
_COMPARED = 16
"""With how many earlier memories that have something in common a memory is compared."""


def contradict(one: MemoryRecord, other: MemoryRecord) -> bool:
    """Return whether two memories seem to exclude each other.

    They do when they have the same key and different texts; when one denies what the other says; when they differ only
    in a number that is a value of something; or when both give different short answers about the same thing, with a
    verb that usually has one answer. Words alone prove nothing: treat the result as a hint, and let a model or a person
    decide.

    >>> def fact(text): return MemoryRecord(id=text, owner="ann", content=text)
    >>> contradict(fact("The user lives in Paris."), fact("The user lives in Rome."))
    True
    >>> contradict(fact("The user likes tea."), fact("The user likes coffee."))
    False
    """
    return _exclude(_parse(one), _parse(other))


def contradictions(records: Sequence[MemoryRecord]) -> list[tuple[int, int]]:
    """Return pairs that `contradict`, as positions; only pairs that have something in common are compared.

    If very many memories have something in common, each is compared with the latest ones before it only, so that the
    time and the number of pairs are linear in the number of memories.

    Args:
        records: The memories of one owner, the earliest first.
    """
    statements = [_parse(record) for record in records]
    common = Counter(word for each in statements for word in each.content)
    meeting: defaultdict[object, list[int]] = defaultdict(list)
    affirmed: defaultdict[str, list[int]] = defaultdict(list)
    denied: defaultdict[str, list[int]] = defaultdict(list)
    pairs: list[tuple[int, int]] = []
    for place, each in enumerate(statements):
        earlier: set[int] = set()
        for point in set(_points(each)):
            earlier.update(meeting[point][-_COMPARED:])
            meeting[point].append(place)
        mine, opposite = (denied, affirmed) if each.denies else (affirmed, denied)
        for word in _rarest(each.content, common):
            earlier.update(opposite[word][-_COMPARED:])
            mine[word].append(place)
        pairs += [(other, place) for other in sorted(earlier) if _exclude(statements[other], each)]
    return pairs


class _Statement(Struct, frozen=True):
    """A memory's text, broken into the parts that are compared."""

    text: str
    key: object
    words: list[str]
    content: set[str]
    """The words that matter, stemmed."""
    denies: bool
    numbers: list[str]
    rest: list[str]
    """The words other than the numbers."""


def _parse(record: MemoryRecord) -> _Statement:
    words = terms(record.content)
    numbers = _NUMBER.findall(record.content)
    return _Statement(
        text=record.content,
        key=record.facts.get("key"),
        words=words,
        content={_stem(word) for word in words if not is_negation(word) and word not in _FILLING},
        denies=sum(map(is_negation, words)) % 2 == 1,
        numbers=numbers,
        rest=terms(_NUMBER.sub(" ", record.content)) if numbers else words,
    )


def _exclude(one: _Statement, other: _Statement) -> bool:
    if one.key is not None and one.key == other.key:
        return one.text != other.text
    if one.words == other.words:
        return False
    return _one_denies(one, other) or _other_numbers(one, other) or _other_answer(one.words, other.words)


def _points(statement: _Statement) -> Iterator[object]:
    """Yield what both memories must share to differ in one answer, in numbers, or under one key."""
    if isinstance(statement.key, str):
        yield "key", statement.key
    if statement.numbers:
        yield "numbers", *statement.rest
    for end in range(2, min(len(statement.words), _LONGEST_HEAD) + 1):
        if statement.words[end - 1] in _SINGLE and _names_subject(statement.words[:end]):
            yield "answer", *statement.words[:end]


def _rarest(content: set[str], common: Counter[str]) -> list[str]:
    """Return enough of the rarer words that two memories, one denying the other, have one of them in common."""
    rarest = sorted(content, key=lambda word: (common[word], word))
    return rarest[: len(rarest) // 4 + 1]


def is_negation(word: str) -> bool:
    """Return whether an English word of small letters denies what is said."""
    return word in _NOT or word.endswith("n't")


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _one_denies(one: _Statement, other: _Statement) -> bool:
    if one.denies == other.denies:
        return False
    return len(one.content & other.content) >= max(2, 0.75 * len(one.content | other.content))


def _other_numbers(one: _Statement, other: _Statement) -> bool:
    if not one.numbers or len(one.numbers) != len(other.numbers) or one.numbers == other.numbers:
        return False
    if len(one.rest) < 2 or one.rest != other.rest:
        return False
    differ = next(place for place, number in enumerate(one.numbers) if number != other.numbers[place])
    start = list(_NUMBER.finditer(one.text))[differ].start()
    return not _COUNTING.isdisjoint(terms(one.text[:start]))


def _other_answer(words: list[str], others: list[str]) -> bool:
    same = 0
    while same < min(len(words), len(others)) and words[same] == others[same]:
        same += 1
    head = words[:same]
    while head and head[-1] in _LEADING | _ARTICLES:
        head.pop()
    if not 2 <= len(head) <= _LONGEST_HEAD or head[-1] not in _SINGLE or not _names_subject(head):
        return False
    tails = [set(each[same:]) - _FILLING for each in (words, others)]
    return all(1 <= len(tail) <= 3 for tail in tails) and not tails[0] & tails[1]


def _names_subject(head: list[str]) -> bool:
    """Return whether the words before a verb name something with one answer: many things can be said with "is"."""
    return head[-1] not in _BEING or len([word for word in head if word not in _ARTICLES]) > 2
