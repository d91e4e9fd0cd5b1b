"""FunctionTool: tools made from typed functions, and the check that they run only approved calls."""

import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, InvalidArguments, NotRepeatable
from ziggurat.core.service import EFFECT, NAME, Fact, Service, rewrapped
from ziggurat.core.settings import Decorated, NonNegativeInt, Seconds, checked
from ziggurat.journal.entries import Returned
from ziggurat.journal.journal import journal_of
from ziggurat.messages.events import ToolDelta
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import NORMALIZE, SPEC, Effect, Interrupted, ToolSpec
from ziggurat.tools.guarded_call import TOOL_DELTAS, Frozen, run_bounded, run_guarded, run_in_thread
from ziggurat.tools.outcome import once_only
from ziggurat.tools.permissions import Permissions, known
from ziggurat.tools.results import MAX_RESULT, broken, ended_by, result_of
from ziggurat.tools.signature import RawSchema, Signature

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    F = TypeVar("F", bound=Callable[..., Any], default=Callable[..., Any])
    F_co = TypeVar("F_co", bound=Callable[..., Any], default=Callable[..., Any], covariant=True)
else:  # the default is for type checkers, as in messages.agent
    from typing import TypeVar

    F, F_co = TypeVar("F"), TypeVar("F_co", covariant=True)

_CUT = "\n[cut: the rest was not asked for]"

_ABSENT: Any = None  # not typed as None: to type checkers a tool is a service from ToolCall, which takes a Context


Validator = Callable[..., str | None]  # called with a tool's arguments; returns what is wrong with them, or None


class FunctionTool(Generic[F_co]):
    """A tool made from a function: a service from ToolCall to ToolResult.

    Made by `tool` and `raw_tool`.

    Attributes:
        function: The original function, with its signature.
        is_method: Whether it is a method without its instance; that of an instance, ``desk.pay``, is a tool.
    """

    __slots__ = (
        "_async", "_context", "_decode_normal", "_streams", "_timeout", "_validators", "arguments", "facts", "function",
        "is_method", "spec",
    )  # fmt: skip

    def __init__(
        self,
        function: F_co,
        spec: ToolSpec,
        arguments: "Signature | RawSchema",
        validators: Sequence[Validator] = (),
        *,
        streams: bool = False,
    ) -> None:
        self.function: F_co = function
        self.is_method: bool = arguments.is_method and not inspect.ismethod(function)
        self.spec: ToolSpec = spec
        self.arguments: Signature | RawSchema = arguments
        self._async = arguments.is_async
        self._decode_normal = arguments.decode_normal
        self._streams = streams
        self._context = arguments.context_parameter
        self._validators = tuple(validators)
        self._timeout = spec.timeout
        self.facts: dict[Fact[Any], Any] = {NAME: spec.name, EFFECT: spec.effect, NORMALIZE: self.normalize}
        if not self.is_method:
            self.facts[SPEC] = spec

    def __get__(self, instance: object, owner: object = None) -> "FunctionTool[Any]":
        if instance is None or not self.is_method:
            return self
        bound = cast("Any", self.function).__get__(instance)
        return FunctionTool(bound, self.spec, self.arguments, self._validators, streams=self._streams)

    def normalize(self, call: ToolCall) -> ToolCall:
        """Return the call with the arguments that the function will receive, as canonical JSON.

        Raises:
            InvalidArguments: they do not fit.
        """
        text = self.arguments.normalize(call.arguments)
        if self._validators:
            self._validate(text)
        return call if text == call.arguments else ToolCall(call.id, call.name, text)

    def decoded(self, call: ToolCall) -> dict[str, Any]:
        """Return the call's arguments as keyword arguments; raise InvalidArguments if they do not fit."""
        if self._validators:
            self._validate(call.arguments)
        return self.arguments.decode(call.arguments)

    def _validate(self, text: str) -> None:
        arguments = self.arguments.decode(text)  # a copy that the function does not get: a validator may change it
        for validator in self._validators:
            try:
                wrong: object = validator(**arguments)
            except Exception:
                raise
            except BaseException as error:
                raise ended_by(error) from error
            if isinstance(wrong, str) and wrong:
                raise InvalidArguments(wrong)
            if not (wrong is None or isinstance(wrong, str)):
                name = getattr(validator, "__name__", "a validator")
                kind = type(wrong).__name__
                text = f"{name} must return what is wrong with the arguments, or None; it returned a {kind}"
                raise broken(text)

    def __call__(
        self, call: ToolCall = _ABSENT, ctx: Context = _ABSENT, /, **named: Any
    ) -> Coroutine[Any, Any, ToolResult]:
        """Run the function with the call's arguments.

        Raises:
            ConfigurationError: it was called like the function, as in ``tools=[look()]``.
            InvalidArguments: they do not fit.
            ToolError: the call is not the approved one, or a tool with ``effect="once"`` would run twice.
        """
        if not isinstance(ctx, Context) or named:
            raise ConfigurationError(self._called())
        frozen, once = ctx.frozen, None
        if isinstance(frozen, Frozen):
            frozen.use(call, ctx)
            if frozen.returned is not None:
                return _answer_again(frozen.returned, frozen)
            once = frozen if frozen.effect == "once" else None
            arguments = self._decode_normal(call.arguments)
        else:
            arguments = self.decoded(call)
        if self._timeout is not None:
            ctx = ctx.timed()
        if self._context is not None:
            arguments[self._context] = ctx
        if self._streams:
            work = run_guarded(self._collect, {"arguments": arguments, "ctx": ctx, "call": call}, ctx, call)
        elif self._async:
            work = run_guarded(self.function, arguments, ctx, call)
        else:
            work = run_in_thread(self.function, arguments, ctx, call)
        if once is not None:
            work = _record_returned(work, once, ctx)
        if self._timeout is not None or (ctx.watch is not None and ctx.watch.limited):
            work = run_bounded(work, ctx, name=self.spec.name, seconds=self._timeout)
        return work if once is None else once_only(work, once)

    def _called(self) -> str:
        name = getattr(self.function, "__name__", self.spec.name)
        return (
            f"{name} is a tool, which an agent calls: pass {name} itself, as in tools=[{name}]; to call the function, "
            f"write {name}.function(...)"
        )

    async def _collect(self, arguments: dict[str, Any], ctx: Context, call: ToolCall) -> str:
        pieces: list[str] = []
        size = 0
        filters = ctx.scope.get(TOOL_DELTAS)
        stream: AsyncGenerator[object, None] = self.function(**arguments)
        async with aclosing(stream):
            async for piece in stream:
                result = result_of(piece, call)
                if not isinstance(result.content, str):
                    text = f"{call.name} yielded parts; only text can be streamed in pieces; return them instead"
                    raise broken(text)
                text = result.content if filters is None else await filters(result.content, ctx)
                pieces.append(text)
                size += len(text)
                if ctx.listens(ToolDelta):
                    await ctx.emit(ToolDelta(ctx.path, self.spec.name, text))
                if size > MAX_RESULT - len(_CUT):
                    return "".join(pieces)[: MAX_RESULT - len(_CUT)] + _CUT
        return "".join(pieces)

    def __repr__(self) -> str:
        return f"tool({self.spec.name!r})"


