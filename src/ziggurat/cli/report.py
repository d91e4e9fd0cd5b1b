"""Report lines, each with a mark for good, missing or neutral."""

__all__ = ["Report"]

import sys

from ziggurat.core.errors import MissingExtra
from ziggurat.observe.screen import Screen


class Report:
    """Writes findings to standard output, in colours where it is a terminal; plain where the extra ``cli`` lacks."""

    def __init__(self) -> None:
        try:
            self._screen: Screen | None = Screen(sys.stdout)
        except MissingExtra:
            self._screen = None

    def _line(self, *pieces: tuple[str, str], indent: int = 0) -> None:
        if self._screen is not None:
            self._screen.line(*pieces, indent=indent)
        else:
            sys.stdout.write(" " * indent + "".join(text for text, _ in pieces) + "\n")

    def title(self, text: str) -> None:
        """Begin a section."""
        self._line((text, "bold"))

    def fine(self, text: str) -> None:
        """Tell what is as it should be."""
        self._line(("✓ ", "green"), (text, ""), indent=2)

    def missing(self, text: str, cure: str = "") -> None:
        """Tell what is not, and what fixes it."""
        self._line(("✗ ", "red"), (text, ""), (f"  {cure}" if cure else "", "bold"), indent=2)

    def plain(self, text: str) -> None:
        """Tell what is neither good nor bad."""
        self._line(("· ", "dim"), (text, ""), indent=2)
