from collections.abc import Awaitable
from typing import Any, ClassVar, TypeVar

from ziggurat import Context, Service, layer, stack
from ziggurat.core.service import COMPOSITE, EFFECT, NAME, RETURNS, Effect, Fact, fact, name_of, returns_of, strongest

Q = TypeVar("Q")

WINDOW: Fact[int | None] = Fact("window", None)


class Model:
    def __init__(self, **facts: object) -> None:
        self.facts = {NAME: "tiny", WINDOW: 4096} | facts

    async def __call__(self, request: str, ctx: Context) -> str:
        return request


@layer
async def plain(request: str, ctx: Context, inner: Service[str, str]) -> str:
    return await inner(request, ctx)


class Renamed:
    """A wrapper with one fact of its own."""

    def __init__(self, inner: Service[str, str]) -> None:
        self.inner = inner
        self.facts = {NAME: "renamed"}

    async def __call__(self, request: str, ctx: Context) -> str:
        return await self.inner(request, ctx)


def test_a_service_states_facts_and_others_have_their_default() -> None:
    assert fact(Model(), WINDOW) == 4096
    assert fact(Model(), COMPOSITE) is False
    assert fact(object(), WINDOW) is None
    assert fact(Model(), Fact("window", "mine")) == "mine", "another fact of the same name"


def test_the_first_statement_counts_through_all_layers() -> None:
    assert fact(stack(Model(), plain(), plain(), plain()), WINDOW) == 4096
    assert name_of(stack(Model(), plain())) == "tiny"
    wrapped = stack(Renamed(Model()), plain())
    assert name_of(wrapped) == "renamed"
    assert fact(wrapped, WINDOW) == 4096


def test_a_service_that_states_no_name_is_called_by_its_function_or_class() -> None:
    async def search(request: str, ctx: Context) -> str:
        return request

    class Lookup:
        pass

    assert name_of(search) == "search"
    assert name_of(Lookup()) == "Lookup"


def test_the_type_of_responses_is_stated_or_read_off_an_annotation() -> None:
    class Stated:
        facts: ClassVar[dict[Fact[Any], object]] = {RETURNS: int}

        async def __call__(self, request: str, ctx: Context, /) -> str: ...  # type: ignore[empty-body]

    class Annotated:
        async def __call__(self, request: str, ctx: Context, /) -> str: ...  # type: ignore[empty-body]

    async def function(request: str, ctx: Context) -> int: ...  # type: ignore[empty-body]

    async def silent(request, ctx): ...  # type: ignore[no-untyped-def]

    async def unknown(request: str, ctx: Context) -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821

    @layer
    async def same(request: str, ctx: Context, inner: Service[str, str]) -> str:
        return await inner(request, ctx)

    async def several(request: str, ctx: Context) -> list[int]: ...  # type: ignore[empty-body]

    def later(request: str, ctx: Context) -> Awaitable[int]: ...  # type: ignore[empty-body]

    async def anything(request: str, ctx: Context) -> Any: ...

    async def generic(request: Q, ctx: Context) -> Q: ...  # type: ignore[empty-body]

    expected = {
        Stated(): int, Annotated(): str, function: int, several: list[int], later: int,
        silent: object, unknown: object, anything: object, generic: object, len: object,
    }  # fmt: skip
    assert {service: returns_of(service) for service in expected} == expected
    assert returns_of(stack(Annotated(), same())) is str


def test_of_several_effects_the_strongest_counts() -> None:
    class Thing:
        def __init__(self, effect: Effect) -> None:
            self.facts = {EFFECT: effect}

    assert strongest([]) == strongest([len, Thing("none")]) == "none"
    assert strongest([Thing("repeatable"), len]) == "repeatable"
    assert strongest([Thing("once"), Thing("repeatable")]) == "once"
