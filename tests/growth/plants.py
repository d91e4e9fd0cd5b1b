"""Functions that take the square, which must be found, and ones that do not, which must pass."""

import json
from typing import Any

from tests.growth.measure import Case
from tests.growth.shapes import limits, value_of
from tests.samples import LONG


class _Joined:
    def __init__(self) -> None:
        self.text = ""

    def push(self, letter: str) -> None:
        self.text += letter


def join(letters: str) -> None:
    joined = _Joined()
    for letter in letters:
        joined.push(letter)


def find_in_list(letters: str) -> None:
    seen: list[int] = []
    for number in range(len(letters)):
        if number not in seen:
            seen.append(number)


def take_from_front(letters: str) -> None:
    while letters:
        letters = letters[1:]


class _Cold:
    """Takes the square, and the first time, as with an import or a cold cache, a millisecond more."""

    def __init__(self) -> None:
        self.warm = False

    def find_when_cold(self, letters: str) -> None:
        if not self.warm:
            self.warm = sum(range(50_000)) > 0
        find_in_list(letters)


def choose(text: str) -> list[str]:
    return [each for each in text if each in "abc"]


def find_keys_in_list(value: dict[str, Any]) -> None:
    keys = list(value)
    for key in keys:
        keys.index(key)


def write_more_often(value: dict[str, Any]) -> None:
    """Take the length to the power of 1.3."""
    for _ in range(round(len(value) ** 0.3)):
        json.dumps(value)


def write_sorted(value: dict[str, Any]) -> None:
    json.dumps(value, sort_keys=True)


SQUARE = [
    *(
        Case(f"plants.{slow.__name__}", "letters", lambda size: "😀" * size, slow, least, 16 * least, 16 * least)
        for slow, least in ((join, 4_000), (find_in_list, 250), (take_from_front, 4_000))
    ),
    *(
        Case(f"plants.{slow.__name__}", "many_keys", value_of("many_keys"), slow, **limits("many_keys"))
        for slow in (find_keys_in_list, *([write_more_often] if LONG else []))
    ),
    Case("plants.find_when_cold", "letters", lambda size: "😀" * size, _Cold().find_when_cold, 60, most=960, span=4),
]

LINEAR = [
    *(
        Case(f"plants.{quick.__name__}", "letters", lambda size: "bca" * (size // 3), quick)
        for quick in (len, list, sorted, choose)
    ),
    *(
        Case("plants.write_sorted", shape, value_of(shape), write_sorted, **limits(shape))
        for shape in ("many_keys", "keys_in_bad_order", "shallow_nests")
    ),
]
