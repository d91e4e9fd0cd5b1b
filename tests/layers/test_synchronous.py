"""A service that is not async raises an error that says so when it is called."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any

import pytest

from ziggurat import Agent, ConfigurationError, Context, Middleware, Runnable, layer, open_stream, stack
from ziggurat.agents.memory.policies import FactsBy
from ziggurat.compaction import Compaction, Recent, Summary, over_messages
from ziggurat.core import root
from ziggurat.flows import flow
from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.pipeline import pipeline, steer
from ziggurat.layers.retry import retry
from ziggurat.memory import Remembering, everything_said
from ziggurat.middleware import everywhere
from ziggurat.testing import ScriptedModel


async def echo(request: Any, ctx: Context) -> Any:
    return request


def plain(request: Any, ctx: Context) -> str:
    return "x"


def unannotated(request, ctx):  # type: ignore[no-untyped-def]
    return "x"


class Plain:
    def __call__(self, request: Any, ctx: Context) -> str:
        return "x"

    def method(self, request: Any, ctx: Context) -> str:
        return "x"


class Async:
    async def __call__(self, request: Any, ctx: Context) -> Any:
        return request

    def passing(self, request: Any, ctx: Context) -> Coroutine[Any, Any, Any]:
        return self(request, ctx)


def awaitable(request: Any, ctx: Context) -> "Awaitable[Any]":
    return echo(request, ctx)


def _wrapped(function: Any) -> Any:
    @wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


DOORS: dict[str, Callable[[Any], Any]] = {
    "stack": lambda service: stack(service, retry()),
    "stack alone": stack,
    "layer": lambda service: retry()(service),
    "a layer's answer": lambda service: stack(echo, lambda inner: service),
    "fallback": lambda service: fallback(echo, service),
    "hedge": lambda service: hedge(service, delay=1),
    "pipeline": lambda service: pipeline(echo, service),
    "steer": lambda service: steer(lambda request, ctx: "only", only=service),
    "Runnable": lambda service: Runnable(service, name="x"),
}


@pytest.mark.parametrize("door", DOORS)
async def test_a_service_returns_an_awaitable(door: str) -> None:
    for each in (echo, Async(), Async().passing, awaitable, partial(echo), _wrapped(echo), lambda *args: echo(*args)):
        made = DOORS[door](each)
        if door != "Runnable":
            assert await made("x", root()) == "x"


def untyped(request: Any, ctx: Context) -> Any:
    return "x"


class Untyped:
    def __call__(self, request: Any, ctx: Context) -> Any:
        return "x"


@layer
async def passing(request: Any, ctx: Context, inner: Any) -> Any:
    return await inner(request, ctx)


UNSURE = [lambda request, ctx: "x", untyped, Untyped(), partial(untyped), partial(lambda request, ctx: None)]
PLAIN = [plain, unannotated, Plain(), Plain().method, partial(plain)]


UNSURE_DOORS: dict[str, Callable[[Any], Any]] = {
    **DOORS,
    "fallback": lambda service: fallback(service, service),
    "own layer": lambda service: stack(service, passing()),
    "Agent": Agent,
    "everywhere": lambda service: Agent(ScriptedModel("x"), middleware=[everywhere(model=[lambda inner: service])]),
}


@pytest.mark.parametrize("door", UNSURE_DOORS)
async def test_what_turns_out_not_to_be_async_is_named_where_it_is_called(door: str) -> None:
    for service in UNSURE if door in ("Agent", "everywhere", "Runnable") else [*UNSURE, *PLAIN]:
        made = UNSURE_DOORS[door](service)
        call = made.run("x") if isinstance(made, Runnable) else None
        with pytest.raises(ConfigurationError, match="async def"):
            await (call or made("x", root()))


BESIDE: dict[str, Callable[[Any], Middleware]] = {
    "reducer": lambda service: Compaction(over_messages(1), keep=Recent(messages=1), reduce=service),
    "summary": lambda service: Compaction(over_messages(1), keep=Recent(messages=1), reduce=Summary(model=service)),
    "facts": lambda service: Remembering("memory:", "ann", remember=FactsBy(model=service)),
    "embedder": lambda service: Remembering("memory:", "ann", embedder=service, remember=everything_said),
}


@pytest.mark.parametrize("beside", BESIDE)
async def test_a_service_beside_the_model_that_turns_out_not_to_be_async_is_named(beside: str) -> None:
    for service in UNSURE:
        agent = Agent(ScriptedModel("one", "two", "three"), middleware=[BESIDE[beside](service)])
        with pytest.raises(ConfigurationError, match="async def"):
            for text in ("I live in Rome.", "I like tea.", "Where do I live?"):
                await agent.run(text, session="s")


@pytest.mark.parametrize("service", UNSURE, ids=lambda each: type(each).__name__)
async def test_a_stream_and_a_recorded_call_of_what_is_not_async_say_so(service: Any) -> None:
    with pytest.raises(ConfigurationError, match="awaited"):
        async with open_stream(service, "x") as events:
            async for _ in events:
                pass

    @flow
    async def asks(ctx: Context) -> str:
        return await ctx.once("thing", 1, service, returns=str)

    with pytest.raises(ConfigurationError, match="async function"):
        asks.run_sync(None)
