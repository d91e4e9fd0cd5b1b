"""The fake provider: a real HTTP server on loopback that speaks three formats from a script."""

from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ziggurat.core.clock import SYSTEM_CLOCK, Clock, Timer
from ziggurat.core.context import CLOCK, root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Dropped, Event
from ziggurat.core.service import Service
from ziggurat.core.settings import NonNegativeInt, checked
from ziggurat.messages.delta import PartDelta, ToolCallDelta, deltas_of
from ziggurat.messages.events import Delta
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage, estimate_tokens
from ziggurat.models.scripted import ReplyRule, ScriptedModel, ScriptedReply
from ziggurat.testing.server.loopback import LoopbackServer, RawRequest
from ziggurat.testing.server.quirk import Quirk, changed, message_of, written
from ziggurat.testing.server.types import HttpResponse, ReceivedRequest, ReplyContent, Wait, error_answer
from ziggurat.wires.reading import read_request
from ziggurat.wires.types import wire_of

_PIECES = 50
_SHORT = 12


class FakeProvider(LoopbackServer):
    """Serve OpenAI Chat Completions, OpenAI Responses and Anthropic Messages on loopback, plain and streamed.

    The path of a request selects the format: ``/v1/chat/completions``, ``/v1/responses`` or ``/v1/messages``, under any
    prefix. The replies come from a script, the same as that of a ScriptedModel.

    ::

        with FakeProvider(tool_call("add", a=1, b=2), "It is 3.", quirks=[cut(100).on(2)]) as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="any")

    With ``async with`` it runs on the running event loop, with ``with`` in its own thread.

    Args:
        replies: One for each request, in order.
        rules: Pairs of a condition on the request and a reply, tried before anything else.
        always: The reply when no other is left.
        model: Any model service to answer with, instead of a script.
        quirks: The faults to simulate.
        clock: The clock for pauses; the system's by default. A HandClock needs ``async with``.
        port: The port to listen on; 0 for any free port.

    Raises:
        ConfigurationError: neither a script nor a model is given, or both are.
    """

    @checked
    def __init__(
        self,
        *replies: ScriptedReply,
        rules: Sequence[ReplyRule] = (),
        always: ScriptedReply | None = None,
        model: Service[ModelRequest, ModelResponse] | None = None,
        quirks: Iterable[Quirk] = (),
        clock: Clock = SYSTEM_CLOCK,
        port: NonNegativeInt = 0,
    ) -> None:
        if model is not None and (replies or rules or always is not None):
            raise ConfigurationError("FakeProvider takes a script or a model to answer with, not both")
        super().__init__(clock, port)
        self._model = model or ScriptedModel(*replies, rules=rules, always=always)
        self.requests: list[ReceivedRequest] = []
        self._again: dict[tuple[str, bytes], ReplyContent] = {}
        self.use(*quirks)

    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """The quirks in use."""
        return self._quirks

    @property
    def last(self) -> ReceivedRequest:
        """The latest request.

        Raises:
            ConfigurationError: there was none.
        """
        if not self.requests:
            raise ConfigurationError("the fake provider has seen no request")
        return self.requests[-1]

    def use(self, *quirks: Quirk) -> None:
        """Replace the quirks in use; the request numbers that they see start from 1 again.

        Raises:
            ConfigurationError: one is not a quirk.
        """
        for quirk in quirks:
            if not isinstance(quirk, Quirk):
                raise ConfigurationError(f"{quirk!r} is not a quirk; call its function, as in cut(120)")
        self._quirks = quirks
        self._since = len(self.requests)

    # -- answering --------------------------------------------------------------------------------------------------

    async def _receive(self, raw: RawRequest) -> HttpResponse:
        path = urlsplit(raw.path).path.rstrip("/")
        seen = ReceivedRequest(len(self.requests) + 1, raw.method, raw.path, raw.headers, raw.body, wire_of(path))
        self.requests.append(seen)
        return await self._answer(seen)

    async def _answer(self, seen: ReceivedRequest) -> HttpResponse:
        if seen.method == "GET" and urlsplit(seen.path).path.endswith("/models"):
            return _models()
        if seen.wire is None or seen.method != "POST":
            path = urlsplit(seen.path).path
            text = f"There is no {seen.method} {path} here; there are POST /chat/completions, /responses, /messages"
            return error_answer(seen.wire, 404 if seen.wire is None else 405, text)
        number = seen.number - self._since
        quirks = [quirk for quirk in self._quirks if quirk.applies(seen, number)]
        for quirk in quirks:
            if quirk.instead is not None:
                return changed(quirk.instead(seen), quirks, seen)
        try:
            _, request = read_request(seen.body, seen.wire)
        except ValueError as error:
            return error_answer(seen.wire, 400, str(error))
        return written(await self._ask_model(request, seen, quirks), seen, quirks)

    async def _ask_model(self, request: ModelRequest, seen: ReceivedRequest, quirks: list[Quirk]) -> ReplyContent:
        key = (seen.path, seen.body)
        reply = self._again.pop(key, None)
        if reply is None:
            reply = await _ask(self._model, request, seen)
        if any(quirk.breaks for quirk in quirks):
            self._again[key] = reply
        return reply


def _models() -> HttpResponse:
    listed = {"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "nobody"}]}
    return HttpResponse(200, (("content-type", "application/json"),), (msgspec.json.encode(listed),))


class _ReplyRecorder:
    """Records the events of a model (as an Emit), and its pauses (as a Clock)."""

    blocked = 0.0
    now = staticmethod(SYSTEM_CLOCK.now)
    monotonic = staticmethod(SYSTEM_CLOCK.monotonic)

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

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        return SYSTEM_CLOCK.call_at(when, callback)


async def _ask(
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
