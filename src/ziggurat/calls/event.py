"""Events: a flow waits for a value that is sent to its run from outside, typed and taken once."""

from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ziggurat.calls.asked import NO_DEFAULT, Asked
from ziggurat.calls.check import Awaited, awaited_in
from ziggurat.calls.inbox import Sent, inbox_of
from ziggurat.calls.wait import item_of, wait, waiting_place
from ziggurat.core.codec import canonical
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Timeout
from ziggurat.core.log import logger
from ziggurat.core.settings import NonEmptyText, Seconds, checked
from ziggurat.messages.agent import Answer, Decision, Deny, PendingItem
from ziggurat.messages.events import Warned
from ziggurat.messages.parts import ToolCall

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


if TYPE_CHECKING:

    @overload
    def event(name: str, *, timeout: float | None = None, default: Any = ...) -> Coroutine[Any, Any, Any]: ...
    @overload
    def event(
        name: str, value: TypeForm[T], *, timeout: float | None = None, default: T = ...
    ) -> Coroutine[Any, Any, T]: ...


@checked
async def event(
    name: NonEmptyText, value: Any = object, *, timeout: Seconds | None = None, default: Any = NO_DEFAULT
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
    ctx = waiting_place("event")
    asked = Asked.of("value", value)
    plain = () if default is NO_DEFAULT else (asked.plain(default, f"the default of the event {name!r}"),)
    call = ToolCall("", "event", canonical(Awaited(name, asked.schema, plain)).decode())
    until = None if timeout is None else ctx.clock.now() + timeout
    item = item_of(call, ctx, "event", reason=f"for the event {name!r}", until=until)
    decision = await wait(item, ctx, lambda item: _arrived(item, name, asked, ctx))
    if isinstance(decision, Answer):
        wrong = asked.misfit(decision.value)
        if wrong is not None:  # it fitted when it was taken
            raise ConfigurationError(
                f"{ctx.path}: the run has taken the event {name!r}, which does not fit its type any more: {wrong}; "
                "resume the run with the code as it was"
            )
        return await asked.value(decision.value, ctx)
    raise Timeout(decision.reason if isinstance(decision, Deny) else "", seconds=timeout)


async def _arrived(item: PendingItem, name: str, asked: Asked, ctx: Context) -> Decision | tuple[Decision, int] | None:
    """Return the first event that fits and the number of its item, or what ends the wait; None if it goes on."""
    inbox, now = inbox_of(ctx), ctx.clock.now()
    for sent in await inbox.events(name, ctx.path):
        if item.until is not None and item.until <= sent.at <= now:  # not if it was sent by another clock
            continue
        wrong = asked.misfit(sent.value)
        if wrong is None:
            inbox.take(sent, ctx.path)
            return Answer(sent.value), sent.number
        await _warn(sent, name, wrong, ctx)
    if item.until is None or now < item.until:
        return None
    default = awaited_in(item.call).default
    late = f"no event {name!r} was sent by {datetime.fromtimestamp(item.until, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return Answer(default[0]) if default else Deny(late)


async def _warn(sent: Sent, name: str, wrong: str | None, ctx: Context) -> None:
    text = f"the event {name!r} that was sent to the run {ctx.run_id} as number {sent.number} does not fit: {wrong}"
    logger.warning("%s", text)
    if ctx.listens(Warned):
        await ctx.emit(Warned(ctx.path, text))
