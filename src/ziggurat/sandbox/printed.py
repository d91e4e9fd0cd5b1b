"""What a program has printed, up to a limit."""


class Printed:
    """Collects pieces of text up to a limit, and notes that there was more."""

    __slots__ = ("_dropped", "_left", "_pieces")

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._pieces: list[str] = []
        self._dropped = 0

    def add(self, _stream: str, text: str) -> None:
        """Add a piece of any stream."""
        if self._left:
            self._pieces.append(text[: self._left])
        self._dropped += max(0, len(text) - self._left)
        self._left = max(0, self._left - len(text))
        if len(self._pieces) > 1_000:
            self._pieces = ["".join(self._pieces)]

    def text(self) -> str:
        """Return what was printed."""
        text = "".join(self._pieces).encode(errors="replace").decode()
        return f"{text}\n[cut: {self._dropped} more characters]" if self._dropped else text
