"""llama.cpp in this process: loads a GGUF file, generates in threads, serves several requests at once."""

import asyncio
import http.client
import json
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import msgspec

from ziggurat.core.errors import ConfigurationError, ContextOverflow, MissingExtra, ModelError

SLOTS = 4  # how many requests one engine serves at the same time; more are queued

CONTEXT = 8192
"""The context size of an engine in tokens, shared by the requests it is serving."""

_BATCH = 128
"""How many tokens of a prompt are read at once: a cancelled request stops after them, others go on between them."""

Chunk = dict[str, Any]

_END = object()


Thinking = Literal["never", "optional", "begun"]
"""Whether a model thinks before it replies; `begun` if its chat template opens the thought."""

_SILENCE = 60.0


class ChatTemplate(msgspec.Struct, frozen=True):
    """What a chat template can express; everything else has to be put into text."""

    system: bool = True
    tools: bool = False
    calls: bool = False
    thinking: Thinking = "never"


class Engine:
    def __init__(self, path: Path, *, slots: int = SLOTS, context: int = CONTEXT, threads: int | None = None) -> None:
        self.path: Path = _check_file(path)
        self.slots = slots
        self.context = context
        self.threads: int = threads or min(8, _processors())
        self._lock = threading.Lock()
        self._key = secrets.token_hex(32)
        self._server: Any = None
        self._template = ChatTemplate()
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="ziggurat-local")

    def __repr__(self) -> str:
        return f"Engine({self.path.name!r}, slots={self.slots}, context={self.context})"

    async def template(self) -> ChatTemplate:
        """Return what the file's chat template can express; loads the weights."""
        if self._server is None:
            await asyncio.to_thread(self.load)
        return self._template

    async def stream(self, body: Mapping[str, Any]) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks of one reply as llama.cpp writes them; the last one contains the usage."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Any] = asyncio.Queue()
        stopped = threading.Event()

        def put(item: Any) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the event loop is closed, so no one waits for the rest
                stopped.set()

        self._threads.submit(self._work, {**body, "stream": True}, put, stopped)
        try:
            while (item := await queue.get()) is not _END:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            stopped.set()

    def _work(self, body: dict[str, Any], put: Callable[[Any], None], stopped: threading.Event) -> None:
        def take(chunk: Chunk) -> bool:
            put(_failure(chunk["error"]) if "error" in chunk else chunk)
            return "error" in chunk or stopped.is_set()

        try:
            if not stopped.is_set():
                self._generate(body, take)
        except Exception as error:  # noqa: BLE001 - passed to the event loop, where it is raised
            put(error)
        finally:
            put(_END)

    def _generate(self, body: dict[str, Any], take: Callable[[Chunk], bool]) -> None:
        server = self.load()
        settings = {"stream_options": {"include_usage": True}, "return_progress": True}
        try:
            answer = server.handle_chat_completions(body | settings, take)
        except (ValueError, RuntimeError, TypeError) as error:
            raise ModelError(f"{self.path.name} refused the request: {error}", transient=False) from error
        if isinstance(answer, dict) and "error" in answer:
            raise _failure(answer["error"])

    def load(self) -> Any:
        with self._lock:
            if self._server is None:
                self._server = self._start()
            return self._server

    def _start(self) -> Any:
        # Unless this is set before the library is loaded, idle OpenMP threads spin.
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")
        try:
            import xllamacpp
        except ImportError as error:
            raise MissingExtra("A model in this process", "local") from error
        room = tempfile.mkdtemp(prefix="ziggurat-")
        try:
            server = xllamacpp.Server(self._parameters(xllamacpp.CommonParams(), Path(room)))
            self._template = _read_template(server.listening_address, self._key)
            return server
        except RuntimeError as error:
            raise ModelError(
                f"llama.cpp cannot load {self.path}: {error} If the file is damaged, fetch it again.", transient=False
            ) from error
        finally:
            shutil.rmtree(room, ignore_errors=True)

    def _parameters(self, parameters: Any, room: Path) -> Any:
        parameters.model.path = str(self.path)
        parameters.n_ctx = self.context
        parameters.n_parallel = self.slots
        parameters.kv_unified = True
        parameters.n_batch = _BATCH
        parameters.cache_ram_mib = 256
        parameters.cpuparams.n_threads = self.threads
        parameters.cpuparams_batch.n_threads = self.threads
        parameters.warmup = False
        parameters.ui = False
        parameters.endpoint_slots = False
        parameters.verbosity = -1
        parameters.api_keys = [self._key]
        if sys.platform != "win32":
            parameters.hostnames = [str(room / "model.sock")]
        return parameters


def _processors() -> int:
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


def _check_file(path: Path) -> Path:
    path = path.expanduser()
    if not path.is_file():
        raise ConfigurationError(
            f"there is no model file at {path}; give the path of a GGUF file, or a name listed by: ziggurat models list"
        )
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise ConfigurationError(f"{path} is not a GGUF file: it does not begin with the four bytes GGUF")
    return path.resolve()


def _failure(error: Mapping[str, Any]) -> ModelError:
    code = error.get("code", 500)
    message = str(error.get("message", "unknown error"))
    if error.get("type") == "exceed_context_size_error":
        return ContextOverflow(
            f"the conversation has {error.get('n_prompt_tokens', 'too many')} tokens and the model takes "
            f"{error.get('n_ctx', 'fewer')}; shorten or compact it"
        )
    return ModelError(f"llama.cpp failed ({code}): {message}", transient=code in (429, 503))


_engines: dict[tuple[Path, int, int], Engine] = {}
_engines_lock = threading.Lock()


def engine_for(path: Path, *, slots: int = SLOTS, context: int = CONTEXT) -> Engine:
    with _engines_lock:
        key = (path.expanduser().absolute(), slots, context)
        if key not in _engines:
            _engines[key] = Engine(path, slots=slots, context=context)
        return _engines[key]


def _read_template(address: str, key: str) -> ChatTemplate:
    try:
        properties = _ask(address, key, "GET", "/props")
        hello = {"messages": [{"role": "user", "content": "Hello"}]}
        prompt = str(_ask(address, key, "POST", "/apply-template", hello)["prompt"])
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise ModelError(f"llama.cpp does not tell the model's chat template: {error!r}", transient=False) from error
    can = properties.get("chat_template_caps", {})
    thinks = "<think>" in str(properties.get("chat_template", ""))
    begun = prompt.rstrip().endswith("<think>")
    return ChatTemplate(
        system=bool(can.get("supports_system_role", True)),
        tools=bool(can.get("supports_tools")),
        calls=bool(can.get("supports_tool_calls")),
        thinking="begun" if begun else "optional" if thinks else "never",
    )


def _ask(address: str, key: str, method: str, path: str, body: Any = None) -> dict[str, Any]:
    if address.startswith("unix://"):
        connection = http.client.HTTPConnection("localhost", timeout=_SILENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(_SILENCE)
        connection.sock.connect(address.removeprefix("unix://"))
    else:
        connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=_SILENCE)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            raise ValueError(f"{path} answered {answer.status}")
        read: dict[str, Any] = json.loads(answer.read())
        return read
    finally:
        connection.close()
