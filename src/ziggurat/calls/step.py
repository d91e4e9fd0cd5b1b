"""Step: a function whose calls are recorded at their place in the run, and answered from the record afterwards."""

import functools
import inspect
import typing
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar, cast

from msgspec import Struct

from ziggurat.calls import agent_call
from ziggurat.calls.once import run_once
from ziggurat.core import clock, codec, errors, service
from ziggurat.core.context import AMBIENT, JOURNAL, Context, root
from ziggurat.core.settings import checked
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import refuse
from ziggurat.tools.fork_effects import FORK_EFFECTS
from ziggurat.tools.guarded_call import Frozen
from ziggurat.tools.outcome import once_only
from ziggurat.tools.parameter import Parameter

_AS_THEY_ARE = frozenset({str, int, bool, type(None), object})  # types whose values JSON has as they are


P = typing.ParamSpec("P")
R = TypeVar("R")

_get_ambient, _set_ambient, _reset_ambient = AMBIENT.get, AMBIENT.set, AMBIENT.reset  # 5 % of the time of a step


StepLayer = Callable[[service.Service["Arguments", Any]], service.Service["Arguments", Any]]  # a layer around a step


class Arguments(Struct, eq=False):
    """The request of a step: the arguments of one call of it."""

    step: "Step[Any, Any]"
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    _digest: str = ""
    must_match = True
    """Whether a record of other arguments is refused when the run is resumed."""

    def fingerprint(self) -> str:
        """Return a digest of the step's name and its arguments by name, however they were passed."""
        if not self._digest:
            bound = self.step.signature.bind(*self.args, **self.kwargs)
            bound.apply_defaults()
            try:
                self._digest = codec.digest([self.step.name, bound.arguments])
            except TypeError as error:
                raise errors.ConfigurationError(
                    f"an argument of the step {self.step.name} cannot be recorded: {error}; pass plain data, and take "
                    "what is not data from ctx.scope, as given by run(deps=...)"
                ) from error
        return self._digest

    def __repr__(self) -> str:
        given = [f"{each!r}" for each in self.args] + [f"{name}={each!r}" for name, each in self.kwargs.items()]
        return f"{self.step.name}({', '.join(given)})"


