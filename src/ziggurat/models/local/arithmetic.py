"""Arithmetic in plain English: ``12 times 7 plus 5`` becomes ``12 * 7 + 5``."""

import ast
import re
from collections.abc import Sequence

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: value for value, word in enumerate(_SMALL)} | {word: 20 + 10 * at for at, word in enumerate(_TENS)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000}
_WORD = "|".join((*_VALUES, *_SCALES))
_AND = r"(?:(?<=hundred)|(?<=thousand)|(?<=million)) and "
_IN_WORDS = re.compile(rf"\b(?:{_WORD})\b(?:(?:{_AND}|[ -])(?:{_WORD})\b)*", re.IGNORECASE)

_SIGNS_OF_WORDS = tuple(
    (re.compile(pattern, re.IGNORECASE), sign)
    for pattern, sign in (
        (r"[$€£](?=\d)", ""),
        (r"(?:%|\bpercent|\bper cent) of\b", "/ 100 *"),
        (r"\bsquared\b", "** 2"),
        (r"\bto the power(?: of)?\b|\^", "**"),
        (r"\b(?:multiplied by|times)\b|[\u00d7·]|(?<=[\d)]) ?x ?(?=[\d(-])", "*"),
        (r"\b(?:divided by|over)\b|÷", "/"),
        (r"\bplus\b", "+"),
        (r"\bminus\b|[\u2212\u2013]", "-"),
    )
)

_LONGEST_EDGE = 5
"""Up to how many signs on each side of an expression may be punctuation."""

_SIGNS = ("+", "-", "*", "/", "%", "(", ")", "**", "//")
_TOKEN = re.compile(r"\d+(?:\.\d+)?|\*\*|//|[-+*/%()]|[A-Za-z]+|\S")


def in_digits(text: str) -> str:
    """Replace numbers written as words by digits (``two hundred and five`` becomes ``205``)."""
    return _IN_WORDS.sub(lambda match: str(_value(match.group().lower())), text)


def _value(words: str) -> int:
    total = part = 0
    for word in re.findall(r"[a-z]+", words):
        if word in _VALUES:
            part += _VALUES[word]
        elif word == "hundred":
            part = (part or 1) * 100
        elif word in _SCALES:
            total += (part or 1) * _SCALES[word]
            part = 0
    return total + part


def expression_in(text: str) -> str | None:
    """Return the arithmetic expression in a text, in Python notation, or None if it would leave out a number."""
    text = in_digits(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
    for pattern, sign in _SIGNS_OF_WORDS:
        text = pattern.sub(sign, text)
    runs: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token[0].isdigit() or token in _SIGNS:
            runs[-1].append(token)
        else:
            runs.append([])
    with_numbers = [run for run in runs if any(token[0].isdigit() for token in run)]
    return _expression(with_numbers[0]) if len(with_numbers) == 1 else None


def _expression(run: Sequence[str]) -> str | None:
    """Return the expression in a run of tokens, without the signs around it that are punctuation."""
    numbers = [place for place, token in enumerate(run) if token[0].isdigit()]
    for start in range(min(numbers[0], _LONGEST_EDGE) + 1):
        for end in range(len(run), max(numbers[-1], len(run) - _LONGEST_EDGE), -1):
            try:
                tree = ast.parse(" ".join(run[start:end]), mode="eval")
                kinds = {type(node) for node in ast.walk(tree)}
                text = ast.unparse(tree)
                if ast.BinOp in kinds and not kinds & {ast.Call, ast.Tuple} and "e" not in text:  # 1e+16
                    return text
            except (SyntaxError, RecursionError, MemoryError):  # no expression, or nested hundreds of levels deep
                continue
    return None
