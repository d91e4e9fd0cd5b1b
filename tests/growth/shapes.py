"""Shapes of hostile text, each a function of a size: what a model, a tool, a person or a provider might send."""

import json
import sys
from collections.abc import Callable
from typing import Any

from ziggurat.core.codec import check_depth

Shape = Callable[[int], str]


def keys_in_bad_order(size: int) -> str:
    """Keys in an order for which a quicksort by the median of the first, the middle and the last takes the square."""
    number = size // 11
    order: dict[int, int] = {}
    for k in range(number // 4):
        order |= {2 * k: 2 * k, (number - 1) // 2 + k: 2 * k + 1}
    others = iter(range(2 * (number // 4), number))
    return json.dumps({f"{order[at] if at in order else next(others):06}": 1 for at in range(number)})


def equal_hashes(size: int) -> str:
    """Whole numbers that all have the same hash."""
    modulus = sys.hash_info.modulus
    return '{"days":[' + ",".join(str(number * modulus) for number in range(1, size // 24)) + "]}"


SHAPES: dict[str, Shape] = {
    "keys_in_bad_order": keys_in_bad_order,
    "equal_hashes": equal_hashes,
    "repeated_keys": lambda size: (
        "{" + "".join(f'"k{number}":1,' for number in range(size // 8)) + f'"k{size // 8 - 1}":1' + "}"
    ),
    "many_keys": lambda size: json.dumps({f"k{number}": {"a": number} for number in range(size // 16)}),
    "near_names": lambda size: json.dumps({f"cit{number}y": "x" for number in range(size // 16)}),
    "nested": lambda size: '{"a":[' * (size // 6),
    "closed_nest": lambda size: '{"a":' + "[" * (size // 2) + "]" * (size // 2) + "}",
    "shallow_nests": lambda size: '{"a":[' + ",".join(["[" * 40 + "]" * 40] * (size // 81)) + "]}",
    "long_string": lambda size: '{"city":"' + "a" * size + '"}',
    "many_items": lambda size: '{"a":[' + ",".join("1.5" for _ in range(size // 4)) + "]}",
    "many_texts": lambda size: '{"a":[' + ",".join('"x y"' for _ in range(size // 6)) + "]}",
    "newlines": lambda size: "\n" * size,
    "blanks": lambda size: " " * size,
    "lines": lambda size: "- a b\n" * (size // 6),
    "escapes": lambda size: '{"city":"' + "\\n\\u00e9\\\\" * (size // 10) + '"}',
    "half_escapes": lambda size: '{"city":"' + "\\ud83d" * (size // 6) + '"}',
    "backslashes": lambda size: "\\" * size,
    "unterminated": lambda size: '{"city":"' + "a b " * (size // 4),
    "quotes": lambda size: '"' * size,
    "long_number": lambda size: '{"days":' + "9" * size + "}",
    "long_fraction": lambda size: '{"days":0.' + "1" * size + "}",
    "many_numbers": lambda size: '{"a":[' + ",".join("-1.5e3" for _ in range(size // 7)) + "]}",
    "combining": lambda size: '{"city":"a' + "\u0315\u0300" * (size // 2) + '"}',
    "accents": lambda size: "e\u0301\u0323 " * (size // 4),
    "invisible": lambda size: '{"city":"' + "\u200b\u202e" * (size // 2) + '"}',
    "surrogates": lambda size: '{"city":"' + "\ud83d" * size + '"}',
    "controls": lambda size: "\x1b[2J\x00" * (size // 5),
    "words": lambda size: " ".join(f"word{number}" for number in range(size // 9)),
    "one_word": lambda size: "a" * size,
    "names": lambda size: "Ada Lovelace " * (size // 13),
    "dots": lambda size: "a." * (size // 2),
    "tags": lambda size: "<p>" + "<script>" * (size // 8),
    "brackets": lambda size: "{[" * (size // 2),
    "keys": lambda size: "-eyJ12345678 sk-abc" * (size // 19),
    "tokens": lambda size: "-eyJ12345678" * (size // 12),
    "private_keys": lambda size: "-----BEGIN RSA PRIVATE KEY-----\n" + "ab-cd\n" * (size // 6),
    "addresses": lambda size: "a.b@c-d." * (size // 8),
    "urls": lambda size: "://a:b" * (size // 6),
    "stars": lambda size: "*" * size,
    "labels": lambda size: "Thought: a\n" * (size // 11),
    "actions": lambda size: "Action: " + "x" * size,
    "action_gap": lambda size: "Action: add " + " " * size,
    "action_arguments": lambda size: 'Action: add {"a": "' + "\\\\" * (size // 2),
    "fences": lambda size: "```json\n" * (size // 8),
    "hyphens": lambda size: "-" * size,
    "dates": lambda size: "on 3 May 2026 at 10:30, " * (size // 24),
    "sums": lambda size: "(1+2)*3-" * (size // 8),
}

JSON = [
    "repeated_keys", "many_keys", "keys_in_bad_order", "near_names", "equal_hashes", "nested", "closed_nest",
    "shallow_nests", "long_string", "many_items", "many_texts", "newlines", "escapes", "half_escapes", "unterminated",
    "quotes", "long_number", "long_fraction", "many_numbers", "combining", "invisible", "surrogates",
]  # fmt: skip
"""Texts where JSON is expected."""

DEEP = ["nested", "closed_nest"]

_IN_CACHE = {
    **dict.fromkeys(["repeated_keys", "many_keys", "keys_in_bad_order", "near_names", "many_texts"], 17_000),
    "shallow_nests": 4_000,
}
"""Sizes of values that consist of small objects, with enough keys to be sorted in the way for many.

No longer held by the caches, four times as many objects take up to eight times as long to sort or to visit, by a
function that is linear: up to 16 million characters, that is not to be told from n to the power of 1.3.
"""


def limits(shape: str) -> dict[str, int]:
    """Return the sizes at which a function that sorts or visits values is measured, for a case of this shape."""
    least = _IN_CACHE.get(shape)
    return {"least": 64_000, "most": 1_000_000} if least is None else {"least": least, "most": 4 * least, "span": 4}


TEXT = [
    "newlines", "blanks", "lines", "backslashes", "quotes", "accents", "combining", "controls", "words", "one_word",
    "names", "dots", "tags", "brackets", "keys", "tokens", "private_keys", "addresses", "urls", "stars", "labels",
    "fences", "hyphens", "dates", "sums", "long_number", "unterminated",
]  # fmt: skip
"""Texts where words are expected."""


def pieces(shape: str) -> Callable[[int], list[str]]:
    """Return a shape as a stream of single characters."""
    return lambda size: list(SHAPES[shape](size))


def value_of(shape: str) -> Callable[[int], Any]:
    """Return a shape of JSON as decoded values, or as the text itself if it cannot be decoded on every Python."""

    def made(size: int) -> Any:
        text = SHAPES[shape](size)
        try:
            check_depth(text)
            return json.loads(text)
        except (ValueError, RecursionError):
            return text

    return made