class Step(typing.Generic[P, R]):
    """A function whose result is recorded, made by `step`; calling it returns a coroutine, as before."""

    composite: bool = False

    def __init__(
        self,
        function: Callable[..., Coroutine[Any, Any, R]],
        name: str,
        effect: service.Effect,
        layers: Sequence[StepLayer],
        takes_context: bool,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name: str = name
        self.signature: inspect.Signature = inspect.signature(function)
        self.takes_context: bool = takes_context
        if takes_context:  # it is passed by the step, not by whoever calls it
            self.signature = self.signature.replace(parameters=list(self.signature.parameters.values())[1:])
        self.effect: service.Effect = effect
        self.facts: dict[service.Fact[Any], Any] = {service.NAME: name, service.EFFECT: effect}
        self.service: service.Service[Arguments, R] = service.stack(_Function(self), *layers)
        self._call = self.service.__call__  # 2 % of the time of a step
        self._checked = False  # in memory, the first value shows whether its type can be recorded

    def named(self, name: str) -> "Step[P, R]":
        renamed = copy(self)
        renamed.name, renamed.facts = name, {**self.facts, service.NAME: name}
        return renamed

    def as_composite(self) -> "Step[P, R]":
        """Return this step with places of their own for what its function calls, so that it may wait."""
        composite = copy(self)
        composite.composite = True
        return composite

    @functools.cached_property
    def returns(self) -> type[R]:
        """The type of its result."""
        try:
            return cast("type[R]", typing.get_type_hints(inspect.unwrap(self.function), include_extras=True)["return"])
        except NameError as error:
            raise errors.ConfigurationError(
                f"the annotations of the step {self.name} cannot be read: {error}"
            ) from error

    @functools.cached_property
    def _form(self) -> Parameter | None:
        """How its results are written and read; None for those of Ziggurat, and for texts and whole numbers."""
        kind = self.returns
        own = isinstance(kind, type) and (kind in _AS_THEY_ARE or kind.__module__.partition(".")[0] == "ziggurat")
        return None if own else Parameter.of_result(f"the result of the step {self.name}", kind)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Answer from the record, or run the function and record its result, at the place where this is awaited."""
        request = Arguments(self, args, kwargs)
        ambient = _get_ambient()
        journal = None if ambient is None else ambient.scope.get(JOURNAL)
        if ambient is None or not isinstance(journal, LocalJournal):
            return await self.service(request, root(self.name))
        if ambient.charges is not None:  # within another step, whose result is recorded as a whole
            return await self._as_part(request, ambient.under(self.name))
        ctx = agent_call.place_of(ambient, self.name)
        if journal.writer is not None:
            request.fingerprint()  # what cannot be recorded must not be done
        plain = self.effect == "none" or (self.effect == "repeatable" and FORK_EFFECTS not in ctx.scope)
        call = self._call if plain else self._run
        try:
            if journal.replaying:
                record = journal.find(ctx.path)
                if record is None or not record.outcomes:
                    refuse(self.name, ctx, journal)
            return cast("R", await self._once(request, ctx, call, journal))
        except BaseException as error:
            agent_call.note_left(ambient, error)
            raise

    if not TYPE_CHECKING:
        _answer = __call__

        def __call__(self, *args, **kwargs):
            coroutine = self._answer(*args, **kwargs)
            coroutine.__qualname__ = self.name  # for Python's warning about one that was not awaited
            return coroutine

    async def _once(
        self,
        request: Arguments,
        ctx: Context,
        call: Callable[[Arguments, Context], Awaitable[Any]],
        journal: LocalJournal,
    ) -> Any:
        """Answer from the record, or make the call and record its result in its recorded form."""
        record = journal.find(ctx.path)
        written = record is not None and record.result is not None and isinstance(record.result.value, codec.Raw)
        if journal.writer is None and not written:
            called = call if self._checked else self._first(call)
            return await journal.once(ctx, self.name, request, called, self.returns, self.composite)
        form = self._form
        if form is None:
            return await journal.once(ctx, self.name, request, call, self.returns, self.composite)
        live: list[Any] = []

        async def recorded(request: Arguments, ctx: Context) -> object:
            value = await call(request, ctx)
            service.must_be(value, self.returns, self.name, ctx)
            data = self._data(form, value, ctx)
            live.append(value)
            return data

        data: Any = await journal.once(ctx, self.name, request, recorded, object, self.composite)
        try:
            return live[0] if live else form.revive(data)
        except ValueError as error:
            why = f"the result of {ctx.path} ({self.name}) does not fit its type any more: {error}"
            raise errors.JournalMismatch(why) from error

    def _first(
        self, call: Callable[[Arguments, Context], Awaitable[Any]]
    ) -> Callable[[Arguments, Context], Awaitable[Any]]:
        async def checked(request: Arguments, ctx: Context) -> Any:
            value = await call(request, ctx)
            try:
                form = self._form
            except errors.ConfigurationError:  # it has no JSON, and needs none in memory
                form = None
            if form is not None:
                self._data(form, value, ctx)
            self._checked = True
            return value

        return checked

    def _data(self, form: Parameter, value: object, ctx: Context) -> object:
        try:
            return form.recorded(value)
        except errors.ConfigurationError as error:
            raise errors.ConfigurationError(f"{self.name} at {ctx.path}: {error}") from None

    def _as_part(self, request: Arguments, ctx: Context) -> Coroutine[Any, Any, R]:
        if self.effect == "once":
            raise errors.ConfigurationError(
                f"{self.name} acts once only, so it needs a record of its own: call it from the flow, not from the "
                f"step at {ctx.path.rpartition('/')[0]}"
            )
        return self.service(request, ctx)

    async def _run(self, request: Arguments, ctx: Context) -> R:
        if FORK_EFFECTS in ctx.scope:
            fingerprint = request.fingerprint()
            kind: Any = self.returns if self._form is None else object
            recorded = ctx.scope[FORK_EFFECTS].instead(self.effect, self.name, fingerprint, ctx.path, kind)
            if recorded is not None:
                return cast("R", recorded[0] if self._form is None else self._form.revive(recorded[0]))
        if self.effect == "once":
            return await run_once(self.service, request, request.fingerprint(), self.name, ctx)
        return await self.service(request, ctx)

    def __repr__(self) -> str:
        return f"step({self.name})"


class _Function:
    def __init__(self, step: Step[..., Any]) -> None:
        self.step = step
        self.function = step.function
        self.facts = step.facts

    async def __call__(self, request: Arguments, ctx: Context, /) -> Any:
        step, frozen = self.step, ctx.frozen
        if clock.held():
            await clock.take_back(ctx.watch)
        args = (ctx, *request.args) if step.takes_context else request.args
        if ctx.charges is None:  # a composite
            ctx.state(agent_call.Places, agent_call.Places)
        token = _set_ambient(ctx)
        try:
            if step.effect == "once" and isinstance(frozen, Frozen):
                frozen.use(frozen.call, ctx)
                frozen.begin()
                return await once_only(self.function(*args, **request.kwargs), frozen)
            return await self.function(*args, **request.kwargs)
        finally:
            _reset_ambient(token)

    def __repr__(self) -> str:
        return repr(self.step)


# -- the decorator ---------------------------------------------------------------------------------------------------


if TYPE_CHECKING:

    @typing.overload
    def step(function: Callable[P, Coroutine[Any, Any, R]], /) -> Step[P, R]: ...
    @typing.overload
    def step(
        *,
        name: str | None = None,
        effect: service.Effect = "repeatable",
        layers: Sequence[StepLayer] = (),
        context: typing.Literal[False] = False,
    ) -> Callable[[Callable[P, Coroutine[Any, Any, R]]], Step[P, R]]: ...
    @typing.overload
    def step(
        *,
        name: str | None = None,
        effect: service.Effect = "repeatable",
        layers: Sequence[StepLayer] = (),
        context: typing.Literal[True],
    ) -> Callable[[Callable[typing.Concatenate[Context, P], Coroutine[Any, Any, R]]], Step[P, R]]: ...


@checked
def step(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    effect: service.Effect = "repeatable",
    layers: Sequence[StepLayer] = (),
    context: bool = False,
) -> Any:
    """Make a step of an async function: its result is recorded, and not computed again when the run is resumed.

    ::

        @step(layers=[retry(attempts=3), timeout(seconds=10)])
        async def fetch(url: str) -> Page: ...

    It is called as before, ``await fetch(url)``, in a flow, a tool or a hook. Its place is its name below the function
    that calls it; the second call there is ``fetch#2``. A failure is recorded as well, and raised again on resume,
    unless the run ended with it. Outside of a run, and inside another step, the function is only called.

    Args:
        function: The async function. Its return annotation is the type of recorded results, and its arguments must
            have a JSON form.
        name: Its name in paths; that of the function by default.
        effect: ``"once"`` if it must not be repeated when it is unknown whether it took effect: it fails then with
            `NotRepeatable`. ``"none"`` if a fork may always run it.
        layers: Layers around the function, the first outermost; what they do is part of the one recorded call.
        context: Whether the first parameter of the function is for the `Context`, which callers leave out. Its
            ``ctx.idempotency_key`` is the same when the step is repeated after a crash.

    Raises:
        ConfigurationError: the function is not async, has no return annotation, or the name is not an identifier.
    """

    def make(function: Callable[..., Any]) -> Step[..., Any]:
        title = name or str(getattr(function, "__name__", ""))
        if not inspect.iscoroutinefunction(function):
            raise errors.ConfigurationError(
                f"a step is an async function: write async def {title}(...); got {function!r:.200}"
            )
        if not title.isidentifier() or title == "model":
            raise errors.ConfigurationError(
                f"the name of a step is an identifier other than 'model', got {title!r:.200}"
            )
        signature = inspect.signature(function)
        if signature.return_annotation is inspect.Signature.empty:
            raise errors.ConfigurationError(
                f"the step {title} needs a return annotation, such as -> str or -> None: recorded results are decoded "
                "as that type"
            )
        if "self" in signature.parameters:
            raise errors.ConfigurationError(
                f"the step {title} is a method without its object, which cannot be recorded: write step(desk.{title})"
            )
        for number, parameter in enumerate(signature.parameters.values()):
            if (parameter.annotation in (Context, "Context")) != (context and not number):
                raise errors.ConfigurationError(
                    f"the step {title} takes the Context with step(context=True), as its first parameter, ctx: Context"
                )
        return Step(function, title, effect, layers, context)

    return make if function is None else make(function)
