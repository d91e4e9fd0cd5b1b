"""The reply of a model, in the pieces that every format is written from."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.clock import SystemClock
from ziggurat.core.context import CLOCK, root
from ziggurat.core.event import Dropped, Event
from ziggurat.core.service import Service
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Fold, Message, PartDelta, ToolCallDelta, deltas_of
from ziggurat.messages.model import FinishReason, ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage, estimate_tokens
from ziggurat.testing.server.loopback import ReceivedRequest, Wait


class ReplyContent(Struct, frozen=True):
    pieces: tuple[PartDelta | Wait, ...]
    finish: FinishReason = "stop"
    usage: Usage = Usage()
    model: str = "scripted"
    id: str = "1"
    error: Exception | None = None


_PIECES = 50
_SHORT = 12


class _ReplyRecorder(SystemClock):
    """Records the events of a model (as an Emit), and its pauses (as a Clock)."""

    blocked = 0.0

    def __init__(self) -> None:
        self.deltas: list[PartDelta | Wait] = []

    async def __call__(self, event: Event, /) -> None:
        if isinstance(event, Delta):
            self.deltas.append(event.delta)
        elif isinstance(event, Dropped):
            self.deltas.clear()

    def listens(self, kind: type[Event], /) -> bool:
        return kind is Delta or kind is Dropped

    async def sleep(self, seconds: float) -> None:
        self.deltas.append(Wait(seconds))


async def ask(
    model: Service[ModelRequest, ModelResponse], request: ModelRequest, seen: ReceivedRequest
) -> ReplyContent:
    """Call a model with a request; an error it raises becomes part of the reply."""
    recorder = _ReplyRecorder()
    name = _model_name(seen)
    reply = ReplyContent((), usage=_estimate(Usage(), seen, ""), model=name, id=str(seen.number))
    try:
        response = await model(request, root("provider").within(CLOCK, recorder).emitting(recorder))
    except Exception as error:  # noqa: BLE001 - the provider simulates whatever error a script raises
        return replace(reply, pieces=_unique(torn(recorder.deltas), seen.number), error=error)
    deltas = recorder.deltas
    if message_of(deltas).parts != response.message.parts:
        deltas = list(deltas_of(response.message))
    usage = _estimate(response.usage, seen, response.text)
    pieces = _unique(torn(deltas), seen.number)
    return replace(reply, pieces=pieces, finish=response.finish, usage=usage)


def _model_name(seen: ReceivedRequest) -> str:
    body = seen.json
    name = body.get("model") if isinstance(body, dict) else None
    return name if isinstance(name, str) else "scripted"


def _estimate(usage: Usage, seen: ReceivedRequest, text: str) -> Usage:
    """Fill unknown token counts with estimates, a quarter of the characters; real providers always report usage."""
    tokens_in = usage.input if usage.input is not None else len(seen.body) // 4
    tokens_out = usage.output if usage.output is not None else max(1, estimate_tokens(text))
    return replace(usage, input=tokens_in, output=tokens_out)


def torn(deltas: Iterable[PartDelta | Wait]) -> list[PartDelta | Wait]:
    """Split tool arguments into pieces, as real models stream them."""
    pieces: list[PartDelta | Wait] = []
    for delta in deltas:
        if not isinstance(delta, ToolCallDelta) or len(delta.arguments) <= _SHORT:
            pieces.append(delta)
            continue
        size = max(_SHORT, -(-len(delta.arguments) // _PIECES))
        pieces.append(replace(delta, arguments=""))
        for at in range(0, len(delta.arguments), size):
            pieces.append(ToolCallDelta(delta.index, delta.arguments[at : at + size]))
    return pieces


def _unique(pieces: Iterable[PartDelta | Wait], number: int) -> tuple[PartDelta | Wait, ...]:
    """Replace generated call ids by ids unique in the whole conversation, as a provider's are."""
    renamed: list[PartDelta | Wait] = []
    for piece in pieces:
        if isinstance(piece, ToolCallDelta) and piece.name:
            left_open = piece.id in ("", "call") or (piece.id.startswith("call-") and piece.id[5:].isdigit())
            piece = replace(piece, id=f"call_{number}_{piece.index}") if left_open else piece
        renamed.append(piece)
    return tuple(renamed)


def message_of(pieces: Iterable[PartDelta | Wait]) -> Message:
    fold = Fold()
    for piece in pieces:
        if not isinstance(piece, Wait):
            fold.push(piece)
    return fold.message()
