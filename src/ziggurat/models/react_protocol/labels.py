"""Find the protocol's labels at the beginning of lines, in text that is still streaming.

Small models often decorate them: ``**Thought:**``, ``### Action:`` and ``Thought 1:`` are recognised too.
"""

from typing import Literal

Label = Literal["thought", "action", "input", "answer", "observation"]

COLONS = ":\uff1a"
_SPACE = " \t\ufeff"
_BEFORE_COLON = " \t*0123456789"

_WORDS: dict[str, Label] = {
    "thought": "thought",
    "action input": "input",
    "action": "action",
    "observation": "observation",
    "final answer": "answer",
}
_ANSWER = "final_answer"
ANSWER_LENGTH = len(_ANSWER)

LONGEST_DRESS = 64
"""The most characters of one kind (spaces, emphasis marks, digits) around a label; a line with more has no label."""


def answer_at(text: str, at: int, final: bool, *, spaced: bool = False) -> bool | None:
    """Return whether ``FINAL_ANSWER`` is at a position in the text; None while more text is needed to know."""
    # Case is ignored, and with `spaced` a space may replace the underscore; it must not be part of a longer word.
    seen = text[at : at + ANSWER_LENGTH].lower()
    if spaced:
        seen = seen.replace(" ", "_")
    if len(seen) < ANSWER_LENGTH:
        return None if _ANSWER.startswith(seen) and not final else False
    if seen != _ANSWER:
        return False
    after = text[at + ANSWER_LENGTH : at + ANSWER_LENGTH + 1]
    if not after:
        return True if final else None
    return not (after.isalpha() or after == "_")


def label_at(text: str, at: int, final: bool) -> tuple[Label | None, int] | None:
    """Return the label of the line that begins at a position in the text."""
    end = len(text)
    for dress in (_SPACE, "#", _SPACE, "*"):
        at = _after(dress, text, at)
    if at == end:
        return (None, at) if final else None
    answer = answer_at(text, at, final)
    if answer:
        return "answer", at + ANSWER_LENGTH
    open_end = answer is None
    for word, label in _WORDS.items():
        seen = text[at : at + len(word)].lower()
        if seen == word:
            after = _after(_BEFORE_COLON, text, at + len(word))
            if after == end:
                open_end = True
            elif text[after] in COLONS:
                return label, after + 1
        elif len(seen) < len(word) and word.startswith(seen):
            open_end = True
    return (None, at) if final or not open_end else None


def open_marks(written: str) -> int:
    """Return how many emphasis marks a label opens but does not close, as in ``**Thought: ** so``."""
    bare = written.strip(_SPACE + "#" + COLONS)
    opened = len(bare) - len(bare.lstrip("*"))
    return max(0, opened - (len(bare) - len(bare.rstrip("*"))))


def _after(signs: str, text: str, at: int) -> int:
    """Return the position after these characters, of which there are at most `LONGEST_DRESS`."""
    end = min(len(text), at + LONGEST_DRESS)
    while at < end and text[at] in signs:
        at += 1
    return at
