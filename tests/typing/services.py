"""What the type checker must infer of services, layers and stacks, and what it must refuse.

Read by mypy, never run. An error that is expected is marked; a mark without an error is an error too.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, assert_type

from ziggurat.core.context import Context, Key, Scope
from ziggurat.core.service import Service, layer, stack
from ziggurat.core.stream import open_stream
from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.cache import CacheStore, DedupeStore, cache, dedupe
from ziggurat.layers.pipeline import pipeline, steer, tap
from ziggurat.layers.retry import retry, timeout
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ModelRequest, ModelResponse

Q = TypeVar("Q")
R = TypeVar("R")


class Model:
    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        raise NotImplementedError


class Tool:
    async def __call__(self, request: ToolCall, ctx: Context, /) -> ToolResult:
        raise NotImplementedError


async def model(request: ModelRequest, ctx: Context) -> ModelResponse:

    raise NotImplementedError


async def length(request: str, ctx: Context) -> int:
    return len(request)


@layer
async def any_service(request: Q, ctx: Context, inner: Service[Q, R], *, seconds: float = 1.0) -> R:
    return await inner(request, ctx)


@layer
async def models_only(
    request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse], *, word: str
) -> ModelResponse:
    return await model(request, ctx)


@layer
async def tools_only(request: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
    return await tool(request, ctx)


# -- functions and objects are services ----------------------------------------------------------------------------

a_function: Service[ModelRequest, ModelResponse] = model
an_object: Service[ModelRequest, ModelResponse] = Model()
wider_request: Service[bool, object] = length  # type: ignore[assignment]


async def takes_anything(request: object, ctx: Context) -> bool:
    return bool(request)


contravariant: Service[str, int] = takes_anything


def not_async(request: str, ctx: Context) -> int:
    return len(request)


async def no_context(request: str) -> int:
    return len(request)


sync_is_no_service: Service[str, int] = not_async  # type: ignore[assignment]
context_is_needed: Service[str, int] = no_context  # type: ignore[assignment]


# -- a stack keeps the types of what it stands on ------------------------------------------------------------------

assert_type(stack(Model()), Service[ModelRequest, ModelResponse])
assert_type(stack(model, any_service()), Service[ModelRequest, ModelResponse])
assert_type(stack(Tool(), any_service(seconds=3)), Service[ToolCall, ToolResult])
assert_type(stack(length, any_service(), any_service()), Service[str, int])
assert_type(stack(Model(), any_service(), models_only(word="x")), Service[ModelRequest, ModelResponse])
assert_type(stack(Tool(), tools_only()), Service[ToolCall, ToolResult])
assert_type(stack(stack(Model(), any_service()), any_service()), Service[ModelRequest, ModelResponse])

wrong_thing = stack(Tool(), models_only(word="x"))  # type: ignore[arg-type]
wrong_thing_too = stack(Model(), any_service(), tools_only())  # type: ignore[arg-type]
stack("gpt")  # type: ignore[arg-type]
no_layer = stack(Model(), Model())  # type: ignore[arg-type]
forgotten_brackets = stack(Model(), any_service)  # type: ignore[arg-type]


# -- settings of a layer are checked -------------------------------------------------------------------------------

any_service(seconds="long")  # type: ignore[arg-type]
any_service(second=1.0)  # type: ignore[call-arg]
any_service(1.0)  # type: ignore[call-arg]
models_only()  # type: ignore[call-arg]
models_only(word=1)  # type: ignore[arg-type]


# -- a configured layer is a value ---------------------------------------------------------------------------------

ForModels = Callable[[Service[ModelRequest, ModelResponse]], Service[ModelRequest, ModelResponse]]
ForTools = Callable[[Service[ToolCall, ToolResult]], Service[ToolCall, ToolResult]]
for_models: ForModels = models_only(word="x")
generic_for_models: ForModels = any_service()
for_tools: ForTools = models_only(word="x")  # type: ignore[assignment]
assert_type(stack(Model(), for_models, generic_for_models), Service[ModelRequest, ModelResponse])


def checked(*, seconds: float) -> None: ...


@layer(check=checked)
async def with_check(request: Q, ctx: Context, inner: Service[Q, R], *, seconds: float) -> R:
    return await inner(request, ctx)


assert_type(stack(length, with_check(seconds=1)), Service[str, int])
with_check()  # type: ignore[call-arg]
with_check(seconds="1")  # type: ignore[arg-type]


@layer  # type: ignore[misc]
async def changes_the_type(request: str, ctx: Context, inner: Service[str, int]) -> str:
    return str(await inner(request, ctx))


# -- the layers that come along ------------------------------------------------------------------------------------

assert_type(stack(Model(), retry(attempts=3), timeout(seconds=30)), Service[ModelRequest, ModelResponse])
assert_type(stack(length, retry(), cache(store=CacheStore()), timeout(seconds=1)), Service[str, int])
assert_type(fallback(Model(), model), Service[ModelRequest, ModelResponse])
assert_type(stack(fallback(length, length), retry()), Service[str, int])
assert_type(hedge(model, Model(), delay=1.0), Service[ModelRequest, ModelResponse])
retry(attempts="3")  # type: ignore[arg-type]
retry(tries=3)  # type: ignore[call-arg]
timeout(30)  # type: ignore[call-arg]
assert_type(stack(length, dedupe(store=DedupeStore(), key=str)), Service[str, int])
dedupe(store={})  # type: ignore[arg-type]
stack(length, tap(on_request=print, on_error=lambda error, ctx: None))
tap(on_request="print")  # type: ignore[arg-type]


def by_length(request: ModelRequest, ctx: Context) -> str:
    return "long" if len(request.messages) > 20 else "short"


async def by_name(request: str, ctx: Context) -> str:
    return request


async def double(request: int, ctx: Context) -> float:
    return 2.0 * request


assert_type(steer(by_length, short=Model(), long=model), Service[ModelRequest, ModelResponse])
assert_type(steer(by_name, a=length, b=stack(length, retry())), Service[str, int])
assert_type(stack(steer(lambda request, ctx: "a", a=Model()), retry()), Service[ModelRequest, ModelResponse])
steered_wrong: Service[ModelRequest, ModelResponse] = steer(by_length, a=Tool())  # type: ignore[arg-type]
steered: Service[ModelRequest, ModelResponse] = steer(by_length, a=Model(), b=Tool())  # type: ignore[arg-type]
assert_type(pipeline(length, double), Service[str, float])
assert_type(pipeline(stack(length, timeout(seconds=1)), double, takes_anything), Service[str, bool])
assert_type(stack(pipeline(length, double), retry()), Service[str, float])
pipeline(double, length)  # type: ignore[misc]
pipeline(Model(), Tool())  # type: ignore[misc]
mixed: Service[ModelRequest, ModelResponse] = fallback(Model(), Tool())  # type: ignore[arg-type]


# -- contexts and streams ------------------------------------------------------------------------------------------

COUNT = Key[int]("count")


async def calls(ctx: Context, scope: Scope) -> None:
    assert_type(scope[COUNT], int)
    assert_type(scope.get(COUNT), int | None)
    assert_type(ctx.within(COUNT, 3), Context)
    ctx.within(COUNT, "three")  # type: ignore[misc]
    scope.with_value(COUNT, "three")  # type: ignore[misc]
    assert_type(ctx.remaining(), float | None)
    assert_type(ctx.state(scope, lambda: [1]), list[int])
    assert_type(await ctx.once("n", "q", length, returns=int), int)
    await ctx.once("n", 3, length, returns=int)  # type: ignore[arg-type]
    a_text: Awaitable[str] = ctx.once("n", "q", length, returns=str)  # type: ignore[arg-type]
    await a_text
    async with ctx.limit(3) as limited:
        assert_type(limited, Context)
    assert_type(await stack(length, retry())("x", ctx), int)
    await length(3, ctx)  # type: ignore[arg-type]
    async with open_stream(length, "x") as events:
        async for event in events:
            assert_type(event.path, str)
        assert_type(events.response, int)
    open_stream(length, 3)  # type: ignore[arg-type]
    ctx.path = "x"  # type: ignore[misc]


def awaited(call: Callable[[str, Context], Awaitable[int]]) -> Service[str, int]:
    return call  # type: ignore[return-value]


async def tasks(ctx: Context, service: Service[str, int]) -> None:
    assert_type(asyncio.create_task(service("x", ctx)), asyncio.Task[int])
    async with asyncio.TaskGroup() as group:
        assert_type(group.create_task(stack(service, retry())("x", ctx)), asyncio.Task[int])


async def scaled(request: str, ctx: Context, *, by: int) -> int:
    return by * len(request)


partly: Service[str, int] = partial(scaled, by=2)
partly_layered: Service[str, int] = stack(partial(scaled, by=2), retry())
