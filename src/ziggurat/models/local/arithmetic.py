"""Arithmetic in plain English: ``12 times 7 plus 5`` becomes ``12 * 7 + 5``."""

__all__ = ["expression_in", "in_digits"]

import re
from collections.abc import Callable, Sequence

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

_A = r"(\((?:[^()]|\([^()]*\))*\)|-?\d+(?:\.\d+)?)"
"""A number, or a bracketed expression."""

_ROW = rf"{_A}(?:(?:,? and |, ?|,? plus ){_A})+"
"""Two or more numbers in a row."""

_PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "eighth": 8, "tenth": 10}
_ORDINALS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_PART = "|".join(_PARTS)
_SHARE = r" ?(?:%|percent|per cent)"

_FORMS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"[$€£](?=\d)", ""),
    (r"(?<![\d.])\.(?=\d)", "0."),
    (r"\bnumbers? (?=-?\d)", ""),
    (r"\bnegative (?=\d)", "-"),
    (r"\b(?:a|1) dozen\b", "12"),
    (r"(\d+) dozen\b", r"(\1 * 12)"),
    (
        rf"\b(?:the )?(?:remainder|rest) (?:when|if|of|after)(?: dividing)? {_A}(?: is)? (?:divided )?by {_A}",
        r"(\1 % \2)",
    ),
    (rf"\bhow (?:many times|often) (?:does|do|can|will) {_A} (?:go|fit) (?:into|in) {_A}", r"(\2 / \1)"),
    (rf"\b(?:the )?(?:average|mean) of {_ROW}", lambda found: _row(found, "mean")),
    (rf"\b(?:the )?(?:sum|total) of {_ROW}", lambda found: _row(found, "+")),
    (rf"\b(?:the )?product of {_ROW}", lambda found: _row(found, "*")),
    (rf"\b(?:the )?difference (?:between|of) {_A} and {_A}", r"(\1 - \2)"),
    (rf"\b(?:the )?(?:quotient|ratio) of {_A} (?:and|to) {_A}", r"(\1 / \2)"),
    (rf"(?:\b(?:the )?square root of |\bsqrt ?(?:of )?|√ ?){_A}", r"(\1 ** 0.5)"),
    (rf"\b(?:the )?square of {_A}", r"(\1 ** 2)"),
    (rf"\b(?:the )?cube of {_A}", r"(\1 ** 3)"),
    (rf"(\d+)/(\d+) of {_A}", r"(\1 / \2 * \3)"),
    (rf"\b(?:(\d+)|an?|one|the)[ -]({_PART})s? of {_A}", lambda found: _share(found)),
    (rf"\b(?:add|adding) {_A}{_SHARE} to {_A}", r"(\2 + \2 * \1 / 100)"),
    (rf"\b(?:subtract|take|deduct|remove)\w* {_A}{_SHARE} (?:off|from) {_A}", r"(\2 - \2 * \1 / 100)"),
    (rf"{_A}{_SHARE} (?:off|less than) {_A}", r"(\2 - \2 * \1 / 100)"),
    (rf"{_A}{_SHARE} more than {_A}", r"(\2 + \2 * \1 / 100)"),
    (rf"\b(?:increase|raise|grow) {_A} by {_A}{_SHARE}", r"(\1 + \1 * \2 / 100)"),
    (rf"\b(?:decrease|reduce|lower|cut|discount) {_A} by {_A}{_SHARE}", r"(\1 - \1 * \2 / 100)"),
    (rf"{_A} ?(?:plus|\+) ?{_A}{_SHARE}(?! of)", r"(\1 + \1 * \2 / 100)"),
    (rf"{_A} ?(?:minus|-) ?{_A}{_SHARE}(?! of)", r"(\1 - \1 * \2 / 100)"),
    (rf"{_A}{_SHARE} of {_A}", r"(\1 / 100 * \2)"),
    (rf"{_A} squared\b", r"\1 ** 2"),
    (rf"{_A} cubed\b", r"\1 ** 3"),
    (rf"\bhalf (?:of )?{_A}", r"\1 / 2"),
    (rf"\b(?:double|twice) {_A}", r"2 * \1"),
    (rf"\b(?:triple|thrice) {_A}", r"3 * \1"),
    (rf"\bquadruple {_A}", r"4 * \1"),
    (rf"\b(?:subtract|take|remove|deduct|subtracting|taking) {_A} (?:away )?from {_A}", r"\2 - \1"),
    (rf"\b{_A} (?:less than|taken (?:away )?from|subtracted from) {_A}", r"\2 - \1"),
    (rf"\b{_A} more than {_A}", r"\2 + \1"),
    (rf"\b(?:add|adding|sum)(?: up)? (?!\d+ (?:and|then) (?:multiply|divide)){_ROW}", lambda found: _row(found, "+")),
    (rf"\b(?:add|adding) {_A} (?:to|with) {_A}", r"\1 + \2"),
    (rf"\bincrease {_A} by {_A}", r"\1 + \2"),
    (rf"\b(?:decrease|reduce|lower) {_A} by {_A}", r"\1 - \2"),
    (rf"\b(?:multiply|multiplying) {_A} (?:by|with|and) {_A}", r"\1 * \2"),
    (rf"\b(?:divide|dividing|split|splitting) {_A} (?:by|among|between|into) {_A}", r"\1 / \2"),
    (
        rf"\b(?:raised )?to (?:the )?(?:power (?:of )?)?(?:(\d+)(?:st|nd|rd|th)|({'|'.join(_ORDINALS)}))(?: power)?\b",
        lambda found: f"** {found[1] or _ORDINALS.index(found[2].lower()) + 2}",
    ),
    (r"\b(?:to the power of|raised to(?: the power(?: of)?)?|to the power)\b|\^", "**"),
    (r"\b(?:multiplied by|multiplied with|times)\b|[\u00d7·]", "*"),
    (rf"(?<=[\d)]) ?x ?(?={_A})", " * "),
    (r"\b(?:divided by|shared (?:equally )?(?:by|among|between)|split (?:by|among|between)|over)\b|÷", "/"),
    (r"\b(?:plus|added to|and then add|increased by)\b", "+"),
    (r"\b(?:minus|less|take away|decreased by|reduced by|without)\b|[\u2212\u2013]", "-"),
    (r"\b(?:modulo|mod)\b", "%"),
    (r"\bopen(?:ing)? (?:bracket|parenthesis)\b", "("),
    (r"\bclos(?:e|ing) (?:bracket|parenthesis)\b", ")"),
    (r"\[", "("),
    (r"\]", ")"),
)
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), into) for pattern, into in _FORMS)
_STEP = re.compile(
    rf"{_A},?(?: and| then)* (?:(add|subtract)|(multiply|divide) (?:it |that |the result )?by) {_A}", re.IGNORECASE
)
"""One step of a calculation described in steps; steps apply from left to right, whatever the precedence."""

