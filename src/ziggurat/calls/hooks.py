"""Chains of middleware, which all calls below an agent inherit, and the functions that call their hooks."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core import failures, tasks
from ziggurat.core.codec import as_type
from ziggurat.core.context import JOURNAL, Context, Key, running
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.log import logger
from ziggurat.core.path import escaped
from ziggurat.core.service import Service
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages import events, validation
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.middleware import HOOKS, Middleware

Q = TypeVar("Q")
R = TypeVar("R")
T = TypeVar("T")

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


def places_after(ctx: Context) -> list[str]:
    """Return the paths of the hooks of an agent that go on after its loop or its program has ended."""
    chain = ctx.scope.get(MIDDLEWARE) or NO_CHAIN
    names = [f"{each.name}.{hook}" for hook in ("wrap_agent", "after_agent") for each in chain.hooks[hook]]
    return [ctx.at(escaped(name)).path for name in names]


def screened(journal: LocalJournal, chain: HookChain, path: str) -> None:
    """Apply `on_record` of a chain's middlewares to all entries recorded at and below `path`."""
    for middleware in chain.hooks["on_record"]:
        journal.screen(path, _RecordHook(middleware))


class _RecordHook(Struct, frozen=True):
    """The `on_record` of a middleware; equal for the same one, so that a journal applies it once."""

    middleware: Middleware

    def __call__(self, entry: entries.JournalEntry) -> entries.JournalEntry:
        changed: object = self.middleware.on_record(entry)
        if isinstance(changed, entries.JournalEntry) and changed.kind == entry.kind and changed.path == entry.path:
            return changed
        raise ConfigurationError(
            f"the hook on_record of {self.middleware.name} got a {entry.kind} of {entry.path or 'the run'} "
            f"and returned {tasks.closed(changed)!r:.200}; it must return an entry of the same type and path, such as "
            "the one it got"
        )


# -- calling hooks ---------------------------------------------------------------------------------------------------


async def run_hooks(chain: HookChain, hook: str, value: T, ctx: Context) -> T:
    middlewares = chain.hooks[hook]
    for middleware in reversed(middlewares) if hook.startswith("after_") else middlewares:
        value = await hooked(middleware, hook, value, ctx)
    return value


async def hooked(middleware: Middleware, hook: str, value: T, ctx: Context, at: Context | None = None) -> T:
    """Call one hook with a value, `at` a place of its own; return the value to continue with."""
    if ctx.listens(events.MiddlewareStarted):
        await ctx.emit(events.MiddlewareStarted(ctx.path, middleware.name, hook))
    try:
        with running(without(middleware, at or ctx.at(escaped(f"{middleware.name}.{hook}")))):
            answer = getattr(middleware, hook)(value, ctx)
            if not isinstance(answer, Awaitable):
                raise not_async(middleware, hook, ctx)
            changed = await answer
    except Exception as error:
        if hook not in _OF_TOOLS:
            failures.note_mistake(error)
        raise
    if ctx.listens(events.MiddlewareCompleted):
        await ctx.emit(events.MiddlewareCompleted(ctx.path, middleware.name, hook))
    if changed is None or changed is value:
        return value
    if not isinstance(changed, HOOKS[hook]):
        raise misused(middleware, hook, changed, ctx)
    if hook in _CONVERSATIONS:
        _check_sendable(changed, value, middleware, hook, ctx)
    result: T = _begun(changed, value)
    return result


def _begun(changed: Any, before: object) -> Any:
    """Return a run from a hook that may have removed or added messages before those of the run, with its new start."""
    if not isinstance(changed, AgentRun) or not isinstance(before, AgentRun) or changed.start != before.start:
        return changed
    messages, earlier = list(changed.history), list(before.history)
    if len(messages) == len(earlier):
        return changed
    own = earlier[before.start :]
    start = len(messages) - len(own)
    if start < 0 or messages[start:] != own:  # the first message that is not one of the earlier ones
        known = earlier[: before.start]
        start = next((at for at, message in enumerate(messages) if [message] != known[at : at + 1]), len(messages))
    return replace(changed, start=start)


def _check_sendable(changed: Any, before: Any, middleware: Middleware, hook: str, ctx: Context) -> None:
    """Raise if a hook made the conversation of a request or a run unsendable, which it was not `before`."""
    if before is not None and changed.messages is before.messages:
        return
    is_whole = changed.messages or isinstance(changed, AgentRun)
    wrong = validation.validate(changed.messages, validation.SENDABLE) if is_whole else "no message is left"
    if wrong is not None and (before is None or validation.validate(before.messages, validation.SENDABLE) is None):
        raise ConfigurationError(
            f"{ctx.path}: the hook {hook} of {middleware.name} made a conversation that cannot be sent: {wrong}"
        )


def not_async(middleware: Middleware, hook: str, ctx: Context) -> ConfigurationError:
    return ConfigurationError(
        f"{ctx.path}: the hook {hook} of {middleware.name} is not async; write async def {hook}(...)"
    )


def misused(middleware: Middleware, hook: str, changed: object, ctx: Context) -> ConfigurationError:
    kinds = HOOKS[hook]
    kind = " or ".join(each.__name__ for each in (kinds if isinstance(kinds, tuple) else (kinds,)))
    unchanged = "" if hook.startswith("wrap_") else ", or None to change nothing"
    return ConfigurationError(
        f"{ctx.path}: the hook {hook} of {middleware.name} returned {tasks.closed(changed)!r:.200}; it must return "
        f"{kind}{unchanged}"
    )


def without(middleware: Middleware, ctx: Context) -> Context:
    """Return a context for agents that a hook runs: they do not pass the middleware that runs them."""
    chain = ctx.scope.get(MIDDLEWARE)
    return ctx if chain is None else ctx.within(MIDDLEWARE, chain.without(middleware))


def note_failure(
    error: Exception, what: str, ctx: Context, follows: str = "the error is reported to the model"
) -> None:
    """Log an error that only the model would learn of, and what follows; keep it for the event of the call."""
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
    run_id, agent = ("", "") if call is None else (ctx.run_id, call.agent)
    mask = mask_of(journal, ctx.path)
    failures.log_failure(text, error, mask, logging.WARNING, run_id=run_id, path=ctx.path, agent=agent)


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
        screened = journal.screened(entries.Result(path, "log", None, without_keys(text)))
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
            tasks.as_failure(failed)
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
        checked = None if hook == "wrap_tool" else _Checked(self.inner, request, middleware, hook)
        try:
            with running(without(middleware, ctx.at(escaped(f"{middleware.name}.{hook}")))):
                answer = getattr(middleware, hook)(request, ctx, checked or self.inner)
                if not isinstance(answer, Awaitable):
                    raise not_async(middleware, hook, ctx)
                result: R = await answer
        except Exception as error:
            if checked is not None and not checked.has_raised(error):
                failures.note_mistake(error)
            raise
        if not isinstance(result, HOOKS[hook]):
            raise misused(middleware, hook, result, ctx)
        if checked is not None and hook in _CONVERSATIONS and result is not checked.answer:
            _check_sendable(result, checked.answer, middleware, hook, ctx)
            result = _begun(result, checked.answer)
        return result


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
            kind, hook = type(self._request), f"{self._hook} of {self._middleware.name}"
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
