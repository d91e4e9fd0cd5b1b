"""Chains of middleware, which all calls below an agent inherit, and the functions that call their hooks."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Any, Generic, NoReturn, TypeVar, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core import failures
from ziggurat.core.codec import as_type
from ziggurat.core.context import JOURNAL, Context, Key, running
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.log import logger
from ziggurat.core.path import escaped
from ziggurat.core.service import Service
from ziggurat.core.tasks import as_failure, closed
from ziggurat.journal.entries import JournalEntry, Result
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Rewrite
from ziggurat.messages.events import MiddlewareCompleted, MiddlewareStarted
from ziggurat.messages.message import DeltaFilter, PartDelta, ToolCall, ToolResult
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.validation import SENDABLE, validate

Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")

PASSES: dict[str, type | tuple[type, ...]] = {
    "before_agent": AgentRequest,
    "wrap_agent": AgentRun,
    "after_agent": AgentRun,
    "rewrite": Rewrite,
    "before_model": ModelRequest,
    "deltas": DeltaFilter,
    "on_model_delta": get_args(PartDelta),
    "wrap_model": ModelResponse,
    "after_model": ModelResponse,
    "before_tool": ToolCall,
    "on_tool_delta": str,
    "wrap_tool": ToolResult,
    "after_tool": ToolResult,
    "on_error": object,
}
"""What each hook passes on."""

HOOKS = (*PASSES, "on_record")

_TAKES: dict[str, type] = {"wrap_agent": AgentRequest, "wrap_model": ModelRequest}
"""What the services in these wraps take."""

_CONVERSATIONS = frozenset(("before_agent", "wrap_agent", "after_agent", "before_model"))
"""The hooks that pass on a conversation."""

_OF_TOOLS = frozenset(("before_tool", "on_tool_delta", "after_tool", "wrap_tool"))
"""The hooks whose errors are the result of the tool call."""


class HookChain:
    """Middlewares in the order given, outermost first, with an index of the hooks that each overrides."""

    def __init__(self, middlewares: Sequence[Middleware] = ()) -> None:
        self.middlewares: tuple[Middleware, ...] = tuple(middlewares)
        self._without: dict[int, HookChain] = {}
        self.hooks: dict[str, tuple[Middleware, ...]] = {
            hook: tuple(each for each in self.middlewares if getattr(type(each), hook) is not getattr(Middleware, hook))
            for hook in HOOKS
        }

    def plus(self, middlewares: Sequence[Middleware]) -> "HookChain":
        more = [each for each in middlewares if not any(each is known for known in self.middlewares)]
        return HookChain((*self.middlewares, *more)) if more else self

    def without(self, middleware: Middleware) -> "HookChain":
        if id(middleware) not in self._without:
            others = [each for each in self.middlewares if each is not middleware]
            self._without[id(middleware)] = HookChain(others) if others else NO_CHAIN
        return self._without[id(middleware)]

    def has(self, *hooks: str) -> bool:
        return any(self.hooks[hook] for hook in hooks)


MIDDLEWARE = Key[HookChain]("middleware")

NO_CHAIN = HookChain()


def chained(ctx: Context, chain: HookChain) -> Context:
    """Return a context with a chain added inside the existing one; a chain without hooks is ignored."""
    if not chain.has(*HOOKS):
        return ctx
    if JOURNAL in ctx.scope:
        screened(journal_of(ctx), chain, ctx.path)
    outer = ctx.scope.get(MIDDLEWARE)
    return ctx.within(MIDDLEWARE, outer.plus(chain.middlewares) if outer else chain)


def screened(journal: LocalJournal, chain: HookChain, path: str) -> None:
    """Apply `on_record` of a chain's middlewares to all entries recorded at and below `path`."""
    for middleware in chain.hooks["on_record"]:
        journal.screen(path, _RecordHook(middleware))


class _RecordHook(Struct, frozen=True):
    """The `on_record` of a middleware; equal for the same one, so that a journal applies it once."""

    middleware: Middleware

    def __call__(self, entry: JournalEntry) -> JournalEntry:
        changed: object = self.middleware.on_record(entry)
        if isinstance(changed, JournalEntry) and changed.kind == entry.kind and changed.path == entry.path:
            return changed
        raise ConfigurationError(
            f"the hook on_record of {self.middleware.name} got a {entry.kind} of {entry.path or 'the run'} "
            f"and returned {closed(changed)!r:.200}; it must return an entry of the same type and path, such as the "
            "one it got"
        )


