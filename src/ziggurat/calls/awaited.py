"""What a flow or a tool waits for: an answer, an event from outside, a time; each is recorded and used once."""

from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ziggurat.calls import agent_call, wait
from ziggurat.core import clock, errors, settings
from ziggurat.core.codec import canonical
from ziggurat.core.context import AMBIENT, JOURNAL, Context
from ziggurat.core.event import warn_once
from ziggurat.journal.journal import journal_of
from ziggurat.messages.agent import Answer, Decision, Deny, PendingItem
from ziggurat.messages.events import Warned
from ziggurat.messages.message import ToolCall
from ziggurat.tools import decisions
from ziggurat.tools.guarded_call import frozen_in
from ziggurat.tools.parameter import Parameter
from ziggurat.tools.validator import misfit_of_schema
from ziggurat.tools.values import difference

if TYPE_CHECKING:
    from typing_extensions import TypeForm


NO_DEFAULT = object()  # says that nothing follows if no value comes in time


def _plain(asked: Parameter, value: object, name: str) -> object:
    try:
        return asked.recorded(value)
    except errors.ConfigurationError as error:
        raise errors.ConfigurationError(f"{name} does not fit: {error}") from error


async def _value(asked: Parameter, accepted: object, ctx: Context, misfit: str) -> Any:
    """Return a value made of accepted JSON, the same each time; recorded where its type generates a part of it."""
    try:
        value = asked.restore(accepted)
    except ValueError as error:
        raise errors.ConfigurationError(f"{misfit}: {error}") from error
    if difference(value, asked.restore(accepted)) is None:
        return value

    async def recorded(_: None, ctx: Context) -> object:
        return asked.recorded(value, accepted)

    return asked.revive(await ctx.at("value").once("value", None, recorded, returns=object))


def _place_to_wait(name: str) -> Context:
    """Return the context of the next wait of this name, below the function that is running."""
    ambient = AMBIENT.get()
    if ambient is None or JOURNAL not in ambient.scope:
        raise errors.ConfigurationError(f"{name}() belongs into a flow, a tool or a hook of a run; here is none")
    if ambient.charges is not None:
        raise errors.ConfigurationError(
            f"{ambient.path} is recorded as a whole, so it cannot wait: call {name}() in the flow, and pass on what "
            "comes of it"
        )
    frozen = frozen_in(ambient)
    if frozen is not None and frozen.effect == "once":
        raise errors.ConfigurationError(
            f"{frozen.call.name} acts once only, and would be interrupted by its {name}(): wait before, in a tool of "
            "its own, or let a person approve the call"
        )
    return agent_call.place_of(ambient, name)


T = TypeVar("T")


if TYPE_CHECKING:

    @overload
    def ask(
        question: str,
        *,
        choices: Sequence[str] | None = None,
        default: str = ...,
        expires: float | None = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, str]: ...
    @overload
    def ask(
        question: str,
        answer: TypeForm[T],
        *,
        choices: Sequence[T] | None = None,
        default: T = ...,
        expires: float | None = None,
        key: str | None = None,
    ) -> Coroutine[Any, Any, T]: ...


@settings.checked
async def ask(
    question: settings.NonEmptyText,
    answer: Any = str,
    *,
    choices: Sequence[Any] | None = None,
    default: Any = NO_DEFAULT,
    expires: settings.Seconds | None = None,
    key: settings.NonEmptyText | None = None,
) -> Any:
    """Ask a person, or a program, and wait for the answer, for days if need be; the run is suspended meanwhile.

    ::

        if await ask(f"Ship to {order.address}?", bool, expires=3 * 86400, default=False):
            await ship(order)

    The question is in ``run.pending``; it is answered with ``resume(run_id, {item.id: Answer(True)})``, or with
    ``decide(...)``, which only records the answer. An answer that does not fit is refused there. It is recorded, and
    used again whenever the run is continued, for the same question only: with another text, type or choices it is asked
    anew if nobody has answered, and refused otherwise.

    Args:
        question: The text.
        answer: The type of the answer; text by default.
        choices: The possible answers, if they are few.
        default: The answer if nobody has answered in time. Without one, the run gets `Denied` then.
        expires: Seconds after which an answer comes too late; None for never.
        key: Identifies the question instead of its text, which may then vary, such as one that states the time.

    Raises:
        Suspend: there is no answer yet. It passes through ``except Exception``.
        Denied: the question was refused, with ``Deny(reason)``, or has expired and has no default.
        ConfigurationError: it is asked outside of a run, in a step, or in a tool that acts once only; or a choice, the
            default, or the answer, as far as its JSON did not show it, is not of the type.
        JournalMismatch: another question was answered here.
    """
    ctx = _place_to_wait("ask")
    asked = Parameter.of_asked("answer", answer)
    schema = asked.schema
    if choices is not None:
        if not choices:
            raise errors.ConfigurationError(f"the question {question!r} has no choices, so nobody could answer it")
        schema = {
            "enum": [_plain(asked, choice, f"the choice {choice!r} of the question {question!r}") for choice in choices]
        }
    plain = () if default is NO_DEFAULT else (_plain(asked, default, f"the default of the question {question!r}"),)
    record = decisions.Question(question, schema, plain, key or "")
    wrong = misfit_of_schema(schema, plain[0]) if plain else None
    if wrong is not None:
        raise errors.ConfigurationError(f"the default of the question {question!r} does not fit: {wrong}")
    value = await _answer_to(record, ctx, expires)
    return await _value(asked, value, ctx, f"the answer {value!r:.200} to the question {question!r} does not fit")


