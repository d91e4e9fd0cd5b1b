"""The base of combinators: services made of several services, such as fallback and hedge."""

from collections.abc import Awaitable, Iterable
from typing import Any, Generic, TypeVar, cast

from ziggurat.core import service
from ziggurat.core.context import Charges, Context
from ziggurat.core.errors import fact_of
from ziggurat.core.event import Dropped
from ziggurat.core.failures import spent_by
from ziggurat.core.settings import checked

Q = TypeVar("Q")
R = TypeVar("R")


class Combinator(Generic[Q, R]):
    """A service made of several alternatives that answer one kind of request; it has the facts on which all agree."""

    title = "combinator"
    """The title used in its repr and its name."""

    @checked
    def __init__(self, *alternatives: service.Service[Q, R]) -> None:
        self.alternatives: tuple[service.Service[Q, R], ...] = tuple(map(service.as_service, alternatives))
        self.names: list[str] = [service.name_of(each) for each in alternatives]
        self.returns: list[type[R]] = [cast("type[R]", service.returns_of(each)) for each in alternatives]
        self.facts: dict[service.Fact[Any], Any] = {
            **_common_facts(alternatives),
            service.NAME: f"{self.title}({', '.join(self.names)})",
            service.ALTERNATIVES: tuple(
                name
                for each, own in zip(alternatives, self.names, strict=True)
                for name in service.fact(each, service.ALTERNATIVES) or (own,)
            ),
            service.EFFECT: service.strongest(alternatives),
            service.RETURNS: self.returns[0] if len(set(self.returns)) == 1 else object,
            service.COMPOSITE: any(service.fact(each, service.COMPOSITE) for each in alternatives),
        }

    def ask(self, index: int, request: Q, ctx: Context) -> Awaitable[R]:
        """Call one alternative at `ctx`, a child of the call's context; replay repeats its recorded outcome."""
        # What it costs below a call that is recorded as a whole (a model call) is recorded as its own.
        if ctx.charges is not None:
            asked = ctx.charging(_Asked(ctx.charges, self.names[index]))
            return _ask_part(self.names[index], self.alternatives[index], request, asked)
        name, alternative, returns = self.names[index], self.alternatives[index], self.returns[index]
        return ctx.once(name, request, alternative, returns=returns, composite=True)

    async def abandon(self, ctx: Context, why: str) -> None:
        """Emit `Dropped`, so that listeners discard what they hold of the alternative at `ctx`."""
        if ctx.listens(Dropped):
            await ctx.emit(Dropped(ctx.path, why))

    def _settings(self) -> str:
        return ""

    def __repr__(self) -> str:
        return f"{self.title}({', '.join(map(service.shown, self.alternatives))}{self._settings()})"


async def _ask_part(name: str, alternative: service.Service[Q, R], request: Q, ctx: Context) -> R:
    try:
        return spent_by(await alternative(request, ctx), name)
    except BaseException as error:
        spent_by(error, name)
        raise


class _Asked(Charges):
    """The charges of one alternative, which are those of the service of this name."""

    __slots__ = ("_charges", "_name")

    def __init__(self, charges: Charges, name: str) -> None:
        self._charges = charges
        self._name = name

    def charge(self, cost: object, /) -> None:
        self._charges.charge(spent_by(cost, self._name))

    def lose(self, cost: object, /) -> None:
        self._charges.lose(spent_by(cost, self._name))

    def admit(self) -> None:
        self._charges.admit()


def annotate(error: Exception, notes: Iterable[str]) -> None:
    """Add the notes that an error does not have yet; an error replayed from memory is the same object again."""
    known = fact_of(error, "__notes__", list) or ()
    for note in notes:
        if note not in known:
            error.add_note(note)


def _common_facts(alternatives: tuple[service.Service[Q, R], ...]) -> dict[service.Fact[Any], Any]:
    stated: dict[service.Fact[Any], Any] = {}
    for alternative in alternatives:
        seen: object | None = alternative
        while seen is not None:
            stated.update(getattr(seen, "facts", None) or {})
            seen = getattr(seen, "inner", None)
    first = alternatives[0]
    return {
        what: service.fact(first, what)
        for what in stated
        if all(service.fact(each, what) == service.fact(first, what) for each in alternatives)
    }
