"""Waiting: a place in a flow, a tool or a hook that waits for an answer, a time or an event, for days if need be."""

import math
from datetime import UTC, datetime

from msgspec.structs import replace

from ziggurat.calls.call_decision import CallDecision, Settle, is_same_wait, item_of, refuse, shown_wait
from ziggurat.calls.step import note_left, place_of
from ziggurat.core.codec import as_type, canonical
from ziggurat.core.context import AMBIENT, JOURNAL, Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonNegativeSeconds, checked
from ziggurat.core.stopwatch import Stopwatch, take_back
from ziggurat.journal.journal import journal_of
from ziggurat.messages.agent import Answer, Decision, PendingItem, decision_of
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.guarded_call import frozen_in


def waiting_place(name: str) -> Context:
    """Return the context of the next wait of this name, below the function that is running."""
    ambient = AMBIENT.get()
    if ambient is None or JOURNAL not in ambient.scope:
        raise ConfigurationError(f"{name}() belongs into a flow, a tool or a hook of a run; here is none")
    if ambient.charges is not None:
        raise ConfigurationError(
            f"{ambient.path} is recorded as a whole, so it cannot wait: call {name}() in the flow, and pass on what "
            "comes of it"
        )
    frozen = frozen_in(ambient)
    if frozen is not None and frozen.effect == "once":
        raise ConfigurationError(
            f"{frozen.call.name} acts once only, and would be interrupted by its {name}(): wait before, in a tool of "
            "its own, or let a person approve the call"
        )
    return place_of(ambient, name)


async def decision_on(item: PendingItem, ctx: Context, settle: Settle | None = None) -> Decision:
    """Return the recorded decision on what waits here, or the one that `settle` finds now; else have the run wait."""
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    waits = None if record is None or record.pending is None else as_type(record.pending.request, ToolCall)
    if waits is not None and not is_same_wait(waits, item, journal):
        if journal.refusing or (record is not None and record.decided is not None):
            raise journal.refuse(
                f"{ctx.path}: on record is {shown_wait(waits)}, and this code has {shown_wait(item.call)}: resume the "
                "run with the code as it was; a question whose text varies takes a key="
            )
        record = waits = None  # nobody has decided: it is asked anew
    if record is not None and record.decided is not None:
        return decision_of(record.decided.decision)
    if waits is not None:
        item = replace(item, call=waits)
    elif journal.refusing:
        refuse(item.call.name, ctx, journal)
    try:
        return await CallDecision(item, record, ctx).reach(settle)
    except BaseException as error:
        note_left(AMBIENT.get(), error)
        raise


_SHORT = 1.0
"""Seconds up to which a wait is spent in the process: to suspend the run and to go on with it would take as long."""


_LOOK = 600.0
"""Seconds after which a wait in the process looks at the clock, which may have been set, or the machine suspended."""


@checked
async def sleep(
    *,
    seconds: NonNegativeSeconds | None = None,
    minutes: NonNegativeSeconds | None = None,
    hours: NonNegativeSeconds | None = None,
    days: NonNegativeSeconds | None = None,
    until: datetime | None = None,
) -> None:
    """Wait for a time, or until one, for months if need be; with a store, the run is suspended meanwhile.

    ::

        await sleep(days=3)
        await remind(order)

    When it ends is recorded when it begins. The run goes on when it is resumed after that, by a worker or by `recover`,
    in any process; before that, it is suspended again. A wait of at most a second, and any in a run without a store, is
    spent in this process. Time spent waiting counts for no timeout. It is not waited for again in a replay or a fork.

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
        raise ConfigurationError("sleep() takes how long, as in sleep(days=3), or until=, a time; give one of them")
    if until is not None and until.tzinfo is None:
        raise ConfigurationError(f"until needs a time zone, such as datetime.now(UTC) has; got {until!r}")
    ctx = waiting_place("sleep")
    length = sum(each * unit for each, unit in lengths if each is not None)
    at = ctx.clock.now() + length if until is None else until.timestamp()
    length_or_time = {"seconds": length} if until is None else {"until": until.isoformat()}
    try:
        reason = f"until {datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError) as error:
        raise ConfigurationError(f"sleep() ends before the year 10000, got {length:g} seconds") from error
    item = item_of(ToolCall("", "sleep", canonical(length_or_time).decode()), ctx, "timer", reason=reason, until=at)
    await decision_on(item, ctx, lambda item: _fired(item, ctx))


async def _fired(item: PendingItem, ctx: Context) -> Decision | None:
    """Return what ends a timer, None while it runs; wait for it where the run is not suspended meanwhile."""
    assert item.until is not None
    clock = ctx.clock
    longest = _SHORT if journal_of(ctx).durable else math.inf
    left = item.until - clock.now()
    if left > longest:
        return None
    with (ctx.watch or Stopwatch(clock)).waiting():
        while 0 < left <= longest:
            await clock.sleep(min(left, _LOOK))
            left = item.until - clock.now()
        await take_back(ctx.watch)
    return None if left > 0 else Answer(None)  # the clock may have been set back meanwhile
