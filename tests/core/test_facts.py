from collections.abc import Awaitable

from ziggurat.core.context import Context
from ziggurat.core.facts import COMPOSITE, NAME, Fact, fact, name_of
from ziggurat.core.layer import layer, stack
from ziggurat.core.service import Service

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
    """A wrapper that states one fact of its own."""

    def __init__(self, inner: Service[str, str]) -> None:
        self.inner = inner
        self.facts = {NAME: "renamed"}

    def __call__(self, request: str, ctx: Context) -> Awaitable[str]:
        return self.inner(request, ctx)


def test_a_service_states_facts() -> None:
    assert fact(Model(), WINDOW) == 4096


def test_what_is_not_stated_has_its_default() -> None:
    assert fact(Model(), COMPOSITE) is False
    assert fact(object(), WINDOW) is None


def test_facts_are_reached_through_layers() -> None:
    assert fact(stack(Model(), plain(), plain(), plain()), WINDOW) == 4096
    assert name_of(stack(Model(), plain())) == "tiny"


def test_the_first_statement_counts_and_the_rest_stay_reachable() -> None:
    wrapped = stack(Renamed(Model()), plain())
    assert name_of(wrapped) == "renamed"
    assert fact(wrapped, WINDOW) == 4096


def test_facts_of_one_name_do_not_clash() -> None:
    assert fact(Model(), Fact("window", "mine")) == "mine"


def test_a_service_that_states_no_name_is_called_by_its_function_or_class() -> None:
    async def search(request: str, ctx: Context) -> str:
        return request

    class Lookup:
        pass

    assert name_of(search) == "search"
    assert name_of(Lookup()) == "Lookup"


def test_repr() -> None:
    assert repr(WINDOW) == "Fact('window')"
