"""Output to a terminal or a plain text file: lines, streamed text, and a spinner."""

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from ziggurat.core.errors import MissingExtra
from ziggurat.core.visible import visible
from ziggurat.observe.line_wrapper import LineWrapper

if TYPE_CHECKING:
    from rich.live import Live

_PLAIN = str.maketrans({"●": "*", "→": "->", "✓": "+", "✗": "x", "■": "!", "↻": "~", "·": "|", "…": "~", "‖": "?"})
_FRAMES_PER_SECOND = 10
_NOTEBOOK_WIDTH = 100


class Screen:
    """Write to a file; on a terminal with colours, wrapping and a spinner, in a notebook with colours and wrapping.

    Output that cannot be written any more (a closed pipe) is silently dropped.

    Args:
        file: The output file; standard error by default, in a notebook standard output.
        terminal: Whether it is a terminal; detected by default.
        width: Its columns; detected by default.

    Raises:
        MissingExtra: rich is not installed.
    """

    def __init__(self, file: TextIO | None = None, *, terminal: bool | None = None, width: int | None = None) -> None:
        try:
            from rich.console import Console
        except ModuleNotFoundError as error:
            raise MissingExtra("The live view of a run", "cli") from error
        self._file = file or (sys.stdout if _is_notebook(sys.stdout) else sys.stderr)
        notebook = _is_notebook(self._file)
        # A pipe gets no escapes, even where FORCE_COLOR is set for other programs.
        terminal = notebook or bool(getattr(self._file, "isatty", bool)()) if terminal is None else terminal

        class Calm(Console):
            def on_broken_pipe(self) -> None:
                """Stop writing; rich's default would end the process."""
                self.quiet = True

        self.console: Console = Calm(
            file=self._file,
            force_terminal=terminal,
            force_jupyter=False,  # it would show every piece of a streamed text in a box of its own
            width=width or (_NOTEBOOK_WIDTH if notebook else None),
            highlight=False,
            legacy_windows=False,
        )
        if self.console.width < 1:  # COLUMNS=0 means an unknown width
            self.console.width = get_terminal_size().columns
        self.terminal = terminal
        self._moves = terminal and not notebook and not self.console.is_dumb_terminal
        self._live: Live | None = None
        self._open = False
        self._broken = False
        self._narrow = "utf" not in (getattr(self._file, "encoding", None) or "utf-8").lower()

    @property
    def width(self) -> int:
        """The columns of a line; 120 for a plain file."""
        return self.console.width if self.terminal else 120

    def open(self) -> None:
        """Allow the spinner from now on; `close` must follow."""
        self._open = True

    def close(self) -> None:
        """Remove the spinner and restore the terminal."""
        self.rest()
        self._open = False

    def line(self, *pieces: tuple[str, str], indent: int = 0) -> None:
        """Write a line of (text, style) pieces; on a terminal, long lines are wrapped with the same indent."""
        from rich.text import Text

        text = Text.assemble(*((self._fit(visible(piece)), style) for piece, style in pieces))
        try:
            width = max(10, self.console.width - indent)
            for part in text.wrap(self.console, width) if self.terminal else [text]:
                self.console.print(Text(" " * indent) + part, soft_wrap=True)
            self._file.flush()
        except (OSError, ValueError):
            self._broken = True

    def flow(self, indent: int, style: str) -> LineWrapper:
        """Return a wrapper that makes streamed text visible; call `rest` first: there is no spinner meanwhile."""
        from rich.cells import cell_len

        width = self.console.width if self.terminal else None
        return LineWrapper(lambda text: self._write(text, style), indent=indent, width=width, measure=cell_len)

    def _write(self, text: str, style: str) -> None:
        if self._broken:
            return
        try:
            self.console.out(self._fit(text), style=style or None, highlight=False, end="")
            self._file.flush()
        except (OSError, ValueError):
            self._broken = True

    def _fit(self, text: str) -> str:
        """Return a text in the characters that the file's encoding has."""
        if not self._narrow:
            return text
        encoding = getattr(self._file, "encoding", None) or "ascii"
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)

    def busy(self, text: str) -> None:
        """Show a spinner with a text below the last line, if the terminal supports it."""
        if not self._open or not self._moves or self._broken:
            return
        from rich.live import Live
        from rich.spinner import Spinner
        from rich.text import Text

        spinner = Spinner("line" if self._narrow else "dots", Text(self._fit(visible(text)), "dim"), style="cyan")
        if self._live is not None:
            self._live.update(spinner)
            return
        self._live = Live(
            spinner,
            console=self.console,
            transient=True,
            refresh_per_second=_FRAMES_PER_SECOND,
            redirect_stdout=self._file is sys.stdout,
            redirect_stderr=True,
        )
        try:
            self._live.start()
        except (OSError, ValueError):
            self._broken = True

    def rest(self) -> None:
        """Remove the spinner, as before streamed text."""
        live, self._live = self._live, None
        if live is None:
            return
        try:
            live.stop()
        except (OSError, ValueError):
            self._broken = True


def _is_notebook(file: TextIO) -> bool:
    """Return whether a file is the output of a notebook's cell: colours are shown, the cursor cannot be moved."""
    return type(file).__module__.partition(".")[0] == "ipykernel"
