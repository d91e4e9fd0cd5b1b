"""Wrapping streamed text into indented lines, as it arrives."""

import re
from collections.abc import Callable

from ziggurat.core.visible import visible

_CONTEXT = 16
"""The characters before a piece that decide what marks in it stand on."""

_PIECES = re.compile(r"\n|[^\S\n]+|\S+")


class LineWrapper:
    """Write one text that arrives in pieces, without hidden characters.

    With a line width, a word is held back until it is complete; without, every piece is written at once.

    Args:
        write: Called with text that is ready.
        indent: Columns to indent each line by.
        width: The maximum of columns per line; None for no limit.
        measure: Returns the number of columns of a text.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        indent: int = 0,
        width: int | None = None,
        measure: Callable[[str], int] = len,
    ) -> None:
        self._write = write
        self._indent = indent
        self._width = width
        self._measure = measure
        self._column = 0
        self._space: list[str] = []
        self._word: list[str] = []
        self._begun = False
        self._return = ""
        self._before = ""

    @property
    def begun(self) -> bool:
        """Whether anything but whitespace has arrived."""
        return self._begun

    def push(self, text: str) -> None:
        """Add the next piece. Whitespace before the first word is dropped."""
        for piece in _PIECES.findall(self._visible(text)):
            if piece.isspace():
                if not self._begun:
                    continue
                self._place()
                if piece == "\n":
                    self._newline()
                else:
                    self._space.append(piece)
            else:
                self._begun = True
                self._word.append(piece)
                if self._width is None:
                    self._place()

    def _visible(self, text: str) -> str:
        """Return the next piece without hidden characters; a mark may stand on the end of the piece before."""
        text = self._return + text
        self._return = "\r" if text.endswith("\r") else ""  # a line break may end in the next piece
        text = text.removesuffix("\r")
        before, self._before = self._before, (self._before + text)[-_CONTEXT:]
        return visible(text, after=before)

    def end_line(self) -> None:
        """Write what is held back and end the line, so that other output can follow."""
        self._place()
        self._space.clear()
        if self._column:
            self._newline()

    def _newline(self) -> None:
        self._write("\n")
        self._column = 0
        self._space.clear()

    def _place(self) -> None:
        if not self._word:
            return
        word, space = "".join(self._word), "".join(self._space)
        self._word.clear()
        self._space.clear()
        size = self._measure(space + word)
        if self._width is not None and max(self._column, self._indent) + size > self._width:
            if self._column > 0:
                self._newline()
            space = ""
            size = self._measure(word)
        ahead = " " * self._indent if self._column == 0 else ""
        self._write(ahead + space + word)
        self._column += len(ahead) + size
