import asyncio
import pydoc
from functools import partial
from inspect import signature
from typing import TypeVar

import pytest

from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.layer import Layered, layer, stack
from ziggurat.core.service import Service

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


def test_a_plain_function_is_a_service() -> None:
    assert call(shout) == "Q"
    assert call(stack(shout)) == "Q"


def test_the_first_listed_meets_the_request_first() -> None:
    service = stack(shout, tagged(tag="a"), tagged(tag="b"))
    assert call(service) == "abQAB"


def test_a_settings_default_holds() -> None:
    assert call(stack(shout, tagged(tag="a", times=2))) == "aaQA"


def test_a_configured_layer_may_be_put_around_several_services() -> None:
    tag = tagged(tag="a")
    assert (call(stack(shout, tag)), call(stack(Tiny(), tag))) == ("aQA", "aqa")


def test_stacks_stack() -> None:
    assert call(stack(stack(shout, tagged(tag="b")), tagged(tag="a"))) == "abQAB"


def test_a_stack_prints_as_it_is_written() -> None:
    service = stack(Tiny(), tagged(tag="a", times=2), same(), tagged(tag="b"))
    assert repr(service) == "tagged(tag='a', times=2) > same() > tagged(tag='b') > tiny('x')"
    assert repr(stack(shout, same())) == "same() > shout"


def test_settings_print_readably() -> None:
    assert repr(stack(shout, with_helper(key=len, limits=(1, 2)))) == "with_helper(key=len, limits=(1, 2)) > shout"
    assert repr(tagged(tag="a")) == "tagged(tag='a')"


def test_a_layer_keeps_the_name_and_documentation_of_its_function() -> None:
    assert tagged.__name__ == "tagged"
    assert tagged.__doc__ == "Put a tag around a request and its response."
    assert tagged.__module__ == __name__


def test_what_is_wrapped_is_reached_as_inner() -> None:
    service = stack(shout, tagged(tag="a"))
    assert isinstance(service, Layered)
    assert service.inner is shout


# -- mistakes, found where they are made ---------------------------------------------------------------------------


def test_settings_are_keywords() -> None:
    with pytest.raises(ConfigurationError, match=r"tagged\(\) takes the keywords tag, times; it takes no positional"):
        tagged("a")  # type: ignore[call-arg]


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(ConfigurationError, match="takes the keywords tag, times; unknown: tga"):
        tagged(tga="a")  # type: ignore[call-arg]


def test_a_missing_setting_is_named() -> None:
    with pytest.raises(ConfigurationError, match="missing: tag"):
        tagged()  # type: ignore[call-arg]


def test_a_layer_without_settings_says_so() -> None:
    with pytest.raises(ConfigurationError, match="takes the keywords none"):
        same(x=1)  # type: ignore[call-arg]


def test_forgotten_brackets_are_found() -> None:
    with pytest.raises(ConfigurationError, match="takes no positional arguments"):
        stack(shout, same)  # type: ignore[arg-type]


async def too_few(request: str, ctx: Context) -> str:
    return request


async def positional(request: str, ctx: Context, inner: Service[str, str], seconds: float) -> str:
    return request


async def star(request: str, ctx: Context, inner: Service[str, str], *more: object) -> str:
    return request


@pytest.mark.parametrize("body", [too_few, positional, star, partial(positional, seconds=1.0), Tiny()])
def test_a_function_of_another_form_is_no_layer(body: object) -> None:
    with pytest.raises(ConfigurationError, match=r"a layer is a function \(request, ctx, inner, \*, settings...\)"):
        layer(body)  # type: ignore[call-overload]


@pytest.mark.parametrize("service", [None, "gpt", 3])
def test_a_stack_stands_on_a_service(service: object) -> None:
    with pytest.raises(ConfigurationError, match="needs a service first"):
        stack(service)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("service", "told"),
    [
        ("house:one", r"got the string 'house:one'; .*models.resolve\('house:one'\)"),
        (str, "got the class str; make an object of it"),
    ],
)
def test_a_stack_says_how_a_service_is_made(service: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        stack(service, same())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("each", "told"),
    [
        (lambda: None, "is called with the service alone, and failed: "),
        (lambda service, seconds: None, "is called with the service alone, and failed: .*'seconds'"),
        (print, "a layer returns a service; print returned None"),
        (type, "a layer returns a service; type returned function"),
    ],
)
def test_what_makes_no_service_of_a_service_is_no_layer(each: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        stack(shout, each)  # type: ignore[arg-type]


def test_a_stack_without_its_service_is_found() -> None:
    with pytest.raises(ConfigurationError, match=r"needs a service first, got tagged\(tag='a'\)"):
        stack(tagged(tag="a"), same())  # type: ignore[arg-type]


def test_only_layers_follow_the_service() -> None:
    for wrong in (shout, stack(shout, same()), 3, None):
        with pytest.raises(ConfigurationError, match="needs layers after the service"):
            stack(shout, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("inner", [None, 3, tagged(tag="b")])
def test_a_layer_goes_around_a_service(inner: object) -> None:
    with pytest.raises(ConfigurationError, match=r"tagged\(tag='a'\) wraps a service"):
        tagged(tag="a")(inner)  # type: ignore[arg-type]


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


def test_a_layer_that_is_not_async_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="write async def plain"):

        @layer  # type: ignore[arg-type]
        def plain(request: str, ctx: Context, inner: Service[str, str]) -> str:
            return request


def test_help_shows_the_settings_of_a_layer_with_their_types_and_defaults() -> None:
    assert str(signature(tagged)) == "(*, tag: str, times: int = 1)"
    assert str(signature(same)) == "()"
    assert "tagged(*, tag: str, times: int = 1)\n    Put a tag" in pydoc.plain(pydoc.render_doc(tagged))
