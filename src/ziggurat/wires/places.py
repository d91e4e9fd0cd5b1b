"""Places: which part of a reply each of its pieces belongs to."""

from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta, ToolCallDelta


class Places:
    """Numbers the parts of a reply, from 0, as its pieces come."""

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}
        self._current = -1
        self._count = 0
        self._before: PartDelta | None = None

    def place(self, piece: PartDelta) -> int:
        """Return the number of the part that a piece belongs to: that of the piece before it, or the next."""
        if isinstance(piece, ToolCallDelta):
            if piece.index not in self._calls:
                self._calls[piece.index] = self._next()
            self._current = self._calls[piece.index]
        elif not _goes_on(self._before, piece):
            self._current = self._next()
        self._before = piece
        return self._current

    def interrupt(self) -> None:
        """Have the next piece begin another part, as something else came before it."""
        self._before = None

    def _next(self) -> int:
        self._count += 1
        return self._count - 1


def _goes_on(before: PartDelta | None, piece: PartDelta) -> bool:
    if isinstance(piece, TextDelta):
        return isinstance(before, TextDelta)
    if not isinstance(piece, ThinkingDelta) or not isinstance(before, ThinkingDelta):
        return False
    ended = before.signature is not None or before.redacted is not None or piece.redacted is not None
    return not ended and (piece.id is None or before.id is None or piece.id == before.id)