# -- calling hooks ---------------------------------------------------------------------------------------------------


async def run_hooks(chain: HookChain, hook: str, value: T, ctx: Context) -> T:
    middlewares = chain.hooks[hook]
    for middleware in reversed(middlewares) if hook.startswith("after_") else middlewares:
        value = await hooked(middleware, hook, value, ctx)
    return value


async def hooked(middleware: Middleware, hook: str, value: T, ctx: Context, at: Context | None = None) -> T:
    """Call one hook with a value, `at` a place of its own; return the value to continue with."""
    if ctx.listens(MiddlewareStarted):
        await ctx.emit(MiddlewareStarted(ctx.path, middleware.name, hook))
    try:
        with running(without(middleware, at or ctx.at(escaped(f"{middleware.name}.{hook}")))):
            answer = getattr(middleware, hook)(value, ctx)
            if not isinstance(answer, Awaitable):
                not_async(middleware, hook, ctx)
            changed = await answer
    except Exception as error:
        if hook not in _OF_TOOLS:
            failures.note_mistake(error)
        raise
    if ctx.listens(MiddlewareCompleted):
        await ctx.emit(MiddlewareCompleted(ctx.path, middleware.name, hook))
    if changed is None or changed is value:
        return value
    if not isinstance(changed, PASSES[hook]):
        misused(middleware, hook, changed, ctx)
    if hook in _CONVERSATIONS:
        _check_sendable(changed, value, middleware, hook, ctx)
    return cast("T", _begun(changed, value))


def _begun(changed: object, before: object) -> object:
    """Return a run from a hook that may have removed or added messages before those of the run, with its new start."""
    if not isinstance(changed, AgentRun) or not isinstance(before, AgentRun) or changed.start != before.start:
        return changed
    messages, earlier = list(changed.history), list(before.history)
    if len(messages) == len(earlier):
        return changed
    own = earlier[before.start :]
    start = len(messages) - len(own)
    if start < 0 or messages[start:] != own:  # the first message that is not one of the earlier ones
        pairs = zip(messages, earlier[: before.start], strict=False)
        start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return replace(changed, start=start)


def _check_sendable(changed: Any, before: Any, middleware: Middleware, hook: str, ctx: Context) -> None:
    """Raise if a hook made the conversation of a request or a run unsendable, which it was not `before`."""
    if before is not None and changed.messages is before.messages:
        return
    is_whole = changed.messages or isinstance(changed, AgentRun)
    wrong = validate(changed.messages, SENDABLE) if is_whole else "no message is left"
    if wrong is not None and (before is None or validate(before.messages, SENDABLE) is None):
        raise ConfigurationError(
            f"{ctx.path}: the hook {hook} of {middleware.name} made a conversation that cannot be sent: {wrong}"
        )


def not_async(middleware: Middleware, hook: str, ctx: Context) -> NoReturn:
    raise ConfigurationError(
        f"{ctx.path}: the hook {hook} of {middleware.name} is not async; write async def {hook}(...)"
    )


def misused(middleware: Middleware, hook: str, changed: object, ctx: Context) -> NoReturn:
    kinds = PASSES[hook]
    kind = " or ".join(each.__name__ for each in (kinds if isinstance(kinds, tuple) else (kinds,)))
    unchanged = "" if hook.startswith("wrap_") else ", or None to change nothing"
    raise ConfigurationError(
        f"{ctx.path}: the hook {hook} of {middleware.name} returned {closed(changed)!r:.200}; it must return {kind}"
        f"{unchanged}"
    )


def without(middleware: Middleware, ctx: Context) -> Context:
    """Return a context for agents that a hook runs: they do not pass the middleware that runs them."""
    chain = ctx.scope.get(MIDDLEWARE)
    return ctx if chain is None else ctx.within(MIDDLEWARE, chain.without(middleware))


def note_failure(
    error: Exception, what: str, ctx: Context, follows: str = "the error is reported to the model"
) -> None:
    """Log an error that only the model would learn of, and what follows; keep it for the event of the call.

    One that comes from the record was logged before.
    """
    mistake = failures.mistake_in(error)
    if mistake is not None:
        raise mistake
    journal = journal_of(ctx)
    if not failures.is_unexpected(error) or journal.is_answer(error):
        return
    call = ctx.scope.get(AGENT_CALL)
    if call is not None:
        if call.debug:
            raise error
        call.causes[ctx.path] = failures.Cause.of(error)
    text = f"{what} failed at {ctx.path} ({follows})"
    failures.log_failure(text, error, mask_of(journal, ctx.path), logging.WARNING)


