"""`act`: what layers and hooks may do to a call, and what they may not."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.samples import pairs
from ziggurat import Context, Middleware, Service, Toolbox, ToolCall, ToolResult, layer, stack, tool
from ziggurat.calls.hooks import given
from ziggurat.calls.tool_call import act
from ziggurat.core import JOURNAL, RUN_ID, LocalJournal, Scope
from ziggurat.core.entries import Intent, Result
from ziggurat.errors import NotRepeatable
from ziggurat.layers import retry
from ziggurat.messages import tool_call


def _ctx(*middleware: Middleware, journal: LocalJournal | None = None) -> Context:
    ctx = Context("run/tool", scope=Scope({JOURNAL: journal or LocalJournal(), RUN_ID: "r"}))
    return given(ctx, *middleware) if middleware else ctx


# -- layers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarded", [False, True])
async def test_a_layer_cannot_change_what_is_run(guarded: bool) -> None:
    @layer
    async def sly(call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        return await tool(replace(call, arguments='{"amount": 100}'), ctx.under("elsewhere"))

    runs: list[int] = []

    @tool
    async def pay(amount: int) -> str:
        runs.append(amount)
        return "paid"

    ctx = _ctx(*([Middleware()] if guarded else []))
    result = await act(Toolbox([stack(pay, sly())]), tool_call("pay", amount=1), ctx)
    assert result.error == "permanent"
    assert "approved" in result.text
    assert runs == []


async def test_every_try_gets_arguments_of_its_own() -> None:
    seen: list[list[int]] = []

    @tool
    async def drain(numbers: list[int]) -> str:
        seen.append(list(numbers))
        numbers.clear()
        if len(seen) < 3:
            raise ConnectionError
        return "done"

    box = Toolbox([stack(drain, retry(attempts=3, base=0))])
    assert (await act(box, tool_call("drain", numbers=[1, 2]), _ctx())).text == "done"
    assert seen == [[1, 2]] * 3


@pytest.mark.parametrize(
    ("kind", "around", "seconds"), pairs(["async", "sync", "service"], ["layer", "wrap_tool"], [None, 5.0])
)
async def test_what_acts_once_is_run_once_when_it_is_asked_for_twice_at_the_same_time(
    around: str, kind: str, seconds: float | None
) -> None:
    runs: list[int] = []

    @tool(effect="once", timeout=seconds)
    async def pay() -> str:
        await asyncio.sleep(0)
        runs.append(1)
        return "paid"

    @tool(name="pay", effect="once", timeout=seconds)
    def pay_in_thread() -> str:
        runs.append(1)
        return "paid"

    async def twice(call: ToolCall, ctx: Context, inner: Service[ToolCall, ToolResult]) -> ToolResult:
        both: list[Any] = await asyncio.gather(inner(call, ctx), inner(call, ctx), return_exceptions=True)
        first, second = both
        assert isinstance(first, ToolResult)
        assert isinstance(second, NotRepeatable)
        return first

    class Twice(Middleware):
        async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Any) -> ToolResult:
            return await twice(call, ctx, tool) if around == "wrap_tool" else await tool(call, ctx)

    @layer
    async def doubled(call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        return await twice(call, ctx, tool)

    service: Any = pay_in_thread if kind == "sync" else stack(pay, retry(attempts=1)) if kind == "service" else pay
    box = Toolbox([stack(service, doubled()) if around == "layer" else service])
    assert (await act(box, tool_call("pay"), _ctx(Twice()))).text == "paid"
    assert runs == [1]


def test_what_does_not_fit_meets_no_layer() -> None:
    met: list[ToolCall] = []

    @layer
    async def counting(call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        met.append(call)
        return await tool(call, ctx)

    @tool
    async def square(number: int) -> int:
        return number * number

    box = Toolbox([stack(square, counting())])
    assert asyncio.run(act(box, tool_call("square", number="many"), _ctx())).error == "invalid_arguments"
    assert met == []
    assert asyncio.run(act(box, tool_call("square", number=3), _ctx())).text == "9"
    assert len(met) == 1


# -- hooks -----------------------------------------------------------------------------------------------------------


class Wrong(Middleware):
    """Misbehaves in one of its hooks."""

    def __init__(self, where: str) -> None:
        self.where = where

    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall | None:
        if self.where == "raises before":
            raise ValueError("not today")
        if self.where == "renames":
            return replace(call, name="other")
        if self.where == "breaks arguments":
            return replace(call, arguments='{"amount": "many"}')
        return replace(call, id="mine") if self.where == "changes the id" else None

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult | None:
        if self.where == "raises after":
            raise ValueError("cannot redact")
        return replace(result, id="mine") if self.where == "changes the id" else None

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        if self.where == "answers itself":
            return ToolResult(call.id, call.name, "from a cache")
        return await tool(call, ctx)


class Told(Middleware):
    """Collects the errors passed to `on_error`."""

    def __init__(self, errors: list[BaseException]) -> None:
        self.errors = errors

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        self.errors.append(error)


@pytest.mark.parametrize(
    ("where", "error", "text", "runs"),
    [
        ("raises before", "permanent", "not today", 0),
        ("renames", "permanent", "turned the call of pay into one of other", 0),
        ("breaks arguments", "invalid_arguments", "amount", 0),
        ("raises after", "permanent", "cannot redact", 1),
        ("changes the id", None, "paid", 1),
        ("answers itself", None, "from a cache", 0),
    ],
)
async def test_hooks_that_misbehave_make_a_result(where: str, error: str | None, text: str, runs: int) -> None:
    ran: list[int] = []
    errors: list[BaseException] = []

    @tool
    async def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    ctx = _ctx(Wrong(where), Told(errors))
    result = await act(Toolbox([pay]), tool_call("pay", id="1", amount=1), ctx)
    assert (result.id, result.error) == ("1", error)
    assert text in result.text
    assert len(ran) == runs
    assert len(errors) == (0 if error is None else 1), "each error is told of once"


async def test_a_hook_may_rewrite_the_arguments_and_that_is_what_runs() -> None:
    class Cap(Middleware):
        async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall:
            return replace(call, arguments='{"amount": 10}')

    @tool
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    journal = LocalJournal()
    assert (await act(Toolbox([pay]), tool_call("pay", amount=99), _ctx(Cap(), journal=journal))).text == "paid 10"
    (intent,) = [entry for entry in journal.entries if isinstance(entry, Intent)]
    assert isinstance(intent.request, ToolCall)
    assert intent.request.arguments == '{"amount":10}'
    (result,) = [entry for entry in journal.entries if isinstance(entry, Result)]
    assert isinstance(result.request, ToolCall)
    assert result.request.arguments == '{"amount":99}', "looked up by what the model asked"
