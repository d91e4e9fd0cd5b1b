"""Patterns of typed values that can hang: `re` tries all ways to repeat a group, which double with each character."""

import re

_ATOM = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[^()|])([*+?]|\{\d*,?\d*\})?", re.DOTALL)
_TOKEN = re.compile(rf"(?P<open>\((?:\?(?:P<\w+>|[a-zA-Z-]*:|[=!>]|<[=!]))?)|\)|\||{_ATOM.pattern}", re.DOTALL)
_AGAIN = re.compile(r"[*+]|\{\d*,\}|\{\d*,?(?!1?\})\d*\}")


def can_hang(pattern: str) -> bool:
    """Return whether a group of a pattern is repeated that could be matched in several ways.

    A group may repeat if it always matches the same, if its choices begin differently, or if it begins or ends with a
    character that is nowhere else in it.

    >>> can_hang(r"^(\\w+\\s?)+$"), can_hang(r"^[a-z]+(-[a-z]+)*$")
    (True, False)
    """
    opened: list[int] = []
    for token in _TOKEN.finditer(pattern):
        if token["open"]:
            opened.append(token.end())
        elif token[0] == ")" and opened:
            body = pattern[opened.pop() : token.start()]
            if _AGAIN.match(pattern, token.end()) and not _is_certain(body):
                return True
    return False


def _is_certain(body: str) -> bool:
    if re.fullmatch(r"[\w-]+(\|[\w-]+)*", body):
        starts = [choice[0] for choice in body.split("|")]
        return len(starts) == len(set(starts))
    if re.search(r"(?<!\\)[(|]", body):
        return False
    atoms = _ATOM.findall(body)
    if all(times.strip("{}").isdigit() for _, times in atoms if times):
        return True
    return any(_marks(edge, rest) for edge, *rest in (atoms, atoms[::-1]))


def _marks(edge: tuple[str, str], rest: list[tuple[str, str]]) -> bool:
    """Return whether an atom is one character that no other can match."""
    letter = edge[0][-1]
    once = not edge[1] and (edge[0] == letter != "." or (edge[0][0] == "\\" and not letter.isalnum()))
    return once and not any(re.fullmatch(atom, letter, re.DOTALL) for atom, _ in rest if atom not in ("^", "$"))
