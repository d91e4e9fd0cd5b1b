"""Output to a terminal or a plain text file: lines, streamed text, and a spinner."""

import sys
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from ziggurat.core.errors import MissingExtra
from ziggurat.core.visible import visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.containers import Lines
    from rich.live import Live
    from rich.text import Text

_PLAIN = str.maketrans({"●": "*", "→": "->", "✓": "+", "✗": "x", "■": "!", "↻": "~", "·": "|", "…": "~", "‖": "?"})
_FRAMES_PER_SECOND = 10
_NOTEBOOK_WIDTH = 100


class Screen:
    """Write to a file; on a terminal with colours, wrapping and a spinner, in a notebook with colours and wrapping."""

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
        self._pieces: list[str] = []
        self._current = (0, "")
        self._open = False
        self._broken = False
        self._narrow = "utf" not in (getattr(self._file, "encoding", None) or "utf-8").lower()

    @property
    def _live_now(self) -> bool:
        return self._open and self._moves and not self._broken

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
            for part in self._wrapped(text, indent) if self.terminal else [text]:
                self.console.print(Text(" " * indent) + part, soft_wrap=True)
            self._file.flush()
        except (OSError, ValueError):
            self._broken = True

    def speak(self, piece: str, indent: int, style: str) -> None:
        """Add a piece to the current line of a streamed text; what is complete is written, the rest is shown live."""
        self._current = (indent, style)
        self._pieces.append(piece)
        if not self._live_now and "\n" not in piece:
            return
        text = "".join(self._pieces)
        whole = text.removesuffix("\r")  # a line break may end in the next piece
        *lines, rest = self._broken_into_lines(visible(whole), indent)
        for each in lines:
            self.line((each, style), indent=indent if each else 0)
        self._pieces = [rest + text[len(whole) :]]
        if self._live_now:
            from rich.padding import Padding
            from rich.text import Text

            self._show(Padding(Text(self._fit(rest), style), (0, 0, 0, indent)))

    def end_line(self) -> None:
        """Write the rest of a streamed text as a line, so that other output can follow."""
        indent, style = self._current
        rest = visible("".join(self._pieces).removesuffix("\r")).rstrip()
        if self._pieces:
            self._show(None)
        if rest:
            self.line((rest, style), indent=indent)
        self._pieces = []

    def _broken_into_lines(self, text: str, indent: int) -> list[str]:
        """Return the complete lines of a streamed text, and what may go on."""
        if not self._live_now:
            return text.split("\n")
        from rich.text import Text

        text = text.replace("\t", "    ")
        text = text[: len(text.rstrip(" ")) + self.console.width]  # more spaces make no difference
        lines = [each.plain for each in self._wrapped(Text(text), indent)]
        # Spaces at the end of the last line may be left out there: then the next piece decides.
        return [each.rstrip() for each in lines[:-1]] + lines[-1:] if text.endswith(lines[-1]) else [text]

    def _wrapped(self, text: "Text", indent: int) -> "Lines":
        return text.wrap(self.console, max(10, self.console.width - indent))

    def _fit(self, text: str) -> str:
        """Return a text in the characters that the file's encoding has."""
        if not self._narrow:
            return text
        encoding = getattr(self._file, "encoding", None) or "ascii"
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)

    def busy(self, text: str) -> None:
        """Show a spinner with a text below the last line, if the terminal supports it."""
        if self._live_now:
            from rich.spinner import Spinner
            from rich.text import Text

            words = Text(self._fit(visible(text)), "dim")
            self._show(Spinner("line" if self._narrow else "dots", words, style="cyan"))

    def rest(self) -> None:
        """Remove the spinner."""
        self._show(None)

    def _show(self, content: "RenderableType | None") -> None:
        """Show something below the last line until it is replaced, or nothing more."""
        from rich.live import Live

        try:
            if content is None:
                live, self._live = self._live, None
                if live is not None:
                    live.stop()
            elif self._live is not None:
                self._live.update(content)
            elif self._live_now:
                self._live = Live(
                    content,
                    console=self.console,
                    transient=True,
                    refresh_per_second=_FRAMES_PER_SECOND,
                    redirect_stdout=self._file is sys.stdout,
                    redirect_stderr=True,
                )
                self._live.start()
        except (OSError, ValueError):
            self._broken = True


def _is_notebook(file: TextIO) -> bool:
    """Return whether a file is the output of a notebook's cell: colours are shown, the cursor cannot be moved."""
    return type(file).__module__.partition(".")[0] == "ipykernel"
