"""Showing several models that stream at the same time: one live, the others when they are done."""

from collections.abc import Callable

from ziggurat.core.path import is_beneath
from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta
from ziggurat.observe.line_wrapper import LineWrapper
from ziggurat.observe.screen import Screen


class Multiplexer:
    """Write the text of one model as it streams, and the text of the others when each is done.

    Args:
        screen: The screen to write to.
        place: Returns the indent for a path, and the name of its agent if it should be shown.
    """

    def __init__(self, screen: Screen, place: Callable[[str], tuple[int, str]]) -> None:
        self._screen = screen
        self._place = place
        self._flow: LineWrapper | None = None
        self._thinking = False
        self._floor: str | None = None
        self._held: dict[str, list[tuple[str, TextDelta | ThinkingDelta]]] = {}
        self._spoken: set[str] = set()
        self._label = ""

    @property
    def speaking(self) -> bool:
        """Whether the current line on the screen may be unfinished."""
        return self._flow is not None

    def labelled(self, owner: str) -> None:
        """Record that the screen has just named this agent, so that its text needs no label."""
        self._label = owner

    def say(self, path: str, owner: str, delta: PartDelta) -> bool:
        """Handle a piece of text at a path; return whether it was written, not held back."""
        if not isinstance(delta, (TextDelta, ThinkingDelta)) or not delta.text:
            return False
        if self._floor not in (None, path):
            self._held.setdefault(path, []).append((owner, delta))
            return False
        self._floor = path
        self._write(path, owner, delta)
        return True

    def _write(self, path: str, owner: str, delta: TextDelta | ThinkingDelta) -> None:
        thinking = isinstance(delta, ThinkingDelta)
        if self._flow is None or thinking != self._thinking:
            self.interrupt()
            self._screen.rest()
            indent, name = self._place(path)
            if name and owner != self._label:
                self._screen.line((f"{name}:", "dim"), indent=indent)
            self._label = owner
            self._thinking = thinking
            self._flow = self._screen.flow(indent, "dim italic" if thinking else "")
            if thinking and not self._screen.terminal:
                self._flow.push("(thinking) ")
        self._flow.push(delta.text)
        if self._flow.begun:
            self._spoken.add(path)

    def interrupt(self) -> None:
        """End the current line, so that another can follow."""
        flow, self._flow = self._flow, None
        if flow is not None:
            flow.end_line()

    def end(self, path: str) -> None:
        """Finish a model call: write its held-back text, and switch to another model if it was the live one."""
        for waiting in [waiting for waiting in self._held if is_beneath(waiting, path)]:
            self.interrupt()
            self._release(waiting)
            self.interrupt()
        self._leave_floor(path)

    def _release(self, path: str) -> None:
        for owner, delta in self._held.pop(path):
            self._write(path, owner, delta)

    def _leave_floor(self, path: str) -> None:
        """If the live model is at a path or below it, let the one that has waited longest take over."""
        if self._floor is None or not is_beneath(self._floor, path):
            return
        self.interrupt()
        self._floor = next(iter(self._held), None)
        if self._floor is not None:
            self._release(self._floor)

    def drop(self, path: str) -> bool:
        """Discard the text at a path and below it; return whether some of it had been written."""
        for waiting in [waiting for waiting in self._held if is_beneath(waiting, path)]:
            del self._held[waiting]
        written = {spoken for spoken in self._spoken if is_beneath(spoken, path)}
        self._spoken -= written
        self._leave_floor(path)
        return bool(written)

    def clear(self) -> None:
        """Write what is held back and forget everything, at the end of a run."""
        self.end("")
        self._floor = None
        self._spoken.clear()
        self._label = ""
