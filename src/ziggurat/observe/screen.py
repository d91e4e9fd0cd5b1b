"""Output to a terminal, a notebook or a plain text file: lines, and a live part below the last one."""

import sys
from collections.abc import Callable, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from ziggurat.core.errors import MissingExtra
from ziggurat.core.visible import visible

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

_PLAIN = str.maketrans({"●": "*", "→": "->", "✓": "+", "✗": "x", "■": "!", "↻": "~", "·": "|", "…": "~", "‖": "?"})
_FRAMES_PER_SECOND = 10
_NOTEBOOK_WIDTH = 100

LiveLine = tuple[str, str, int]  # a line of the live part: its text, its style, and its indent


class Screen:
    """Writes to a file; on a terminal with colours, wrapping and a live part, in a notebook with colours and wrapping.

    `live` returns the lines of the live part, `waiting` the text of the spinner that replaces them where there are
    none. They are called ten times a second, in another thread.
    """

    def __init__(
        self,
        file: TextIO | None = None,
        *,
        terminal: bool | None = None,
        width: int | None = None,
        live: Callable[[], Sequence[LiveLine]] = list,
        waiting: Callable[[], str] = str,
    ) -> None:
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
        self._lines, self._waiting = live, waiting
        self._spinner: Spinner | None = None
        self._live: Live | None = None
        self._open = False
        self._broken = False
        self._narrow = "utf" not in (getattr(self._file, "encoding", None) or "utf-8").lower()

    @property
    def width(self) -> int:
        return self.console.width if self.terminal else 120

    def open(self) -> None:
        self._open = True

    def close(self) -> None:
        self.animate(False)
        self._open = False

    def text(self, text: str, style: str) -> "Text":
        """Return a text without hidden characters, in those that the file's encoding has."""
        from rich.text import Text

        text = visible(text)
        if self._narrow:
            encoding = getattr(self._file, "encoding", None) or "ascii"
            text = text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
        return Text(text, style)

    def line(self, *pieces: tuple[str, str], indent: int = 0) -> None:
        """Write a line of (text, style) pieces; on a terminal, long lines are wrapped with the same indent."""
        from rich.text import Text

        text = Text.assemble(*(self.text(*piece) for piece in pieces))
        text.rstrip()
        try:
            for part in text.wrap(self.console, max(10, self.width - indent)) if self.terminal else [text]:
                self.console.print(Text(" " * indent if part else "") + part, soft_wrap=not self.terminal)
            self._file.flush()
        except (OSError, ValueError):
            self._broken = True

    def _live_part(self) -> "RenderableType":
        from rich.console import Group
        from rich.padding import Padding
        from rich.spinner import Spinner

        if lines := self._lines():
            return Group(*(Padding(self.text(text, style), (0, 0, 0, indent)) for text, style, indent in lines))
        if self._spinner is None:
            self._spinner = Spinner("line" if self._narrow else "dots", style="cyan")
        self._spinner.update(text=self.text(self._waiting(), "dim"))
        return self._spinner

    def refresh(self) -> None:
        if self._live is not None:
            self._live.refresh()

    def animate(self, wanted: bool) -> None:
        if wanted == (self._live is not None) or (wanted and not (self._open and self._moves and not self._broken)):
            return
        from rich.live import Live

        try:
            if not wanted:
                live, self._live = self._live, None
                if live is not None:
                    live.stop()
                return
            self._live = Live(
                get_renderable=self._live_part,
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
