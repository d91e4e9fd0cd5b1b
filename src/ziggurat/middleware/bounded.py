"""A check for regular expressions with bounded matching time: short matches with little backtracking."""

import re
from math import prod

from ziggurat.core.errors import ConfigurationError

WINDOW = 512
"""The maximum length of a match, in characters."""

WAYS = 256
"""The maximum number of ways to try a match from one position of a text."""

_ONE = re.compile(r"\\[^1-9AZz]|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_GROUP = re.compile(r"\(\?(?:[ims]*:|>)")
_TIMES = re.compile(r"(\([^()]*\))\{(\d+)\}")
_REPEAT = re.compile(r"(?<!\))\{(?:(?P<least>\d*),)?(?P<most>\d+)\}(?P<kept>\+?)|(?<!\()\?(?P<taken>\+?)")
_REFUSED = re.compile(r"[*+^$]|\{\d*,\}|\)\{(?=\d|,)|\\.|\(\?.?")


def bounded(pattern: str | re.Pattern[str]) -> tuple[str, int]:
    """Return a regular expression as a group for use within another, and its longest match in characters."""
    flags = pattern.flags & (re.I | re.M | re.S | re.X) if isinstance(pattern, re.Pattern) else 0
    text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(text, str):
        raise ConfigurationError(f"a pattern is a regular expression for text, got {type(text).__name__}")
    try:
        compiled = re.compile(text, flags)
    except re.error as error:
        raise ConfigurationError(f"not a regular expression: {text!r}: {error}") from error
    if flags & re.X:
        raise _refusal(text, "it is verbose", "write it without spaces and comments")
    bare = _GROUP.sub("(", _ONE.sub("x", text))  # escapes and sets as one character each
    bare = _TIMES.sub(lambda group: group[1] * min(int(group[2]), WINDOW), bare)
    if odd := _REFUSED.search(once := _REPEAT.sub("", bare)):
        raise _refusal(
            text,
            f"it has {odd[0]!r}",
            "write {1,64} in place of + and *; a group repeats only {n} times; refer to nothing",
        )
    longest, ways = len(re.sub("[()|]", "", once)), prod(1 + part.count("|") for part in once.split("("))
    for repeat in _REPEAT.finditer(bare):
        most = int(repeat["most"] or 1)
        least = int(repeat["least"] or 0) if repeat["least"] is not None or not repeat["most"] else most
        longest += max(most - 1, 0)
        ways *= 1 if repeat["kept"] or repeat["taken"] else most - least + 1
    # At the end of a text only an empty match is left.
    if longest > WINDOW or compiled.match("a", 1) or compiled.match(" ", 1):
        raise _refusal(text, f"it matches nothing, or up to {longest} characters", f"bound it to 1 to {WINDOW}")
    if ways > WAYS:
        raise _refusal(text, f"there are {ways} ways to try it", "make its {m,n} possessive, such as [a-z]{1,40}+")
    letters = "".join(letter for letter, flag in zip("ims", (re.I, re.M, re.S), strict=True) if flags & flag)
    return f"(?{letters}:{text})", longest


def _refusal(text: str, why: str, fix: str) -> ConfigurationError:
    return ConfigurationError(f"the pattern {text!r} is not taken: {why}; {fix}")
