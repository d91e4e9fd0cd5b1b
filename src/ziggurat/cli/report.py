"""Report lines, each with a mark for good, missing or neutral."""

import sys

from ziggurat.cli.terminal import write
from ziggurat.core.errors import MissingExtra
from ziggurat.observe.screen import Screen


class Report:
    """Write findings to standard output, with colours on a terminal; without them if the extra ``cli`` is missing."""

    def __init__(self) -> None:
        try:
            self._screen: Screen | None = Screen(sys.stdout)
        except MissingExtra:
            self._screen = None

    def _line(self, *pieces: tuple[str, str], indent: int = 0) -> None:
        if self._screen is not None:
            self._screen.line(*pieces, indent=indent)
        else:
            write(" " * indent + "".join(text for text, _ in pieces))

    def title(self, text: str) -> None:
        """Start a section."""
        self._line((text, "bold"))

    def fine(self, text: str) -> None:
        """Report something that is in order."""
        self._line(("✓ ", "green"), (text, ""), indent=2)

    def missing(self, text: str, cure: str = "") -> None:
        """Report a problem, and what fixes it."""
        self._line(("✗ ", "red"), (text, ""), (f"  {cure}" if cure else "", "bold"), indent=2)

    def plain(self, text: str) -> None:
        """Report something neutral."""
        self._line(("· ", "dim"), (text, ""), indent=2)
