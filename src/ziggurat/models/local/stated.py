"""Which optional arguments of a call the conversation states: small models add ones that nobody asked for."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ziggurat.messages.model import ToolSpec
from ziggurat.models.local.schema import Field, fields_of, words_of
from ziggurat.models.local.spans import in_digits, rarity

_STEM = 4
"""Two words are the same if one begins with the other, and the shorter one has so many letters: edit, edited."""
_LONGEST = 24
"""How many letters of a word are compared."""
_RARE = 0.6
"""How rare a word in the description of a parameter must be to show that a request is about it."""
_SHARE = 0.5
"""The share of the words of a text that the conversation must contain."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


class Statements:
    """What a conversation states."""

    def __init__(self, text: str) -> None:
        text = in_digits(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
        self._words = set(_words(text))
        self._beginnings = {each for word in self._words for each in _beginnings(word)}
        self._numbers = Counter(float(digits) for digits in _NUMBER.findall(text))

    def only(self, arguments: Mapping[str, Any], tool: ToolSpec) -> dict[str, Any]:
        """Return the arguments of a call without optional ones that the conversation does not state."""
        fields = {field.name: field for field in fields_of(tool.parameters)}
        required = {name: value for name, value in arguments.items() if name not in fields or fields[name].required}
        numbers = self._numbers - Counter(leaf for leaf in _leaves(required) if _is_number(leaf))
        texts = {str(leaf).casefold() for leaf in _leaves(required)}
        purpose = set(_words(f"{words_of(tool.name)} {tool.description}"))
        stated = set(required)
        for name in (name for name in arguments if name not in required):
            leaves = list(_leaves(arguments[name]))
            if any(self._has(leaf, numbers, texts) for leaf in leaves) or self._mentions(fields[name], purpose, leaves):
                stated.add(name)
                numbers -= Counter(leaf for leaf in leaves if _is_number(leaf))
        return {name: value for name, value in arguments.items() if name in stated}

    def _has(self, value: Any, numbers: Mapping[float, int], texts: set[str]) -> bool:
        """Return whether a number or text occurs, and is not a copy of another argument."""
        if _is_number(value):
            return numbers.get(value, 0) > 0 or numbers.get(value * 100, 0) > 0  # a half may be stated as 50 percent
        words = _words(in_digits(value)) if isinstance(value, str) and value.casefold() not in texts else []
        return bool(words) and sum(map(self._contains, words)) >= _SHARE * len(words)

    def _mentions(self, field: Field, purpose: set[str], leaves: list[Any]) -> bool:
        """Return whether a word of a parameter occurs that does not describe the tool as a whole."""
        if not leaves:
            return False
        described = bool(field.choices) or leaves[0] is True
        words = set(_words(field.label if described else words_of(field.name))) - purpose
        return any(rarity(word) >= _RARE and self._contains(word) for word in words)

    def _contains(self, word: str) -> bool:
        return word in self._words or word in self._beginnings or any(each in self._words for each in _beginnings(word))


def _beginnings(word: str) -> Iterator[str]:
    return (word[:end] for end in range(_STEM, len(word)))


def _words(text: str) -> list[str]:
    words = (word[:_LONGEST] for word in re.findall(r"\w+", words_of(text)))
    return [str(int(word)) if word.isdecimal() else word for word in words]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the parts of a value that contain no others; None and empty texts are not stated."""
    if isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _leaves(part)
    elif value is not None and value != "":
        yield value
