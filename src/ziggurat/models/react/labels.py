"""The words at the beginning of a line that the protocol is made of, found in text that is still coming."""

__all__ = ["ANSWER_LENGTH", "Label", "answer_at", "label_at"]

from typing import Literal

Label = Literal["thought", "action", "answer", "observation"]

_WORDS: dict[str, Label] = {
    "thought": "thought",
    "action": "action",
    "observation": "observation",
    "final answer": "answer",
}
_ANSWER = "final_answer"
ANSWER_LENGTH = len(_ANSWER)


def answer_at(text: str, at: int, final: bool, *, spaced: bool = False) -> bool | None:
    """Tell whether ``FINAL_ANSWER`` stands at a place in the text; None while that cannot be told yet.

    Case does not count, and if `spaced` a space may stand for the underscore; a longer word is another word.
    """
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
    """Read the label of the line that begins at a place in the text.

    Returns:
        The label, if there is one, and where what follows it begins; None while that cannot be told yet.
    """
    end = len(text)
    while at < end and text[at] in " \t":
        at += 1
    if at == end:
        return (None, at) if final else None
    answer = answer_at(text, at, final)
    if answer:
        return "answer", at + ANSWER_LENGTH
    open_end = answer is None
    for word, label in _WORDS.items():
        seen = text[at : at + len(word)].lower()
        if seen == word:
            after = at + len(word)
            while after < end and text[after] in " \t":
                after += 1
            if after < end:
                return (label, after + 1) if text[after] == ":" else (None, after)
            open_end = True
        elif len(seen) < len(word) and word.startswith(seen):
            open_end = True
    return (None, at) if final or not open_end else None
