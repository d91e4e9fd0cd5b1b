"""What a reply shows of the work of the server itself: calls of its tools, and what it asks a person about."""

from collections.abc import Iterable

from msgspec import Struct

from ziggurat.messages.message import Fold, Message, Part, PartDelta, ToolResult, refolded


class ServerCall(Struct, frozen=True):
    """A call of a tool that runs on the server; in a stream it comes when it begins, and again when it has ended."""

    path: str
    name: str
    arguments: str
    server: str
    approval: str | None = None
    result: ToolResult | None = None


class ApprovalRequest(Struct, frozen=True):
    """A call that a person must approve."""

    id: str
    name: str
    arguments: str
    server: str


ServerItem = ServerCall | ApprovalRequest
"""What a reply has besides the parts of a message."""

ReplyPiece = PartDelta | ServerItem
"""Any piece of a reply of a server."""

ReplyPart = Part | ServerItem
"""Any part of a reply of a server."""


class ReplyParts:
    """Joins the pieces of a reply to its parts, as `Fold` does for a message."""

    def __init__(self) -> None:
        self._parts: list[Fold | ServerItem] = []
        self._calls: dict[str, int] = {}

    def push(self, piece: ReplyPiece) -> None:
        """Add the next piece."""
        if isinstance(piece, ServerCall) and piece.path in self._calls:
            self._parts[self._calls[piece.path]] = piece
        elif isinstance(piece, ServerItem):
            if isinstance(piece, ServerCall):
                self._calls[piece.path] = len(self._parts)
            self._parts.append(piece)
        else:
            last = self._parts[-1] if self._parts else None
            if not isinstance(last, Fold):
                last = Fold()
                self._parts.append(last)
            last.push(piece)

    def parts(self) -> list[ReplyPart]:
        """Return the parts so far."""
        parts: list[ReplyPart] = []
        for each in self._parts:
            parts += each.message().parts if isinstance(each, Fold) else (each,)
        return parts


def message_of(parts: Iterable[ReplyPart]) -> Message:
    """Return the parts of a reply that are those of a message."""
    return refolded(Message("assistant", tuple(part for part in parts if not isinstance(part, ServerItem))))