_LONGEST_RUN = 100
"""Up to this many tokens of a run with errors are searched for a valid part, which takes cubic time."""

_THEN = re.compile(
    rf"(?:[,;.]\s*|\s+)(?:and )?(?:(?:then )(?P<verb>add|subtract|multiply|divide)"
    rf"|(?:(?<=, )|then )(?P<sign>plus|minus|times|divided by|multiplied by))"
    rf"(?: (?:it|that|the result))?(?: by)? {_A}",
    re.IGNORECASE,
)
"""An operation on everything before it: ``12 plus 7, times 3``."""

_SIGNS = {
    "add": "+",
    "plus": "+",
    "subtract": "-",
    "minus": "-",
    "multiply": "*",
    "multiplied by": "*",
    "times": "*",
    "divide": "/",
    "divided by": "/",
}
_TOKEN = re.compile(r"\d+(?:\.\d+)?|\*\*|//|[-+*/%()]|[A-Za-z]+|\S")

_CUES: tuple[tuple[str, Callable[[str, str], str]], ...] = (
    (
        r"\b(?:left|remain\w*|take away|gives? away|spen[dt]|ate|eats?|sold|sells?|used|lost|subtract\w*|fewer)\b",
        "{} - {}".format,
    ),
    (r"\d \w+ (?:of|at|with|for) \d|\b(?:each|every|per|apiece|multipl\w+)\b", "{} * {}".format),
    (r"\b(?:equally|among|share|shared|split|divide\w*)\b", "{} / {}".format),
    (
        r"\b(?:altogether|in total|add|adding|sum|combined|together|\d+ more|another \d+|(?:buy|get|find)s? \d+)\b",
        "{} + {}".format,
    ),
)


