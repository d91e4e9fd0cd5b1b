"""Shapes of hostile text, each a function of a size: what a model, a tool, a person or a provider might send."""

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ziggurat.messages.limits import check_depth


def repeated_keys(size: int) -> str:
    return "{" + "".join(f'"k{number}":1,' for number in range(size // 8)) + f'"k{size // 8 - 1}":1' + "}"


def many_keys(size: int) -> str:
    return json.dumps({f"k{number}": {"a": number} for number in range(size // 16)})


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


def near_names(size: int) -> str:
    return json.dumps({f"cit{number}y": "x" for number in range(size // 16)})


def nested(size: int) -> str:
    return '{"a":[' * (size // 6)


def closed_nest(size: int) -> str:
    return '{"a":' + "[" * (size // 2) + "]" * (size // 2) + "}"


def shallow_nests(size: int) -> str:
    return '{"a":[' + ",".join(["[" * 40 + "]" * 40] * (size // 81)) + "]}"


def long_string(size: int) -> str:
    return '{"city":"' + "a" * size + '"}'


def many_items(size: int) -> str:
    return '{"a":[' + ",".join("1.5" for _ in range(size // 4)) + "]}"


def many_texts(size: int) -> str:
    return '{"a":[' + ",".join('"x y"' for _ in range(size // 6)) + "]}"


def newlines(size: int) -> str:
    return "\n" * size


def blanks(size: int) -> str:
    return " " * size


def lines(size: int) -> str:
    return "- a b\n" * (size // 6)


def escapes(size: int) -> str:
    return '{"city":"' + "\\n\\u00e9\\\\" * (size // 10) + '"}'


def half_escapes(size: int) -> str:
    return '{"city":"' + "\\ud83d" * (size // 6) + '"}'


def backslashes(size: int) -> str:
    return "\\" * size


def unterminated(size: int) -> str:
    return '{"city":"' + "a b " * (size // 4)


def quotes(size: int) -> str:
    return '"' * size


def long_number(size: int) -> str:
    return '{"days":' + "9" * size + "}"


def long_fraction(size: int) -> str:
    return '{"days":0.' + "1" * size + "}"


def many_numbers(size: int) -> str:
    return '{"a":[' + ",".join("-1.5e3" for _ in range(size // 7)) + "]}"


def combining(size: int) -> str:
    return '{"city":"a' + "\u0315\u0300" * (size // 2) + '"}'


def accents(size: int) -> str:
    return "e\u0301\u0323 " * (size // 4)


def invisible(size: int) -> str:
    return '{"city":"' + "\u200b\u202e" * (size // 2) + '"}'


def surrogates(size: int) -> str:
    return '{"city":"' + "\ud83d" * size + '"}'


def controls(size: int) -> str:
    return "\x1b[2J\x00" * (size // 5)


def words(size: int) -> str:
    return " ".join(f"word{number}" for number in range(size // 9))


def one_word(size: int) -> str:
    return "a" * size


def names(size: int) -> str:
    return "Ada Lovelace " * (size // 13)


def dots(size: int) -> str:
    return "a." * (size // 2)


def tags(size: int) -> str:
    return "<p>" + "<script>" * (size // 8)


def brackets(size: int) -> str:
    return "{[" * (size // 2)


def keys(size: int) -> str:
    return "-eyJ12345678 sk-abc" * (size // 19)


def tokens(size: int) -> str:
    return "-eyJ12345678" * (size // 12)


def private_keys(size: int) -> str:
    return "-----BEGIN RSA PRIVATE KEY-----\n" + "ab-cd\n" * (size // 6)


def addresses(size: int) -> str:
    return "a.b@c-d." * (size // 8)


def urls(size: int) -> str:
    return "://a:b" * (size // 6)


def stars(size: int) -> str:
    return "*" * size


def labels(size: int) -> str:
    return "Thought: a\n" * (size // 11)


def actions(size: int) -> str:
    return "Action: " + "x" * size


def action_gap(size: int) -> str:
    return "Action: add " + " " * size


def action_arguments(size: int) -> str:
    return 'Action: add {"a": "' + "\\\\" * (size // 2)


def fences(size: int) -> str:
    return "```json\n" * (size // 8)


def hyphens(size: int) -> str:
    return "-" * size


def dates(size: int) -> str:
    return "on 3 May 2026 at 10:30, " * (size // 24)


def sums(size: int) -> str:
    return "(1+2)*3-" * (size // 8)


Shape = Callable[[int], str]

JSON: Sequence[Shape] = (
    repeated_keys, many_keys, keys_in_bad_order, near_names, equal_hashes, nested, closed_nest, shallow_nests,
    long_string, many_items, many_texts, newlines, escapes, half_escapes, unterminated, quotes, long_number,
    long_fraction, many_numbers, combining, invisible, surrogates,
)  # fmt: skip
"""Texts where JSON is expected."""

DEEP: Sequence[Shape] = (nested, closed_nest)

TEXT: Sequence[Shape] = (
    newlines, blanks, lines, backslashes, quotes, accents, combining, controls, words, one_word, names, dots, tags,
    brackets, keys, tokens, private_keys, addresses, urls, stars, labels, fences, hyphens, dates, sums, long_number,
    unterminated,
)  # fmt: skip
"""Texts where words are expected."""


def pieces(shape: Shape) -> Callable[[int], list[str]]:
    """Return a shape as a stream of single characters."""
    return lambda size: list(shape(size))


def value_of(shape: Shape) -> Callable[[int], Any]:
    """Return a shape of JSON as decoded values, or as the text itself if it cannot be decoded on every Python."""

    def made(size: int) -> Any:
        try:
            check_depth(shape(size))
            return json.loads(shape(size))
        except (ValueError, RecursionError):
            return shape(size)

    return made
