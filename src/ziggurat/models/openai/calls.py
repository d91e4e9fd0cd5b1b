"""Separate the tool calls of a stream, even if they have no index or id, or all the same index."""

from collections.abc import Sequence

import msgspec

from ziggurat.messages.delta import PartDelta, ToolCallDelta
from ziggurat.messages.limits import check_depth
from ziggurat.models.brackets import Brackets
from ziggurat.models.openai.reading import arguments_of
from ziggurat.models.openai.reasoning import signature_delta
from ziggurat.models.openai.shapes import FunctionPiece, ToolPiece, name_of

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LEGACY = -1


def is_object(arguments: str) -> bool:
    """Return whether arguments are a complete JSON object."""
    try:
        check_depth(arguments)
        _OBJECT.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True


class _Call:
    """A call in progress."""

    __slots__ = ("_brackets", "_whole", "begun", "id", "index", "name", "pieces")

    def __init__(self, index: int, identity: str, name: str) -> None:
        self.index = index
        self.id = identity
        self.name = name
        self.pieces: list[str] = []
        self.begun = False  # whether any of its arguments have arrived
        self._brackets: Brackets | None = Brackets()  # until the end of the arguments is found
        self._whole = False

    def add(self, arguments: str) -> None:
        """Add the next piece of the arguments."""
        self.pieces.append(arguments)
        self.begun = self.begun or arguments != ""
        if self._brackets is None:
            self._whole = self._whole and not arguments.strip()
        elif self._brackets.end_in(arguments) is not None:
            self._brackets = None
            self._whole = is_object("".join(self.pieces))

    @property
    def whole(self) -> bool:
        """Whether its arguments are complete."""
        return self._whole


class CallReader:
    """Numbers the calls of one reply, whatever indices the server uses."""

    __slots__ = ("_by_id", "_by_index", "_calls", "custom")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self.custom: list[str] = []

    def read(self, pieces: Sequence[ToolPiece], legacy: FunctionPiece | None) -> list[PartDelta]:
        """Return the deltas of one chunk's tool calls."""
        deltas: list[PartDelta] = []
        for piece in pieces:
            function = piece.function
            custom = piece.custom
            if custom is not None and (custom.name or custom.input) and not (function and function.name):
                function = FunctionPiece(custom.name, custom.input)
                if piece.id:
                    self.custom.append(name_of(piece.id))
            signature = signature_delta(piece.extra_content) if piece.extra_content else None
            if signature is not None:
                deltas.append(signature)
            deltas.append(self._delta(piece.index, name_of(piece.id), function or FunctionPiece()))
        if legacy is not None and (legacy.name or legacy.arguments):
            deltas.append(self._delta(_LEGACY, "", legacy))
        return deltas

    def _delta(self, index: int | None, identity: str, function: FunctionPiece) -> ToolCallDelta:
        name, arguments = function.name or "", arguments_of(function.arguments)
        call = self._known(index, identity, name, arguments)
        if call is None:
            call = self._begun(index, identity, name)
            call.add(arguments)
            return ToolCallDelta(call.index, arguments, identity, name)
        fresh_id = identity if not call.id else ""
        fresh_name = name if not call.name else ""
        call.id = call.id or identity
        call.name = call.name or name
        if fresh_id:
            self._by_id[fresh_id] = call
        call.add(arguments)
        return ToolCallDelta(call.index, arguments, fresh_id, fresh_name)

    def _begun(self, index: int | None, identity: str, name: str) -> _Call:
        call = _Call(len(self._calls), identity, name)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if identity:
            self._by_id[identity] = call
        return call

    def _known(self, index: int | None, identity: str, name: str, arguments: str) -> _Call | None:
        """Return the call that a piece continues, or None if it begins another."""
        call = self._by_index.get(index) if index is not None else None
        if identity and (index is None or call is not None):
            same = self._by_id.get(identity)
            if same is not None:
                return same
        if index is None:
            call = self._calls[-1] if self._calls else None
            if call is None or (identity and call.id):
                return None
        if call is None or not name:
            return call
        if identity and call.id and identity != call.id:
            return call if name == call.name and call.pieces and not _begins(call) else None
        if name != call.name and call.name:
            return None
        return None if call.name and arguments and call.whole else call


def _begins(call: _Call) -> bool:
    """Return whether another call may begin now: none of this one's arguments have arrived, or all."""
    return not call.begun or call.whole
