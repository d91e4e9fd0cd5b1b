"""A check for regular expressions with bounded matching time: short matches with little backtracking."""

import re

# Python has no public parser of regular expressions; to write one would take more than this file.
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from ziggurat.core.errors import ConfigurationError

WINDOW = 512
"""The maximum length of a match, in characters."""

WAYS = 256
"""The maximum number of ways to try a match from one position of a text."""


def bounded(pattern: str | re.Pattern[str]) -> tuple[str, int]:
    """Return a regular expression as a group for use within another, and its longest match in characters.

    Raises:
        ConfigurationError: it is not valid, or could take long on some text; the message says how to fix it.
    """
    flags = pattern.flags & (re.I | re.M | re.S | re.X) if isinstance(pattern, re.Pattern) else 0
    text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
    if not isinstance(text, str):
        raise ConfigurationError(f"a pattern is a regular expression for text, got {type(text).__name__}")
    try:
        tree = _parser.parse(text, flags)
    except re.error as error:
        raise ConfigurationError(f"not a regular expression: {text!r}: {error}") from error
    if tree.state.groupdict:
        raise _refusal(text, "it has named groups", "write (...) or (?:...) for each")
    ways = _ways(tree, text)
    shortest, longest = tree.getwidth()
    if not shortest >= 1 or longest > WINDOW:
        raise _refusal(text, f"it matches {shortest} to {longest} characters", f"bound it to 1 to {WINDOW}")
    if ways > WAYS:
        raise _refusal(
            text, "it can be tried in too many ways", "narrow its {m,n}, or make them possessive, such as [a-z]{1,40}+"
        )
    letters = "".join(letter for letter, flag in zip("imsx", (re.I, re.M, re.S, re.X), strict=True) if flags & flag)
    return (f"(?{letters}:{text})" if letters else f"(?:{text})"), int(longest)


def _ways(tree: Any, text: str) -> int:
    """Return an upper bound of the number of ways to match a sequence at one position."""
    ways = 1
    for code, argument in tree:
        ways = min(ways * _ways_of(code, argument, text), WAYS + 1)
    return ways


def _ways_of(code: Any, argument: Any, text: str) -> int:
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, inner = argument
        if most == codes.MAXREPEAT:
            raise _refusal(text, "it repeats without a bound", "write {1,64} in place of + and {0,64} in place of *")
        once = _ways(inner, text)
        if code is codes.POSSESSIVE_REPEAT:
            return 1 if once <= WAYS else once
        if once == 1:
            return int(most) - int(least) + 1
        return int(min(sum(min(once**times, WAYS + 1) for times in range(least, min(most, 64) + 1)), WAYS + 1))
    if code is codes.BRANCH:
        return sum(_ways(each, text) for each in argument[1])
    if code is codes.SUBPATTERN:
        return _ways(argument[3], text)
    if code is codes.ATOMIC_GROUP:
        inside = _ways(argument, text)
        return 1 if inside <= WAYS else inside
    if code in (codes.GROUPREF, codes.GROUPREF_EXISTS, codes.ASSERT, codes.ASSERT_NOT):
        raise _refusal(text, "it looks around or back", "match what you look for itself")
    if code is codes.AT and argument not in (codes.AT_BOUNDARY, codes.AT_NON_BOUNDARY):
        raise _refusal(text, "it is bound to an end of the text", r"leave ^ and $ out, or use \b")
    return 1


def _refusal(text: str, why: str, fix: str) -> ConfigurationError:
    return ConfigurationError(f"the pattern {text!r} is not taken: {why}; {fix}")
