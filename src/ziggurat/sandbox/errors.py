"""The error that a call of the host raises within a program."""

from typing import Literal

ProgramErrorKind = Literal["PermissionError", "RuntimeError", "TimeoutError", "TypeError", "ValueError"]


class ProgramError(Exception):
    """Raised by a call that a program makes, to be raised in the program, where it can be caught.

    Args:
        kind: The exception that the program gets.
        text: Its text; the program can read all of it.
    """

    def __init__(self, kind: ProgramErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind: ProgramErrorKind = kind
        self.text: str = text
