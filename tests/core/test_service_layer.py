import asyncio
import pydoc
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import TypeVar

import pytest

from tests.wrong import wrong
from ziggurat import ConfigurationError, Context, Service, layer, stack
from ziggurat.core import root
from ziggurat.core.service import Layered

Q = TypeVar("Q")
R = TypeVar("R")


async def shout(request: str, ctx: Context) -> str:
    return request.upper()


class Tiny:
    async def __call__(self, request: str, ctx: Context) -> str:
        return request

    def __repr__(self) -> str:
        return "tiny('x')"


@layer
async def tagged(request: str, ctx: Context, inner: Service[str, str], *, tag: str, times: int = 1) -> str:
    """Put a tag around a request and its response."""
    return f"{tag * times}{await inner(f'{request}{tag}', ctx)}"


@layer
async def same(request: Q, ctx: Context, inner: Service[Q, R]) -> R:
    return await inner(request, ctx)


@layer
async def with_helper(
    request: str, ctx: Context, inner: Service[str, str], *, key: object = None, limits: tuple[int, ...] = ()
) -> str:
    return await inner(request, ctx)


def call(service: Service[str, str], request: str = "q") -> str:
    async def main() -> str:
        return await service(request, root())

    return asyncio.run(main())


def test_the_first_listed_meets_the_request_first() -> None:
    assert call(shout) == call(stack(shout)) == "Q"
    assert call(stack(shout, tagged(tag="a"), tagged(tag="b"))) == "abQAB"
    assert call(stack(stack(shout, tagged(tag="b")), tagged(tag="a"))) == "abQAB"
    assert call(stack(shout, tagged(tag="a", times=2))) == "aaQA"


def test_a_configured_layer_may_be_put_around_several_services() -> None:
    tag = tagged(tag="a")
    assert (call(stack(shout, tag)), call(stack(Tiny(), tag))) == ("aQA", "aqa")


def test_a_stack_prints_as_it_is_written() -> None:
    service = stack(Tiny(), tagged(tag="a", times=2), same(), tagged(tag="b"))
    assert repr(service) == "tagged(tag='a', times=2) > same() > tagged(tag='b') > tiny('x')"
    assert repr(stack(shout, with_helper(key=len, limits=(1, 2)))) == "with_helper(key=len, limits=(1, 2)) > shout"


def test_a_layer_keeps_the_name_and_documentation_of_its_function() -> None:
    assert (tagged.__name__, tagged.__module__) == ("tagged", __name__)
    assert tagged.__doc__ == "Put a tag around a request and its response."
    assert str(signature(tagged)) == "(*, tag: str, times: int = 1)"
    assert "tagged(*, tag: str, times: int = 1)\n    Put a tag" in pydoc.plain(pydoc.render_doc(tagged))


def test_what_is_wrapped_is_reached_as_inner() -> None:
    service = stack(shout, tagged(tag="a"))
    assert isinstance(service, Layered)
    assert service.inner is shout


async def too_few(request: str, ctx: Context) -> str:
    return request


async def positional(request: str, ctx: Context, inner: Service[str, str], seconds: float) -> str:
    return request


async def star(request: str, ctx: Context, inner: Service[str, str], *more: object) -> str:
    return request


def plain(request: str, ctx: Context, inner: Service[str, str]) -> str:
    return request


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: wrong(tagged)("a"), "tagged(...)"),
    (lambda: wrong(tagged)(tga="a"), "unknown: tga"),
    (lambda: wrong(tagged)(), "missing: tag"),
    (lambda: wrong(same)(x=1), "none"),
    (lambda: stack(shout, wrong(same)), "same(...)"),  # brackets were forgotten
    *[(lambda each=each: layer(wrong(each)), "ctx, inner") for each in (too_few, positional, star, Tiny())],
    (lambda: layer(wrong(partial(positional, seconds=1.0))), "ctx, inner"),
    (lambda: layer(wrong(plain)), "async def plain"),
    *[(partial(stack, wrong(each)), "service first") for each in (None, "gpt", 3)],
    (lambda: stack(wrong("house:one"), same()), "providers.resolve"),
    (lambda: stack(wrong(str), same()), "make an object of it"),
    (lambda: stack(wrong(tagged(tag="a")), same()), "tagged"),
    (lambda: stack(shout, wrong(lambda: None)), "service alone"),
    (lambda: stack(shout, wrong(lambda service, seconds: None)), "'seconds'"),
    (lambda: stack(shout, wrong(print)), "print returned None"),
    (lambda: stack(shout, wrong(type)), "type returned function"),
    (lambda: stack(shout, wrong(lambda service: shout("a", root()))), "returned <coroutine object shout"),
    (lambda: stack(wrong(asyncio), same()), "got <module 'asyncio'"),
    *[(partial(stack, shout, wrong(each)), "layers after") for each in (shout, stack(shout, same()), 3, None)],
    *[(partial(tagged(tag="a"), wrong(each)), "tagged") for each in (None, 3, tagged(tag="b"))],
]


@pytest.mark.parametrize(("make", "told"), MISTAKES)
def test_a_mistake_is_found_where_it_is_made(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert told in str(caught.value)


def test_a_check_refuses_settings_where_the_layer_is_made() -> None:
    def positive(*, seconds: float, grace: float) -> None:
        if seconds <= grace:
            raise ConfigurationError(f"seconds must be over {grace}, got {seconds}")

    @layer(check=positive)
    async def limited(request: Q, ctx: Context, inner: Service[Q, R], *, seconds: float, grace: float = 0.0) -> R:
        return await inner(request, ctx)

    assert call(stack(shout, limited(seconds=1.0))) == "Q"
    with pytest.raises(ConfigurationError, match="must be over"):
        limited(seconds=0.0)