async def ask_for_json(question: str, schema: dict[str, Any]) -> object:
    return await _answer_to(decisions.Question(question, schema), _place_to_wait("ask"), None)


async def _answer_to(record: decisions.Question, ctx: Context, expires: float | None) -> object:
    call = ToolCall("", "ask", canonical(record).decode())
    until = None if expires is None else ctx.clock.now() + expires
    decision = await wait.for_decision(wait.item_of(call, ctx, "question", reason=record.question, until=until), ctx)
    if isinstance(decision, Answer):
        return decision.value
    reason = decision.reason if isinstance(decision, Deny) else f"the question was not answered: {decision!r}"
    denied = errors.Denied(reason)
    errors.attach(denied, errors.DECIDED, f"the question {record.question!r:.200} was denied: {reason}")
    raise denied


if TYPE_CHECKING:

    @overload
    def event(name: str, *, timeout: float | None = None, default: Any = ...) -> Coroutine[Any, Any, Any]: ...
    @overload
    def event(
        name: str, value: TypeForm[T], *, timeout: float | None = None, default: T = ...
    ) -> Coroutine[Any, Any, T]: ...


@settings.checked
async def event(
    name: settings.NonEmptyText,
    value: Any = object,
    *,
    timeout: settings.Seconds | None = None,
    default: Any = NO_DEFAULT,
) -> Any:
    """Wait for an event that is sent to this run from outside, for days if need be; the run is suspended meanwhile.

    ::

        payment = await event("paid", Payment, timeout=7 * 86400)
        # elsewhere: await send("order-17", "paid", payment, store=...)

    Each event is taken once, those of one name in the order in which they were sent. One that was sent before the flow
    came here is waiting; one that was sent after the wait was over is left to a later wait. One whose value does not
    fit the type is refused by `send` where that is known, that is while the run waits for it; one that was sent earlier
    is left, with a warning, to a later wait that it fits.

    Args:
        name: The name of the event.
        value: The type of its value; by default any JSON.
        timeout: Seconds after which the wait is over; None for never.
        default: The value if none was sent in time. Without one, `Timeout` is raised then.

    Raises:
        Suspend: there is none yet. It passes through ``except Exception``.
        Timeout: none was sent in time, and there is no default.
        ConfigurationError: nothing can wait here: outside of a run, in a step, or in a tool that acts once only.
    """
    ctx = _place_to_wait("event")
    asked = Parameter.of_asked("value", value)
    plain = () if default is NO_DEFAULT else (_plain(asked, default, f"the default of the event {name!r}"),)
    call = ToolCall("", "event", canonical(decisions.Awaited(name, asked.schema, plain)).decode())
    until = None if timeout is None else ctx.clock.now() + timeout
    item = wait.item_of(call, ctx, "event", reason=f"for the event {name!r}", until=until)
    decision = await wait.for_decision(item, ctx, lambda item: _arrived(item, name, asked, ctx))
    if isinstance(decision, Answer):
        misfit = (
            f"{ctx.path}: resume the run with the code as it was: it has taken the event {name!r}, which does not fit "
            "its type any more"
        )
        return await _value(asked, decision.value, ctx, misfit)
    late = errors.Timeout(decision.reason if isinstance(decision, Deny) else "", seconds=timeout)
    errors.attach(late, errors.DECIDED, str(late))
    raise late


