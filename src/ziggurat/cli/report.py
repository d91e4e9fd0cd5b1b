"""Lines with a mark each, for what a command finds out."""

__all__ = ["Report"]

import sys

from ziggurat.observe.screen import Screen


class Report:
    """Writes findings to standard output, in colours where it is a terminal."""

    def __init__(self) -> None:
        self._screen = Screen(sys.stdout)

    def title(self, text: str) -> None:
        """Begin a section."""
        self._screen.line((text, "bold"))

    def fine(self, text: str) -> None:
        """Tell what is as it should be."""
        self._screen.line(("✓ ", "green"), (text, ""), indent=2)

    def missing(self, text: str, cure: str = "") -> None:
        """Tell what is not, and what mends it."""
        self._screen.line(("✗ ", "red"), (text, ""), (f"  {cure}" if cure else "", "bold"), indent=2)

    def plain(self, text: str) -> None:
        """Tell what is neither good nor bad."""
        self._screen.line(("· ", "dim"), (text, ""), indent=2)
