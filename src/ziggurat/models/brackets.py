"""Brackets: find the end of a JSON object or array that arrives in pieces, reading each piece once."""

import re

_SIGNS = re.compile(r'["\\{}\[\]]')


class Brackets:
    """Finds the end of a JSON value in text that is still streaming."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._skip = -1  # position of an escaped character; 0 if it is the first of the next piece

    def end_in(self, text: str, start: int = 0) -> int | None:
        skip = start if self._skip == 0 else -1
        self._skip = -1
        for match in _SIGNS.finditer(text, start):
            at, sign = match.start(), match.group()
            if at == skip:
                continue
            if self._quoted:
                if sign == "\\":
                    skip = at + 1
                elif sign == '"':
                    self._quoted = False
            elif sign == '"':
                self._quoted = True
            elif sign in "{[":
                self._depth += 1
            elif sign in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return at + 1
        if skip == len(text):
            self._skip = 0
        return None