async def _arrived(item: PendingItem, name: str, asked: Parameter, ctx: Context) -> tuple[Decision, int] | None:
    """Return the first event that fits and the number of its item, or what ends the wait; None if it goes on."""
    inbox, now = agent_call.inbox_of(ctx), ctx.clock.now()
    for sent in await inbox.events(name, ctx.path):
        if item.until is not None and item.until <= sent.at <= now:  # not if it was sent by another clock
            continue
        try:
            asked.restore(sent.value)
        except ValueError as error:
            sender = f"that was sent to the run {ctx.run_id} as number {sent.number}"
            text = f"the event {name!r} {sender} does not fit: {error}"
            warn_once(text)
            if ctx.listens(Warned):
                await ctx.emit(Warned(ctx.path, text))
        else:
            inbox.take(sent, ctx.path)
            return Answer(sent.value), sent.number
    if item.until is None or now < item.until:
        return None
    default = decisions.awaited_in(item.call).default
    late = f"no event {name!r} was sent by {decisions.shown_time(item.until)}"
    return Answer(default[0]) if default else Deny(late), 0


_SHORT = 1.0
"""Seconds up to which a wait is spent in the process: to suspend the run and to go on with it would take as long."""


@settings.checked
async def sleep(
    *,
    seconds: settings.NonNegativeSeconds | None = None,
    minutes: settings.NonNegativeSeconds | None = None,
    hours: settings.NonNegativeSeconds | None = None,
    days: settings.NonNegativeSeconds | None = None,
    until: datetime | None = None,
) -> None:
    """Wait for a time, or until one, for months if need be; with a store, the run is suspended meanwhile.

    ::

        await sleep(days=3)
        await remind(order)

    When it ends is recorded when it begins. The run goes on when it is resumed after that, by a worker or by `recover`,
    in any process; before that, it is suspended again. A wait of at most a second, one beside parts that work, and any
    in a run without a store are spent in this process. Time spent waiting counts for no timeout. It is not waited for
    again in a replay or a fork.

    Args:
        seconds: How long; the sum of this and the next three. If it is 0, the run goes on at once.
        minutes: How long, in minutes.
        hours: How long, in hours.
        days: How long, in days of 24 hours.
        until: When it ends, with a time zone, instead of how long; at once if that is past.

    Raises:
        Suspend: it is not over yet. It passes through ``except Exception``.
        ConfigurationError: it has no length, or cannot wait here: outside of a run, in a step, or in a tool that acts
            once only.
    """
    lengths = [(seconds, 1), (minutes, 60), (hours, 3600), (days, 86400)]
    if (until is None) == all(each is None for each, _ in lengths):
        raise errors.ConfigurationError(
            "sleep() takes how long, as in sleep(days=3), or until=, a time; give one of them"
        )
    if until is not None and until.tzinfo is None:
        raise errors.ConfigurationError(f"until needs a time zone, such as datetime.now(UTC) has; got {until!r}")
    ctx = _place_to_wait("sleep")
    length = sum(each * unit for each, unit in lengths if each is not None)
    at = ctx.clock.now() + length if until is None else until.timestamp()
    length_or_time = {"seconds": length} if until is None else {"until": until.isoformat()}
    try:
        reason = f"until {decisions.shown_time(at)}"
    except (OverflowError, ValueError) as error:
        raise errors.ConfigurationError(f"sleep() ends before the year 10000, got {length:g} seconds") from error
    item = wait.item_of(
        ToolCall("", "sleep", canonical(length_or_time).decode()), ctx, "timer", reason=reason, until=at
    )
    await wait.for_decision(item, ctx, lambda item: _fired(item, ctx))


async def _fired(item: PendingItem, ctx: Context) -> tuple[Decision, int] | None:
    """Return what ends a timer, None while it runs; wait for it where the run is not suspended meanwhile."""
    assert item.until is not None
    longest = float("inf") if journal_of(ctx).writer is None else _SHORT
    left = item.until - ctx.clock.now()
    if left > longest:
        return None
    with journal_of(ctx).watch.soon(), (ctx.watch or clock.Stopwatch(ctx.clock)).waiting():
        while 0 < left <= longest:
            await ctx.clock.sleep(min(left, wait.LOOK))
            left = item.until - ctx.clock.now()
        await clock.take_back(ctx.watch)
    return None if left > 0 else (Answer(None), 0)  # the clock may have been set back meanwhile
