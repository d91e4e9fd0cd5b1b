"""The work of patterns of typed values: `re` tries all ways in which their repeats can share a text."""

import math
import re
from collections.abc import Iterable, Iterator
from functools import cache

from ziggurat.core.errors import ConfigurationError

_ONE = r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^()|]"
_OPEN = r"\((?:\?(?:P<\w+>|[a-zA-Z-]*:|[=!>]|<[=!]|[a-zA-Z]+(?=\))))?"
_TOKEN = re.compile(rf"(?:(?P<open>{_OPEN})|(?P<atom>{_ONE})|[)|])(?P<times>[*+?]|\{{\d*,?\d*\}})?[?+]?", re.DOTALL)
_SAMPLES = [*map(chr, range(128)), "\xa0", "\xe9", "\u0663", "\u4e2d"]
_OFTEN = 32
_MOST_STEPS = 100_000_000
"""They take about a second."""

Token = re.Match[str]


def must_be_fast(pattern: str, longest: int) -> None:
    """Raise ConfigurationError for a pattern that takes long for a text of so many characters."""
    if steps(pattern, longest) > _MOST_STEPS:
        fitting = next((each for each in (10_000, 1_000, 300, 30) if steps(pattern, each) <= _MOST_STEPS), None)
        marked = "begin or end the group with a character that is nowhere else in it, as in (-[a-z]+)*"
        raise ConfigurationError(
            f"the pattern {pattern!r} can take minutes, as parts that repeat match the same text: "
            f"{marked if fitting is None else f'add max_length={fitting:_}'}, or use a pydantic type"
        )


def steps(pattern: str, longest: int) -> float:
    """Return about how many steps `re` takes at most to match a text of so many characters.

    A repeat multiplies those of the ones after it by its length if it may end at several places: what follows it also
    matches its letters. So does the place where a match begins. A repeated group takes for ever if it matches a text in
    several ways: it may repeat if it always matches the same, if its choices begin differently, or if it begins or ends
    with a character that is nowhere else in it.

    >>> steps(r"^a*a*b", 1_000), steps(r"^a*b", 1_000), steps(r"^(\\w+\\s?)+$", 1_000)
    (1000000, 1000, inf)
    """
    flags = re.DOTALL | re.IGNORECASE if "(?i" in pattern else re.DOTALL
    tokens = list(_TOKEN.finditer(pattern))
    anchored = bool(re.match(r"(\(\?\w+\))?(\^|\\A)", pattern))
    start = _letters(tokens[:1] if tokens and not _is_optional(tokens[0]) else [], flags)
    opened: list[int] = []
    count, most, pending = 1, 1, 1
    for index, token in enumerate(tokens):
        if token["open"]:
            opened.append(index)
        begin = opened.pop() if token[0][0] == ")" and opened else index
        times = _most(token)
        if begin < index and times > 1 and not _is_certain(tokens[begin + 1 : index]):
            return math.inf
        if times < _OFTEN:
            continue
        often, inner, following = int(min(times, longest)), tokens[begin : index + 1], list(_after(tokens, index))
        letters, rest = _letters(inner, flags), _letters(tokens[index + 1 :], flags)
        if following and not anchored and (not start or start & letters):
            pending, anchored = pending * longest, True
        count, pending, most = count * pending, 1, max(most, often)
        marked = any(each["atom"] and not _is_optional(each) and not rest & _letters([each], flags) for each in inner)
        pending = often if letters & _letters(following, flags) and not marked else 1
    return count * most


def _most(token: Token) -> float:
    times = token["times"] or ""
    if times in ("*", "+"):
        return math.inf
    numbers = times.strip("{}?").split(",")
    return float(numbers[-1] or ("inf" if len(numbers) > 1 else 1))


def _is_optional(token: Token) -> bool:
    return (token["times"] or "").startswith(("*", "?", "{0", "{,"))


def _letters(tokens: Iterable[Token], flags: int) -> frozenset[str]:
    """Return the samples that atoms match."""
    return frozenset().union(*(_samples(each["atom"], flags) for each in tokens if each["atom"]))


@cache
def _samples(atom: str, flags: int) -> frozenset[str]:
    return frozenset(filter(re.compile(atom, flags).fullmatch, _SAMPLES))


def _after(tokens: list[Token], index: int) -> Iterator[Token]:
    """Yield the atoms that may follow a token, up to the first that must."""
    depth, skipped, must = 0, -1, False
    for token in tokens[index + 1 :]:
        optional = _is_optional(token)
        if token["open"]:
            depth += 1
        elif token[0][0] == ")":
            if skipped == depth and must and not optional:
                return
            skipped = -1 if skipped == depth else skipped
            depth = max(depth - 1, 0)
        elif token[0] == "|":
            skipped = depth if depth == 0 else -1 if skipped == depth else skipped
            must = must and depth > 0
        elif skipped < 0 and token["atom"]:
            yield token
            if not optional and depth == 0:
                return
            skipped, must = (depth, True) if not optional else (skipped, must)


def _is_certain(body: list[Token]) -> bool:
    """Return whether a group matches each text in one way."""
    written = "".join(each[0] for each in body)
    if re.fullmatch(r"[\w-]+(\|[\w-]+)*", written):
        starts = [choice[0] for choice in written.split("|")]
        return len(starts) == len(set(starts))
    if not all(each["atom"] for each in body):
        return False
    if all((each["times"] or "{1}").strip("{}").isdigit() for each in body):
        return True
    return any(_marks(edge, rest) for edge, *rest in (body, body[::-1]))


def _marks(edge: Token, rest: list[Token]) -> bool:
    """Return whether an atom is one character that no other can match."""
    letter = edge["atom"][-1]
    plain = edge["atom"] == letter != "." or (edge["atom"][0] == "\\" and not letter.isalnum())
    others = [each for each in rest if each["atom"] not in ("^", "$")]
    return plain and not edge["times"] and not any(re.fullmatch(each["atom"], letter, re.DOTALL) for each in others)
