"""A plain function is no service: whatever takes a service says so where it is given, and how to mend it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any

import pytest

from ziggurat.agents.runnable import Runnable
from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.layer import stack
from ziggurat.layers.fallback import fallback
from ziggurat.layers.hedge import hedge
from ziggurat.layers.pipeline import pipeline
from ziggurat.layers.retry import retry
from ziggurat.layers.steer import steer


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


@pytest.mark.parametrize(
    "service", [plain, unannotated, Plain(), Plain().method, partial(plain)], ids=lambda each: type(each).__name__
)
@pytest.mark.parametrize("door", DOORS)
def test_a_plain_function_is_refused_with_how_to_mend_it(door: str, service: Any) -> None:
    with pytest.raises(ConfigurationError, match="which is not async: write it as async def"):
        DOORS[door](service)


@pytest.mark.parametrize(
    "service",
    [echo, Async(), Async().passing, awaitable, partial(echo), _wrapped(echo), lambda request, ctx: echo(request, ctx)],
    ids=lambda each: type(each).__name__,
)
@pytest.mark.parametrize("door", DOORS)
def test_what_returns_an_awaitable_is_a_service(door: str, service: Any) -> None:
    made = DOORS[door](service)
    if door != "Runnable":
        assert asyncio.run(made("x", root())) == "x"