def cause_at(ctx: Context, *, keep: bool = True) -> failures.Cause | None:
    """Return the error that became the result of a call, if it was unexpected; forget it unless `keep` is given."""
    call = ctx.scope.get(AGENT_CALL)
    if call is None:
        return None
    return call.causes.get(ctx.path) if keep else call.causes.pop(ctx.path, None)


def mask_of(journal: LocalJournal, path: str) -> Callable[[str], str]:
    """Return a function that masks secrets in a text: those of providers, and what is redacted in records at a path."""

    from ziggurat.middleware.secrets import without_keys  # when there is something to mask

    def mask(text: str) -> str:
        screened = journal.screened(Result(path, "log", None, without_keys(text)))
        return as_type(screened.value, str)

    return mask


async def tell(chain: HookChain | None, error: BaseException, ctx: Context) -> None:
    """Call `on_error` of every middleware, once per error and run, however many calls the error passes through."""
    # An error raised by `on_error` is logged and never hides the first.
    if chain is None or not chain.hooks["on_error"]:
        return
    error = failures.mistake_in(error) or error
    call = ctx.scope.get(AGENT_CALL)
    if call is not None and not call.outermost.report(error):
        return
    for middleware in chain.hooks["on_error"]:
        try:
            await hooked(middleware, "on_error", error, ctx)
        except BaseException as failed:
            as_failure(failed)
            logger.warning("on_error of %s failed", middleware.name, exc_info=True)


def wrap(service: Service[Q, R], chain: HookChain, hook: str) -> Service[Q, R]:
    for middleware in reversed(chain.hooks[hook]):
        service = _Wrapped(middleware, hook, service)
    return service


class _Wrapped(Generic[Q, R]):
    """A service inside the wrap of one middleware; its facts are those of the service."""

    def __init__(self, middleware: Middleware, hook: str, inner: Service[Q, R]) -> None:
        self._middleware = middleware
        self._hook = hook
        self.inner = inner

    async def __call__(self, request: Q, ctx: Context, /) -> R:
        middleware, hook = self._middleware, self._hook
        checked = _Checked(self.inner, request, middleware, hook) if hook in _TAKES else None
        try:
            with running(without(middleware, ctx.at(escaped(f"{middleware.name}.{hook}")))):
                answer = getattr(middleware, hook)(request, ctx, checked or self.inner)
                if not isinstance(answer, Awaitable):
                    not_async(middleware, hook, ctx)
                answer = await answer
        except Exception as error:
            if checked is not None and not checked.has_raised(error):
                failures.note_mistake(error)
            raise
        if not isinstance(answer, PASSES[hook]):
            misused(middleware, hook, answer, ctx)
        if checked is not None and hook in _CONVERSATIONS and answer is not checked.answer:
            _check_sendable(answer, checked.answer, middleware, hook, ctx)
            answer = _begun(answer, checked.answer)
        return cast("R", answer)


class _Checked(Generic[Q, R]):
    """A service as a wrap gets it: it takes no request that the wrap has made unsendable."""

    def __init__(self, inner: Service[Q, R], request: Q, middleware: Middleware, hook: str) -> None:
        self.inner = inner
        self.answer: R | None = None  # the latest
        self.error: Exception | None = None  # as well
        self._request = request
        self._middleware = middleware
        self._hook = hook

    async def __call__(self, request: Q, ctx: Context, /) -> R:
        if request is not self._request:
            kind, hook = _TAKES[self._hook], f"{self._hook} of {self._middleware.name}"
            if not isinstance(request, kind):
                raise ConfigurationError(
                    f"{ctx.path}: the hook {hook} passed on {request!r:.200}, which is not of the type {kind.__name__}"
                )
            _check_sendable(request, self._request, self._middleware, self._hook, ctx)
        try:
            self.answer = await self.inner(request, ctx)
        except Exception as error:
            self.error = error
            raise
        return self.answer

    def has_raised(self, error: BaseException) -> bool:
        return self.error is not None and (self.error is error or self.error is error.__cause__)

    def __repr__(self) -> str:
        return repr(self.inner)
