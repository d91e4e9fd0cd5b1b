"""A toy engine: the leaves of a run are called elsewhere, by name, and its loop is played again after each."""

import asyncio
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

import msgspec

from tests.hard_cases.support import ByTurn, results_in
from ziggurat import (
    Agent,
    AgentRun,
    Middleware,
    ModelRequest,
    ModelResponse,
    Service,
    ToolCall,
    ToolResult,
    Usage,
    tool,
)
from ziggurat.agents import Environment
from ziggurat.core import Context, root
from ziggurat.core.codec import Raw, as_error, decode, encode, error_to_json
from ziggurat.core.service import name_of
from ziggurat.errors import ModelError
from ziggurat.layers.retry import retry
from ziggurat.messages import tool_call
from ziggurat.testing import run_until_idle

R = TypeVar("R")


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="once")
async def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


SHAKY: list[int] = []
"""Has an item when the inner model has failed once."""


def _settled(request: ModelRequest) -> Any:
    if not SHAKY:  # once
        SHAKY.append(1)
        return ModelError("the line was bad", transient=True)
    return f"It is {results_in(request)[-1].text}."


OUTER = ByTurn(
    [tool_call("helper", id="call_0", input="1 + 2?"), tool_call("add", id="call_1", a=5, b=5)],
    tool_call("pay", id="call_0", to="eve"),
    lambda request: " ".join(result.text for result in results_in(request)),
    name="outer",
)
INNER = ByTurn(tool_call("add", id="call_0", a=1, b=2), _settled, name="inner")

LEAVES: dict[str, Any] = {"outer": OUTER, "inner": INNER, "add": add, "pay": pay}


def composite(*middleware: Middleware, store: Any = None) -> Agent:
    """Return the agent: all that is in it but its leaves is played again and again."""
    helper = Agent(INNER, name="helper", tools=[add]).layered(retry(attempts=3, base=0))
    return Agent(OUTER, name="desk", tools=[helper, add, pay], middleware=list(middleware), store=store)


class Elsewhere(Middleware):
    """Answers leaves from the history; one that is not in it is wanted, and waited for in vain."""

    def __init__(self, history: dict[str, list[bytes]]) -> None:
        self._history = history
        self._seen: dict[str, int] = {}
        self.wanted: list[tuple[str, str, bytes]] = []

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        return await self._leaf(name_of(model), request, ctx, ModelResponse)

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        """Have a tool called elsewhere, unless it is made of other calls."""
        return await self._leaf(call.name, call, ctx, ToolResult) if call.name in LEAVES else await tool(call, ctx)

    async def _leaf(self, name: str, request: object, ctx: Context, kind: type[R]) -> R:
        number = self._seen.get(ctx.path, 0)
        known = self._history.get(ctx.path, [])
        if number == len(known):
            self.wanted.append((ctx.path, name, encode(request)))
            await asyncio.get_running_loop().create_future()
        self._seen[ctx.path] = number + 1
        answer = decode(known[number], Answer)
        if bytes(memoryview(answer.error)):
            error = as_error(answer.error)
            if kind is ModelResponse:  # the model itself is not called here: say that a request was made
                error.usage = Usage(requests=1)  # type: ignore[attr-defined]
            raise error
        return decode(answer.value, kind)


class Answer(msgspec.Struct, omit_defaults=True):
    """What a worker says."""

    value: Raw = Raw(b"")
    error: Raw = Raw(b"")


class Worker:
    """Calls leaves; what comes to it and goes from it is bytes, as between processes."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    async def call(self, path: str, name: str, request: bytes) -> bytes:
        """Call a leaf by its name."""
        self.calls.append((path, name))
        leaf = LEAVES[name]
        kind: type[Any] = ModelRequest if isinstance(leaf, ByTurn) else ToolCall
        try:
            return encode(Answer(value=Raw(encode(await leaf(decode(request, kind), root(path))))))
        except Exception as error:
            return encode(Answer(error=Raw(encode(error_to_json(error)))))


async def played(
    worker: Worker, environment: Callable[[], Environment], store: Callable[[], Any], watch: "Watch"
) -> tuple[AgentRun, Any, int]:
    """Play the composite from the start, again after each leaf, until it ends; return the run, its store, how often."""
    history: dict[str, list[bytes]] = {}
    times = 0
    while True:
        times += 1
        engine, kept = Elsewhere(history), store()
        agent, given = composite(engine, store=kept), environment()
        with watch:
            task = asyncio.ensure_future(agent.run("go", run_id="r", environment=given))
            await run_until_idle()
        if task.done():
            return task.result(), kept, times
        task.cancel()
        await asyncio.wait([task])
        path, name, request = engine.wanted[0]
        history.setdefault(path, []).append(await worker.call(path, name, request))


FORBIDDEN = frozenset(
    {"time", "monotonic", "perf_counter", "time_ns", "monotonic_ns", "perf_counter_ns", "urandom", "random"}
    | {"getrandbits", "getpid", "open", "connect", "stat", "getenv", "uuid4", "now", "sleep"}
)
_ENVIRON = type(os.environ).__getitem__.__code__


class Watch:
    """Notes each time that code of ours reads a clock, chance, a file or the environment of the process."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __enter__(self) -> None:
        sys.setprofile(self._heard)

    def __exit__(self, *raised: object) -> None:
        sys.setprofile(None)

    def _heard(self, frame: FrameType, what: str, called: Any) -> None:
        if what == "c_call" and called.__name__ in FORBIDDEN and _is_ours(frame):
            self.seen.append(f"{called.__qualname__} in {frame.f_code.co_qualname}")
        elif what == "call" and frame.f_code is _ENVIRON:
            back: FrameType | None = frame
            while back is not None and not _is_ours(back):
                back = back.f_back
            if back is not None:
                self.seen.append(f"the environment in {back.f_code.co_qualname}")


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.startswith("ziggurat.") and not name.startswith("ziggurat.testing.")
