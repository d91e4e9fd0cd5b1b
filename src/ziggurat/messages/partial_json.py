"""A parser for incomplete JSON, such as tool arguments while they are streamed."""

__all__ = ["partial"]

import re
from typing import Any, NoReturn

from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.limits import MAX_DEPTH

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_NUMBER_BEGUN = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:(?<=[0-9])(?:\.|[eE][-+]?))?)?\Z")
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}


class _Ended(Exception):
    """The text ends within a value that cannot be shown partially."""


def partial(text: str) -> object:
    """Parse the beginning of a JSON text, to show arguments and output while they are streamed.

    An incomplete text is closed at its end: an unfinished string is kept up to there; an unfinished key, word or
    number is left out. Text after a complete value is ignored. Use the value only for display, never to act on it:
    a number may still grow (``12`` of ``123``). The time is proportional to the length of the text.

    Args:
        text: The pieces so far, joined, such as the `arguments` of the deltas of one tool call.

    Returns:
        The value; None if nothing can be shown yet.

    Raises:
        InvalidArguments: the text is not the beginning of JSON, or nests deeper than `limits.MAX_DEPTH`.

    >>> partial('{"city": "Par')
    {'city': 'Par'}
    """
    return _Reader(text).whole()


class _Reader:
    """A parser that reads one text once, from left to right."""

    __slots__ = ("at", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def whole(self) -> object:
        """Return the value of the text; open arrays and objects are kept in a list, without recursion."""
        try:
            root = self._value()
        except _Ended:
            return None
        if not isinstance(root, (list, dict)):
            return root
        within: list[Any] = [root]
        try:
            while within:
                more = self._item(within[-1])
                if more is False:
                    break
                if more is None:
                    within.pop()
                elif more is not True:
                    within.append(more)
                    if len(within) > MAX_DEPTH + 1:
                        self._fail(f"it nests deeper than {MAX_DEPTH}")
        except _Ended:
            pass
        return root

    def _item(self, holder: Any) -> Any:
        """Read the next item of an array or object, and return how to continue.

        The item itself if it is a new array or object, True after any other item, None at the end of `holder`, False
        if no comma follows where one must.
        """
        closing = "]" if isinstance(holder, list) else "}"
        first = self.at > 0 and self.text[self.at - 1] in "[{" and not holder
        following = self._next()
        if following == closing:
            self.at += 1
            return None
        if not first:
            if following != ",":
                return False
            self.at += 1
            if self._next() == closing:
                self._fail("a comma is followed by nothing")
        if isinstance(holder, list):
            value = self._value()
            holder.append(value)
        else:
            key = self._key()
            value = self._value()
            holder[key] = value
        return value if isinstance(value, (list, dict)) else True

    def _key(self) -> str:
        if self._next() != '"':
            self._fail("a key must be a string")
        key = self._string(whole=True)
        if self._next() != ":":
            self._fail("a key must be followed by a colon")
        self.at += 1
        return key

    def _next(self) -> str:
        """Return the next character that is not whitespace.

        Raises:
            _Ended: there is none.
        """
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        if self.at >= len(self.text):
            raise _Ended
        return self.text[self.at]

    def _value(self) -> Any:
        first = self._next()
        if first in "[{":
            self.at += 1
            return [] if first == "[" else {}
        if first == '"':
            return self._string(whole=False)
        for word, value in _WORDS.items():
            if word[0] == first and self._skip_word(word):
                return value
        return self._number()

    def _skip_word(self, word: str) -> bool:
        there = self.text[self.at : self.at + len(word)]
        if there == word:
            self.at += len(word)
            return True
        if there != "-" and word.startswith(there):  # a single minus may also start a number
            raise _Ended
        return False

    def _number(self) -> int | float:
        found = _NUMBER.match(self.text, self.at)
        if _NUMBER_BEGUN.match(self.text, self.at) and (found is None or found.end() < len(self.text)):
            raise _Ended
        if found is None:
            self._fail("a value was expected")
        follower = self.text[found.end() : found.end() + 1]
        whole = not (found[1] or found[2])
        if follower and (
            (follower == "." and whole)
            or (follower in "eE" and not found[2])
            or (follower in "0123456789" and found[0] in ("0", "-0"))
        ):
            self._fail("a number is not written as JSON does")
        self.at = found.end()
        return self._integer(found[0]) if whole else float(found[0])

    def _integer(self, digits: str) -> int:
        try:
            return int(digits)
        except ValueError:
            self._fail("a number is too long")

    def _string(self, *, whole: bool) -> str:
        """Read a string; an incomplete one is returned up to its end, unless `whole` is set."""
        text, pieces = self.text, []
        self.at += 1
        while True:
            plain = _PLAIN.match(text, self.at)
            pieces.append(plain[0])  # type: ignore[index]
            self.at = plain.end()  # type: ignore[union-attr]
            following = text[self.at : self.at + 1]
            if following == '"':
                self.at += 1
                return "".join(pieces)
            try:
                if following != "\\":
                    if following:
                        self._fail("a string holds a control character")
                    raise _Ended
                pieces.append(self._escape())
            except _Ended:
                if whole:
                    raise
                self.at = len(text)
                return "".join(pieces)

    def _escape(self) -> str:
        letter = self.text[self.at + 1 : self.at + 2]
        if letter == "u":
            return self._unicode()
        if not letter:
            raise _Ended
        if letter not in _ESCAPES:
            self._fail("a string holds an unknown escape")
        self.at += 2
        return _ESCAPES[letter]

    def _unicode(self) -> str:
        code = self._hexadecimal(self.at)
        width = 6
        if 0xD800 <= code < 0xDC00:
            begun = self.text[self.at + 6 : self.at + 8]
            if not "\\u".startswith(begun):
                self._fail("half of a character stands alone")
            if len(begun) < 2:
                raise _Ended
            low = self._hexadecimal(self.at + 6)
            if not 0xDC00 <= low < 0xE000:
                self._fail("half of a character stands alone")
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            width = 12
        elif 0xDC00 <= code < 0xE000:
            self._fail("half of a character stands alone")
        self.at += width
        return chr(code)

    def _hexadecimal(self, at: int) -> int:
        digits = self.text[at + 2 : at + 6]
        if len(digits) < 4:
            raise _Ended
        if not re.fullmatch("[0-9a-fA-F]{4}", digits):
            self._fail("a string holds an unknown escape")
        return int(digits, 16)

    def _fail(self, why: str) -> NoReturn:
        raise InvalidArguments(f"not the beginning of JSON: {why}, at character {self.at}")
