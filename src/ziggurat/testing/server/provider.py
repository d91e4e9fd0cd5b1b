"""The fake provider: a real HTTP server on loopback that speaks three formats from a script."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Service
from ziggurat.core.settings import NonNegativeInt, checked
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.models.scripted import ReplyRule, ScriptedModel, ScriptedReply
from ziggurat.testing.server.loopback import HttpResponse, LoopbackServer, ReceivedRequest, error_answer
from ziggurat.testing.server.quirk import Quirk, changed, written
from ziggurat.testing.server.replies import ReplyContent, ask
from ziggurat.wires.reading import read_request
from ziggurat.wires.types import wire_of


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

    async def _receive(self, seen: ReceivedRequest) -> HttpResponse:
        path = urlsplit(seen.path).path.rstrip("/")
        seen = replace(seen, number=len(self.requests) + 1, wire=wire_of(path))
        self.requests.append(seen)
        if seen.method == "GET" and path.endswith("/models"):
            return _models()
        if seen.wire is None or seen.method != "POST":
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
            reply = await ask(self._model, request, seen)
        if any(quirk.breaks for quirk in quirks):
            self._again[key] = reply
        return reply


def _models() -> HttpResponse:
    listed = {"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "nobody"}]}
    return HttpResponse(200, (("content-type", "application/json"),), (msgspec.json.encode(listed),))
