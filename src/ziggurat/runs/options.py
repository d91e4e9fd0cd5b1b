"""The options of a run, checked when they are passed, before anything is written."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta, Struct
from msgspec.structs import replace

from ziggurat.calls.enter import MAX_DEPTH, MAX_DEPTH_KEY
from ziggurat.core import context, event, path
from ziggurat.core.clock import SYSTEM_CLOCK, Clock, Stopwatch, new_id
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import CheckedStruct, PositiveInt
from ziggurat.messages.agent import Decisions
from ziggurat.messages.prompts import History
from ziggurat.runs.control import RunControl
from ziggurat.stores.session import Session
from ziggurat.tools import permissions
from ziggurat.tools.approval import APPROVALS, Approvals

Deps = Annotated[
    Mapping[context.Key[Any], Any] | Mapping[object, Any],
    Meta(title="mapping from keys to values", description="as {DB: db}, with DB = Key[Database]('database')"),
]
"""Dependencies of a run, read with ``ctx.scope[KEY]``; `object` because mypy joins keys of several types to it."""

RunId = Annotated[str, Meta(description="such as run.id")]

Live = Literal["nothing", "tools", "models"]  # what is called in a replay; everything else is answered from the record


class Environment(CheckedStruct, frozen=True, eq=False):
    """What a run takes from the world around it: time, ids and chance, and how far it may go there.

    ::

        clock = HandClock(auto=True)
        run = await agent.run("...", environment=Environment(clock=clock, ids=iter("abc").__next__))

    Attributes:
        clock: Tells the time and waits.
        ids: Makes a new id, a string, at each call.
        random: Returns a number from [0, 1) at each call; None for the system's.
        max_depth: How deep agents may be nested.
        permission_log: Collects the checks of permissions.
        probe: Called with a point of the record (``before intent``, ``after result`` ...) and a path, for tests that
            crash a run there.
    """

    clock: Clock = SYSTEM_CLOCK
    ids: Callable[[], str] = new_id
    random: Callable[[], float] | None = None
    max_depth: PositiveInt = MAX_DEPTH
    permission_log: permissions.PermissionLog | None = None
    probe: Callable[[str, str], None] | None = None

    def values(self) -> dict[context.Key[Any], Any]:
        given = {name: getattr(self, name) for name in _KEYS}
        return {_KEYS[name]: value for name, value in given.items() if value is not getattr(SYSTEM, name)}


SYSTEM = Environment()
_KEYS: dict[str, context.Key[Any]] = {
    "clock": context.CLOCK,
    "ids": context.IDS,
    "random": context.RANDOM,
    "max_depth": MAX_DEPTH_KEY,
    "permission_log": permissions.PERMISSION_LOG,
}


class RunOptions(Struct, frozen=True, eq=False):
    deps: Deps | None = None
    listeners: Sequence[event.Listener] = ()
    run_id: str | None = None
    session: Session | None = None
    grants: frozenset[str] | None = None
    approvals: Approvals | None = None
    labels: Mapping[str, object] | None = None
    environment: Environment = SYSTEM
    decisions: Decisions | None = None
    strict: bool = False
    values: Mapping[context.Key[Any], Any] | None = None
    emit: event.Emit = event.SILENCE
    around: Stopwatch | None = None
    control: RunControl | None = None

    @classmethod
    def of(
        cls, *, grants: permissions.Permissions | None = None, environment: Environment | None = None, **given: Any
    ) -> "RunOptions":
        """Check what a user has passed: `RunArguments`."""
        known = None if grants is None else permissions.known(grants)
        options = cls(grants=known, environment=environment or SYSTEM, **given)
        if options.deps is not None:
            _check_deps(options.deps)
        if options.run_id is not None and not (options.run_id and path.is_id(options.run_id)):
            raise ConfigurationError(f"run_id must be {path.ID}, got {options.run_id!r:.200}")
        if options.labels is not None:
            _check_labels(options.labels)
        return options

    def beneath(self, ctx: context.Context) -> "RunOptions":
        """Return the options of a run that a call opens in a context that is part of no run."""
        scope, emit, environment = ctx.scope, self.emit, self.environment
        if environment is SYSTEM:
            environment = Environment(**{name: scope[key] for name, key in _KEYS.items() if key in scope})
        if ctx.emit is not event.SILENCE:
            nested = event.NestedEvents(ctx.path, ctx.emit)
            emit = nested if emit is event.SILENCE else event.Listeners(nested, (emit,))
        values = {**scope, **(self.values or {})}
        return replace(self, environment=environment, values=values, emit=emit, around=ctx.watch)

    def fresh_id(self, what: str = "run_id") -> str:
        """Return the id of a new run, after checking it if it was given, by the argument `what` or the environment."""
        if self.run_id is None and self.control is not None:
            return self.control.run_id
        run_id = self.environment.ids() if self.run_id is None else self.run_id
        if self.run_id is not None or self.environment.ids is not new_id:
            path.check_new_id(run_id, what)
        return run_id

    def undecided(self) -> "RunOptions":
        return self if self.decisions is None else replace(self, decisions=None)

    def heard_by(self, listeners: Sequence[event.Listener]) -> "RunOptions":
        return replace(self, listeners=(*self.listeners, *listeners)) if listeners else self

    def scope(self) -> dict[context.Key[Any], Any]:
        scope: dict[Any, Any] = {} if self.values is None else dict(self.values)
        if self.deps is not None:
            scope.update(self.deps)
        if self.environment is not SYSTEM:
            scope.update(self.environment.values())
        if self.grants is not None:
            scope[permissions.GRANTS], scope[permissions.DECLARED_ONLY] = self.grants, True
        if self.approvals is not None:
            scope[APPROVALS] = (self.approvals,)
        return scope


NO_OPTIONS = RunOptions()


class LiveArguments(TypedDict, total=False):
    """The arguments of all verbs that drive runs, as of `run`; they are not recorded."""

    deps: Deps | None
    listeners: Sequence[event.Listener]
    approvals: Approvals | None
    environment: Environment | None


class ForkArguments(LiveArguments, total=False):
    """The arguments of `fork` that `run` has too."""

    grants: permissions.Permissions | None
    labels: Mapping[str, object] | None


class ResumeArguments(LiveArguments, total=False):
    """The arguments of `resume` other than the id of the run and the decisions."""

    strict: bool
    session: Session | None
    grants: permissions.Permissions | None


class RunArguments(LiveArguments, total=False):
    """The arguments of `run` other than the prompt."""

    history: History
    run_id: str | None
    session: str | Session | None
    grants: permissions.Permissions | None
    labels: Mapping[str, object] | None
    detached: bool
    decisions: Decisions | None
    strict: bool


def _check_labels(labels: Mapping[str, object]) -> None:
    for name, value in labels.items():
        path.check_new_name(name, "a label's name")
        try:
            encode(value)
        except TypeError as error:
            raise ConfigurationError(f"the label {name!r} must be a plain JSON value: {error}") from error


def _check_deps(deps: Deps) -> None:
    if context.CLOCK in deps:
        raise ConfigurationError("deps is for your own dependencies; the clock is environment=Environment(clock=...)")
    for key, value in deps.items():
        if not isinstance(key, context.Key):
            raise ConfigurationError(
                "deps maps keys to values: make one with DB = Key[Database]('database') and pass deps={DB: db}; "
                f"got the key {key!r}"
            )
        key.check(value)


def joined_context(ctx: context.Context, options: RunOptions) -> context.Context:
    if options is NO_OPTIONS:
        return ctx
    values = options.scope()
    if options.grants is not None:
        values[permissions.GRANTS] = permissions.narrow_grants(ctx, options.grants)
    if options.approvals is not None:
        values[APPROVALS] = (*(ctx.scope.get(APPROVALS) or ()), options.approvals)
    if values:
        ctx = ctx.scoped(ctx.scope.with_values(values))
    return ctx.heard_by(*options.listeners)
