"""Whatever a tool raises, and however it hangs, its call gets a result and the run continues."""

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import pytest

from tests.calls.given import given
from tests.samples import pairs
from ziggurat import Context, Middleware, Toolbox, ToolCall, ToolError, ToolResult, tool
from ziggurat.calls.tool_call import act, call_tools
from ziggurat.core.context import AMBIENT, JOURNAL, Scope
from ziggurat.errors import Suspend
from ziggurat.journal import LocalJournal
from ziggurat.messages import tool_call
from ziggurat.testing import assert_no_leaks
from ziggurat.tools import FunctionTool


def _ctx() -> Context:
    return Context("run", scope=Scope({JOURNAL: LocalJournal()}))


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("cannot say")


class Deadly(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Mute(BaseException):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class Unlooked(Exception):
    """An error that raises SystemExit when an attribute is read."""

    def __getattribute__(self, name: str) -> object:
        raise SystemExit(name)


@dataclass(frozen=True)
class Immovable(Exception):
    """An error that refuses attributes."""

    code: int = 7


def _recursion() -> None:
    _recursion()


def _raising(make: Callable[[], BaseException]) -> Callable[[], None]:
    def go() -> None:
        raise make()

    return go


KINDS: dict[str, Callable[[], None]] = {
    "Exception": _raising(lambda: Exception("boom")),
    "ValueError": _raising(lambda: ValueError("boom")),
    "SystemExit": _raising(lambda: SystemExit(1)),
    "KeyboardInterrupt": _raising(KeyboardInterrupt),
    "GeneratorExit": _raising(GeneratorExit),
    "CancelledError": _raising(asyncio.CancelledError),
    "MemoryError": _raising(MemoryError),
    "RecursionError": _recursion,
    "cannot say its text": _raising(Unspeakable),
    "ends the program when asked for its text": _raising(Deadly),
    "BaseException that ends the program when asked for its text": _raising(Mute),
    "cannot be read": _raising(Unlooked),
    "frozen": _raising(Immovable),
    "ExceptionGroup": _raising(lambda: ExceptionGroup("two", [ValueError("a"), OSError("b")])),
    "BaseExceptionGroup": _raising(lambda: BaseExceptionGroup("two", [SystemExit(1), ValueError("a")])),
    "StopIteration": _raising(lambda: StopIteration("done")),
    "StopAsyncIteration": _raising(lambda: StopAsyncIteration("done")),
    "BaseException": _raising(lambda: BaseException("base")),
    "AssertionError": _raising(lambda: AssertionError("no")),
    "a group of cancellations": _raising(lambda: BaseExceptionGroup("one", [asyncio.CancelledError()])),
}


def _tool(go: Callable[[], None], form: str, timeout: float | None) -> FunctionTool:
    if form == "async":

        @tool(timeout=timeout)
        async def bad() -> str:
            await asyncio.sleep(0)
            go()
            return "never"

    elif form == "sync":

        @tool(timeout=timeout)
        def bad() -> str:
            go()
            return "never"

    else:

        @tool(timeout=timeout)
        async def bad() -> Any:
            yield "so far "
            go()

    return bad


@tool
async def good(number: int) -> int:
    for _ in range(10):
        await asyncio.sleep(0)
    return number


class Hooked(Middleware):
    """Makes calls pass through all stages."""

    async def after_tool(self, result: ToolResult, ctx: Context) -> None:
        """Leave it."""

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        """Hear of it."""


@pytest.mark.parametrize(
    ("kind", "form", "timeout", "hooked"), pairs(KINDS, ["async", "sync", "stream"], [None, 60.0], [False, True])
)
async def test_whatever_a_tool_raises_its_call_has_a_result(
    kind: str, form: str, timeout: float | None, hooked: bool
) -> None:
    box = Toolbox([_tool(KINDS[kind], form, timeout), good])
    async with assert_no_leaks():
        ctx = given(_ctx(), Hooked()) if hooked else _ctx()
        result = await act(box, ToolCall("c", "bad"), ctx.at("alone"))
        assert result.id == "c"
        assert result.name == "bad"
        assert result.error == "permanent"
        assert result.text
        calls = (tool_call("good", id="a", number=1), ToolCall("b", "bad"), tool_call("good", id="c", number=3))
        results = await call_tools(box, calls, ctx, "step-1")
        assert [each.id for each in results] == ["a", "b", "c"]
        assert [each.text for each in results[::2]] == ["1", "3"], "siblings are unaffected"
        assert results[1].error == "permanent"
        await asyncio.sleep(0)  # the loop is alive
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


@pytest.mark.parametrize("form", ["async", "sync", "stream"])
async def test_a_suspension_passes_through(form: str) -> None:
    def go() -> None:
        raise Suspend(("x",))

    box = Toolbox([_tool(go, form, None), _tool_named(_tool(go, form, 60.0), "timed")])
    for name in ("bad", "timed"):
        with pytest.raises(Suspend):
            await act(box, ToolCall("c", name), _ctx())


def _tool_named(made: FunctionTool, name: str) -> FunctionTool:
    return tool(name=name, timeout=made.spec.timeout)(made.function)


async def test_our_own_cancellation_passes_through() -> None:
    async with assert_no_leaks():
        entered = asyncio.Event()

        @tool
        async def hangs() -> str:
            entered.set()
            await asyncio.Event().wait()
            return "never"

        task = asyncio.ensure_future(act(Toolbox([hangs]), ToolCall("c", "hangs"), _ctx()))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_the_ambient_context_is_set_around_the_function_only() -> None:
    seen: list[Context | None] = []

    @tool
    async def look() -> str:
        seen.append(AMBIENT.get())
        return ""

    @tool
    def look_in_thread() -> str:
        seen.append(AMBIENT.get())
        return ""

    box = Toolbox([look, look_in_thread])
    for name in box:
        await act(box, ToolCall("c", name), _ctx().at(name))
        assert AMBIENT.get() is None
    assert [ctx.path if ctx else None for ctx in seen] == ["run/look", "run/look_in_thread"]


async def test_what_a_tool_says_of_its_own_failure_is_its_kind() -> None:
    @tool
    async def busy() -> str:
        raise ToolError("come back later", kind="transient")

    @tool
    async def slow() -> str:
        raise TimeoutError("upstream")

    @tool
    async def down() -> str:
        raise ConnectionRefusedError("no")

    box = Toolbox([busy, slow, down])
    results = await call_tools(box, tuple(ToolCall(name, name) for name in box), _ctx(), "step-1")
    assert [each.error for each in results] == ["transient", "timeout", "transient"]
    assert results[0].text == "come back later"


@pytest.mark.parametrize("threaded", [False, True], ids=["async", "sync"])
async def test_a_context_variable_that_a_tool_sets_ends_with_the_tool(threaded: bool) -> None:
    user = ContextVar("user", default="nobody")

    def change(name: str) -> str:
        before = user.get()
        user.set(name)
        return before

    async def change_async(name: str) -> str:
        return change(name)

    named = tool(name="change")
    box = Toolbox([named(change) if threaded else named(change_async)])
    user.set("ann")
    ben, cleo = (ToolCall(name, "change", f'{{"name": "{name}"}}') for name in ("ben", "cleo"))
    alone = [await act(box, call, _ctx().at(call.id)) for call in (ben, cleo)]
    beside = await call_tools(box, (ben, cleo), _ctx(), "step-1")
    assert [each.text for each in (*alone, *beside)] == ["ann"] * 4
    assert user.get() == "ann"