async def _record_returned(work: Coroutine[Any, Any, ToolResult], frozen: Frozen, ctx: Context) -> ToolResult:
    """Await a tool with ``effect="once"`` and record its result at once."""
    try:
        frozen.begin()
    except NotRepeatable:
        work.close()
        raise
    result = await work
    await journal_of(ctx).write(Returned(frozen.path, result))
    return result


async def _answer_again(returned: ToolResult, frozen: Frozen) -> ToolResult:
    """Answer a call with what its function has returned before, once: layers around it must not ask again."""
    frozen.begin()
    return returned


class _CallGuard:
    """Wraps a tool that is not a FunctionTool, and refuses calls that were not approved."""

    __slots__ = ("inner",)

    def __init__(self, inner: Service[ToolCall, ToolResult]) -> None:
        self.inner = inner

    def __call__(self, call: ToolCall, ctx: Context, /) -> Coroutine[Any, Any, ToolResult]:
        frozen = ctx.frozen
        if not isinstance(frozen, Frozen):
            return self.inner(call, ctx)
        frozen.use(call, ctx)
        if frozen.returned is not None:
            return _answer_again(frozen.returned, frozen)
        if frozen.effect != "once":
            return self.inner(call, ctx)
        return once_only(_record_returned(self.inner(call, ctx), frozen, ctx), frozen)

    def __repr__(self) -> str:
        return repr(self.inner)


def guard_call(service: Service[ToolCall, ToolResult]) -> Service[ToolCall, ToolResult]:
    """Return the tool with a check below its layers that refuses every call but the approved one."""
    if isinstance(service, (FunctionTool, _CallGuard)):
        return service
    from ziggurat.core.combinator import Combinator  # most tools are plain functions

    if isinstance(service, Combinator):
        combined = copy(service)
        combined.alternatives = tuple(guard_call(each) for each in service.alternatives)
        return combined
    inner: Service[ToolCall, ToolResult] | None = getattr(service, "inner", None)
    if inner is None or SPEC in (getattr(service, "facts", None) or ()):
        return _CallGuard(service)
    layered = rewrapped(service, guard_call(inner))
    return _CallGuard(service) if layered is None else layered  # at least in front of a layer that cannot be moved


