"""Making texts visible: what a reader could miss, or what controls a terminal, is replaced by an escape.

Which characters those are follows from their Unicode properties, as Python's `unicodedata` has them: control, format,
private, unassigned and surrogate characters (format characters are those that change direction or join), separators,
and combining marks without a letter to stand on. Two sets that `unicodedata` lacks are in `_NO_GLYPH`.
"""

import unicodedata
from functools import lru_cache
from typing import Literal

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Mc", "Me"})
_NO_GLYPH = frozenset(
    chr(code)
    for first, last in (
        # Default_Ignorable_Code_Point, of DerivedCoreProperties.txt of the Unicode Character Database, as far as the
        # general category does not say so already.
        (0x034F, 0x034F),  # combining grapheme joiner
        (0x115F, 0x1160),  # Hangul fillers
        (0x17B4, 0x17B5),  # Khmer inherent vowels
        (0x180B, 0x180F),  # Mongolian variation selectors
        (0x3164, 0x3164),  # Hangul filler
        (0xFE00, 0xFE0F),  # variation selectors
        (0xFFA0, 0xFFA0),  # halfwidth Hangul filler
        (0xE0100, 0xE01EF),  # variation selectors
        # Characters with an empty glyph in the code charts of the Unicode Standard.
        (0x2800, 0x2800),  # blank Braille pattern
        (0x16FE4, 0x16FE4),  # Khitan filler
        (0x1D159, 0x1D159),  # null notehead
    )
    for code in range(first, last + 1)
)
JOINERS = "\u200c\u200d\ufe0e\ufe0f"
"""Characters that choose the form of the letters or the emoji beside them; a text is read in the same way without."""

_STRIKING = 1  # the combining class of marks that are drawn through a letter

_MOST_MARKS = 4  # the most marks on one letter that are shown; more of them would cover the lines around


@lru_cache(4096)
def _kind(character: str) -> Literal["shown", "space", "mark", "hidden"]:
    if " " <= character <= "~":
        return "shown"
    category = unicodedata.category(character)
    if category in _HIDDEN or character in _NO_GLYPH:
        return "hidden"
    return "space" if category == "Zs" else "mark" if category in _MARKS else "shown"


def is_hidden(character: str) -> bool:
    """Return whether a reader could miss a character wherever it stands, or whether it controls what is around it."""
    return _kind(character) == "hidden"


def visible(text: str) -> str:
    """Return a text for a terminal: hidden characters as ``\\uXXXX``, unusual spaces as spaces."""
    # Joiners and the selectors of emoji are left out.
    if text.isascii() and text.isprintable():
        return text
    return _shown(text.replace("\r\n", "\n").replace("\u2028", "\n").replace("\u2029", "\n"), "\n\t", JOINERS)


def visible_line(text: str) -> str:
    """Return a text for one line or field of a terminal: as `visible`, with all that is hidden or breaks it escaped."""
    return text if text.isascii() and text.isprintable() else _shown(text, "", "")


def _shown(text: str, allowed: str, dropped: str) -> str:
    marked = _Marks()
    pieces: list[str] = []
    for each in text:
        if each in dropped and marked.base:
            continue
        if marked.fit(each) or each in allowed:
            pieces.append(each)
        else:
            pieces.append(" " if _kind(each) == "space" else _escape(each))
    return "".join(pieces)


def escaped_json(text: str, *, strict: bool = False) -> str:
    """Return a JSON document with hidden characters, unusual spaces and loose marks as ``\\uXXXX``."""
    # `strict` is for what a person approves: it escapes marks that strike through or enclose a letter, and characters
    # that Unicode defines to be the same as others (the Kelvin sign), too.
    if text.isascii() and "\x7f" not in text:
        return text
    marked = _Marks(strict=strict)
    pieces: list[str] = []
    begun = skip = 0  # an escape is copied, and nothing can stand on it
    for place, each in enumerate(text):
        if place < skip:
            continue
        if each == "\\":
            skip = place + (6 if text[place + 1 : place + 2] == "u" else 2)
            marked.base = ""
        elif each in "\t\n\r":  # between the values of a document
            marked.base = ""
        elif not marked.fit(each):
            pieces += (text[begun:place], _escape(each))
            begun = place + 1
    return "".join((*pieces, text[begun:]))


class _Marks:
    def __init__(self, *, strict: bool = False) -> None:
        self.base = ""
        self._marks = ""
        self._strict = strict

    def fit(self, character: str) -> bool:
        kind = _kind(character)
        if self._strict and character > "~" and not self._is_usual(character):
            kind = "hidden"
        if kind == "mark" and self.base and len(self._marks) < _MOST_MARKS and _belongs(character, self.base):
            self._marks += character
            return True
        self._marks = ""
        self.base = character if kind == "shown" else ""
        return kind == "shown"

    def _is_usual(self, character: str) -> bool:
        """Return whether a letter is spelled as usual (in NFC), and neither enclosed nor struck through."""
        if unicodedata.category(character) == "Me" or unicodedata.combining(character) == _STRIKING:
            return False
        spelled = self.base + self._marks + character
        return unicodedata.is_normalized("NFC", spelled)


@lru_cache(4096)
def _belongs(mark: str, base: str) -> bool:
    if unicodedata.category(base)[0] not in "LN":
        return False
    script = unicodedata.name(mark, "").partition(" ")[0]
    return script == "COMBINING" or script == unicodedata.name(base, "").partition(" ")[0]


def _escape(character: str) -> str:
    code = ord(character)
    if code > 0xFFFF:  # as JSON has it, in two halves
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"