def in_digits(text: str) -> str:
    """Replace numbers written as words by digits (``two hundred and five`` becomes ``205``)."""
    return _IN_WORDS.sub(lambda found: str(_value(found.group().lower())), text)


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
    """Return the longest arithmetic expression in a text, in Python notation, or None if there is none.

    It understands words for numbers and operators, and two numbers with a significant word between or around them
    ("7 boxes of 12 eggs").
    """
    text = in_digits(re.sub(r"(?<=\d),(?=\d{3}\b)", "", text))
    written = _parse(text)
    return written if written is not None else _guess(text)


def _row(found: re.Match[str], sign: str) -> str:
    """Join the numbers in a row by a sign; ``mean`` divides their sum by their count."""
    numbers = [number.group() for number in re.finditer(_A, found.group())]
    if sign == "mean":
        return f"(({' + '.join(numbers)}) / {len(numbers)})"
    return f"({f' {sign} '.join(numbers)})"


def _share(found: re.Match[str]) -> str:
    return f"({found[1] or 1} / {_PARTS[found[2].lower()]} * {found[3]})"


def _parse(text: str) -> str | None:
    for _ in range(4):
        then = _THEN.search(text)
        before = _parse(text[: then.start()]) if then is not None else None
        if then is None or before is None:
            break
        sign = _SIGNS[(then["verb"] or then["sign"]).lower()]
        text = f"(({before}) {sign} {then[3]}){text[then.end() :]}"
    for _ in range(4):
        before = text
        while (step := _STEP.search(text)) is not None:
            sign = _SIGNS[(step[2] or step[3]).lower()]
            text = f"{text[: step.start()]}({step[1]} {sign} {step[4]}){text[step.end() :]}"
        for pattern, into in _COMPILED:
            text = pattern.sub(into, text)
        if text == before:
            break
    runs: list[list[str]] = [[]]
    for token in _TOKEN.findall(text):
        if token[0].isdigit() or token in ("+", "-", "*", "/", "%", "(", ")", "**", "//"):
            runs[-1].append(token)
        else:
            runs.append([])
    best = max((_sound(run) for run in runs), key=len)
    return _join(best) if best else None


def _sound(run: Sequence[str]) -> Sequence[str]:
    """Return the longest part of a run of tokens that is a complete expression with an operator."""
    if _is_expression(run):
        return run
    run = run[:_LONGEST_RUN]
    for length in range(len(run), 2, -1):
        for start in range(len(run) - length + 1):
            part = run[start : start + length]
            if _is_expression(part):
                return part
    return ()


def _is_expression(tokens: Sequence[str]) -> bool:
    depth = operators = 0
    wants_number = True
    for mark in tokens:
        if wants_number:
            if mark == "(":
                depth += 1
            elif mark[0].isdigit():
                wants_number = False
            elif mark != "-":
                return False
        elif mark == ")":
            depth -= 1
            if depth < 0:
                return False
        elif mark == "(" or mark[0].isdigit():
            return False
        else:
            operators += 1
            wants_number = True
    return not wants_number and depth == 0 and operators > 0


def _join(tokens: Sequence[str]) -> str:
    out = ""
    before = "("
    for mark in tokens:
        sign = mark == "-" and before in ("+", "-", "*", "/", "%", "(", "**", "//")
        binary = mark in ("+", "-", "*", "/", "%", "**", "//") and not sign
        out += f" {mark} " if binary else mark
        before = "(" if sign else mark
    return _without_frame(out)


def _without_frame(expression: str) -> str:
    while expression.startswith("(") and expression.endswith(")"):
        depth = 0
        for at, char in enumerate(expression):
            depth += (char == "(") - (char == ")")
            if depth == 0 and at < len(expression) - 1:
                return expression
        expression = expression[1:-1]
    return expression


def _guess(text: str) -> str | None:
    numbers = re.findall(r"\d+(?:\.\d+)?", text)
    if len(numbers) != 2:
        return None
    for pattern, write in _CUES:
        if re.search(pattern, text, re.IGNORECASE):
            first, second = numbers
            if re.search(r"\bfrom \d", text):
                first, second = second, first
            return write(first, second)
    return None
