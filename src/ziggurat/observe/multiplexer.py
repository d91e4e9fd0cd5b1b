"""Showing several models that stream at the same time: one live, the others when they are done."""

from collections.abc import Callable

from ziggurat.core.path import is_beneath
from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta
from ziggurat.observe.screen import Screen


class Multiplexer:
    """Write the text of one model as it streams, and the text of the others when each is done."""

    def __init__(self, screen: Screen, place: Callable[[str], tuple[int, str]]) -> None:
        self._screen = screen
        self._place = place
        self._thinking: bool | None = None  # of the current line; None if there is none
        self._held: dict[str, list[tuple[str, TextDelta | ThinkingDelta]]] = {}  # the first one is live
        self._spoken: set[str] = set()
        self._label = ""

    @property
    def speaking(self) -> bool:
        """Whether the current line on the screen may be unfinished."""
        return self._thinking is not None

    def labelled(self, owner: str) -> None:
        """Record that the screen has just named this agent, so that its text needs no label."""
        self._label = owner

    def say(self, path: str, owner: str, delta: PartDelta) -> bool:
        """Handle a piece of text at a path; return whether it was written, not held back."""
        if not isinstance(delta, (TextDelta, ThinkingDelta)) or not delta.text:
            return False
        held = self._held.setdefault(path, [])
        live = next(iter(self._held)) == path
        if live:
            self._write(path, owner, delta)
        else:
            held.append((owner, delta))
        return live

    def _write(self, path: str, owner: str, delta: TextDelta | ThinkingDelta) -> None:
        thinking = isinstance(delta, ThinkingDelta)
        indent, name = self._place(path)
        text = delta.text
        if thinking != self._thinking:
            self.interrupt()
            text = text.lstrip()
            if not text:
                return
            if name and owner != self._label:
                self._screen.line((f"{name}:", "dim"), indent=indent)
            self._label = owner
            self._thinking = thinking
            if thinking and not self._screen.terminal:
                text = f"(thinking) {text}"
        self._screen.speak(text, indent, "dim italic" if thinking else "")
        self._spoken.add(path)

    def interrupt(self) -> None:
        """End the current line, so that another can follow."""
        self._screen.end_line()
        self._thinking = None

    def end(self, path: str) -> None:
        """Finish a model call: write its held-back text, and switch to another model if it was the live one."""
        for ended in [each for each in self._held if is_beneath(each, path)]:
            if self._held[ended]:
                self.interrupt()
                self._release(ended)
            self._leave(ended)

    def _release(self, path: str) -> None:
        """Write what is held back."""
        held, self._held[path] = self._held[path], []
        for owner, delta in held:
            self._write(path, owner, delta)

    def _leave(self, path: str) -> None:
        """Forget a path; if it was the live one, the one that has waited longest is live now."""
        self.interrupt()
        del self._held[path]
        if self._held:
            self._release(next(iter(self._held)))

    def drop(self, path: str) -> bool:
        """Discard the text at a path and below it; return whether some of it had been written."""
        live = next(iter(self._held), "")
        self._held = {each: held for each, held in self._held.items() if each == live or not is_beneath(each, path)}
        if live and is_beneath(live, path):
            self._leave(live)
        written = {spoken for spoken in self._spoken if is_beneath(spoken, path)}
        self._spoken -= written
        return bool(written)

    def clear(self) -> None:
        """Write what is held back and forget everything, at the end of a run."""
        self.end("")
        self._spoken.clear()
        self._label = ""
