"""The fake provider: a real HTTP server on loopback that speaks three formats from a script."""

import asyncio
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Service
from ziggurat.core.settings import NonNegativeInt, checked
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.models.scripted import ReplyRule, ScriptedModel, ScriptedReply
from ziggurat.testing.server.connection import BadRequest, Connection, RawRequest, send
from ziggurat.testing.server.quirk import Quirk
from ziggurat.testing.server.reply import ask
from ziggurat.testing.server.types import HttpResponse, ReceivedRequest, ReplyContent, Wait, error_answer
from ziggurat.testing.server.writing import changed, written
from ziggurat.wires.reading import read_request
from ziggurat.wires.types import wire_of

_TURNS = 4


class FakeProvider:
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
        self._model = model or ScriptedModel(*replies, rules=rules, always=always)
        self._clock = clock
        self._wanted_port = port
        self.requests: list[ReceivedRequest] = []
        self.port: int = 0
        self._again: dict[tuple[str, bytes], ReplyContent] = {}
        self._open: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stop: asyncio.Event | None = None
        self._released = asyncio.Event()
        self.use(*quirks)

    @property
    def url(self) -> str:
        """The URL it listens on, without a path: ``http://127.0.0.1:PORT``.

        Raises:
            ConfigurationError: it is not running.
        """
        if not self.port:
            raise ConfigurationError("the fake provider is not running; use it in a with block")
        return f"http://127.0.0.1:{self.port}"

    @property
    def quirks(self) -> tuple[Quirk, ...]:
        """The quirks in use."""
        return self._quirks

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._open)

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

    def release(self) -> None:
        """End all pauses that wait for `release()`."""
        loop = self._loop
        if loop is not None:
            loop.call_soon_threadsafe(self._let_go)

    def _let_go(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    # -- start and stop ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> "FakeProvider":
        """Start listening on the running event loop."""
        self._check_idle()
        await self._listen()
        return self

    async def _listen(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._serve, self._open), "127.0.0.1", self._wanted_port
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening and close every connection."""
        await self._close()

    async def _close(self) -> None:
        assert self._server is not None
        with suppress(NotImplementedError):  # the event loop does not watch sockets
            asyncio.get_running_loop().remove_reader(self._server.sockets[0].fileno())
        for _ in range(_TURNS):
            await asyncio.sleep(0)  # connections just accepted must be set up before the server closes
        self._server.close()
        tasks = [connection.task for connection in self._open if connection.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._open):
            connection.drop()
        await self._server.wait_closed()
        await asyncio.sleep(0)  # dropped connections close in the next turn
        self._server = self._loop = None
        self.port = 0

    def __enter__(self) -> "FakeProvider":
        """Start listening in a thread of its own."""
        self._check_idle()
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live(ready)), name="fake-provider")
        self._thread.start()
        try:
            ready.result()
        except BaseException:
            self._thread.join()
            self._thread = None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening, close every connection and end the thread."""
        assert self._thread is not None
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._thread = None

    async def _live(self, ready: "Future[None]") -> None:
        self._stop = asyncio.Event()
        try:
            await self._listen()
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for the start
            ready.set_exception(error)
            return
        ready.set_result(None)
        try:
            await self._stop.wait()
        finally:
            await self._close()

    def _check_idle(self) -> None:
        if self._loop is not None or self._thread is not None:
            raise ConfigurationError("this fake provider is already running; make another one")

    # -- serving ----------------------------------------------------------------------------------------------------

    async def _serve(self, connection: Connection) -> None:
        while True:
            try:
                raw = await connection.request()
            except BadRequest as error:
                await send(connection, replace(error_answer(None, 400, str(error)), framing="close"), self._rest)
                return
            if raw is None:
                return
            answer = await self._answer(self._record_request(raw))
            if raw.version == "HTTP/1.0":
                answer = replace(answer, framing="close")
            if answer.ending == "keep" and dict(raw.headers).get("connection", "").lower() == "close":
                answer = replace(answer, ending="close")
            ending = await send(connection, answer, self._rest)
            if ending == "drop_next":
                await connection.begins()
            if ending == "reset":
                connection.reset()
            if ending != "keep":
                return

    async def _rest(self, wait: Wait, connection: Connection) -> None:
        """Pause, but no longer than the client stays connected."""
        if wait.seconds == 0:
            await asyncio.sleep(0)
            return
        released = self._released
        over = released.wait() if wait.seconds is None else self._clock.sleep(wait.seconds)
        tasks = [asyncio.ensure_future(over), asyncio.ensure_future(connection.gone())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _record_request(self, raw: RawRequest) -> ReceivedRequest:
        path = urlsplit(raw.path).path.rstrip("/")
        seen = ReceivedRequest(len(self.requests) + 1, raw.method, raw.path, raw.headers, raw.body, wire_of(path))
        self.requests.append(seen)
        return seen

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
            reply = await ask(self._model, request, seen)
        if any(quirk.breaks for quirk in quirks):
            self._again[key] = reply
        return reply


def _models() -> HttpResponse:
    listed = {"object": "list", "data": [{"id": "scripted", "object": "model", "created": 0, "owned_by": "nobody"}]}
    return HttpResponse(200, (("content-type", "application/json"),), (msgspec.json.encode(listed),))