@overload
def tool(function: F, /) -> FunctionTool[F]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "repeatable",
    permissions: Permissions | None = None,
    approval: bool = False,
    timeout: Seconds | None = None,
    validators: Sequence[Validator] = (),
    interrupted: Interrupted | None = None,
    retries: NonNegativeInt = 2,
) -> Callable[[F], FunctionTool[F]]: ...
@checked
def tool(
    function: Decorated = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: Effect = "repeatable",
    permissions: Permissions | None = None,
    approval: bool = False,
    timeout: Seconds | None = None,
    validators: Sequence[Validator] = (),
    interrupted: Interrupted | None = None,
    retries: NonNegativeInt = 2,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool from a typed function, sync or async, or from an async generator whose pieces are emitted.

    A method is one, too: ``tools=[desk.pay]``, where `pay` is decorated in the class of `desk`.

    ::

        @tool
        async def weather(city: str, days: int = 1) -> str:
            '''Forecast for a city.

            Args:
                city: Name of the city.
                days: How many days ahead.
            '''

    Args:
        function: The function; its signature is the schema, its docstring the description.
        name: What the model calls it; the function's name by default.
        description: When to use it; the docstring's by default.
        effect: ``"none"`` if it only reads, ``"repeatable"`` if doing it again under the same
            ``ctx.idempotency_key`` is harmless, ``"once"`` if it must never be done twice.
        permissions: The permissions it needs, such as ``"network"``; an empty list if it needs none. With None it is
            denied in a run that was given grants.
        approval: Whether a person must agree to each call.
        timeout: Seconds it may take.
        validators: Called with the arguments; each returns what is wrong with them, or None.
        interrupted: What to do about a call with ``effect="once"`` that began but has no result, as after a crash:
            ``"ask"``, the default, waits for a person to find out, ``"report"`` tells the model,
            ``"retry_if_idempotent"`` makes it again with the same ``ctx.idempotency_key``, for which the function must
            take a Context. Until the outcome is known, no call with the same arguments runs in this run.
        retries: How often in a row it may ask the model to try again, by raising `ModelRetry`; once more ends the run.

    Raises:
        ConfigurationError: the signature cannot be offered to a model; the message says which parameter and why.
    """

    def make(function: Callable[..., Any]) -> FunctionTool:
        _refuse_tool(function)
        signature = Signature.of(function, name=name, description=description)
        spec = ToolSpec(
            signature.name,
            signature.description,
            signature.parameters,
            effect,
            _declared(permissions),
            approval,
            timeout,
            permissions is not None,
            interrupted or "ask",
            retries,
        )
        if interrupted is not None and effect != "once":
            raise ConfigurationError(
                f"interrupted={interrupted!r} is for a tool with effect='once'; {spec.name} has effect={effect!r}"
            )
        if interrupted == "retry_if_idempotent" and signature.context_parameter is None:
            raise ConfigurationError(
                f"{spec.name} takes no Context, so it cannot pass ctx.idempotency_key on and would be done twice: add "
                "a parameter ctx: Context, or choose interrupted='ask'"
            )
        streams = inspect.isasyncgenfunction(function)
        return FunctionTool(function, checked_spec(spec), signature, validators, streams=streams)

    return make if function is None else make(function)


@checked
def raw_tool(
    function: Callable[..., Any],
    *,
    name: str,
    description: str,
    parameters: dict[str, Any],
    effect: Effect = "repeatable",
    permissions: Permissions | None = None,
    approval: bool = False,
    timeout: Seconds | None = None,
) -> FunctionTool:
    """Make a tool with a hand-written schema, such as one that is only known when the program runs.

    ::

        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        weather = raw_tool(lambda arguments: lookup(arguments["city"]),
                           name="weather", description="Forecast for a city.", parameters=schema)

    Args:
        function: Called with the arguments as one mapping, which fits the schema, and with the Context if it has a
            second parameter; sync or async.
        name: What the model calls it.
        description: When to use it.
        parameters: The JSON Schema of the arguments, an object.
        effect: As for `tool`; likewise `permissions`, `approval` and `timeout`.

    Raises:
        ConfigurationError: `parameters` is not the JSON Schema of an object, or another argument is invalid.
    """
    _refuse_tool(function)
    schema = RawSchema.of(function, name, parameters)
    declared = permissions is not None
    spec = ToolSpec(name, description, parameters, effect, _declared(permissions), approval, timeout, declared)
    return FunctionTool(schema.function, checked_spec(spec), schema, streams=inspect.isasyncgenfunction(function))


def checked_spec(spec: ToolSpec) -> ToolSpec:
    if not spec.name.isascii() or not 0 < len(spec.name) <= 64 or not all(c.isalnum() or c in "_-" for c in spec.name):
        raise ConfigurationError(
            f"{spec.name!r} cannot be a tool's name: models take 1 to 64 letters, digits, _ and -; give another "
            "with name=..."
        )
    return spec


def _declared(permissions: Permissions | None) -> tuple[str, ...]:
    declared = () if permissions is None else tuple(permissions)
    known(declared)
    return declared


def _refuse_tool(function: object) -> None:
    if isinstance(function, FunctionTool):
        raise ConfigurationError(f"{function!r} is a tool already")
