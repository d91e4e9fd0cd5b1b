"""Timers: a flow, a tool or a hook waits for a time, for months if need be."""

import math
from datetime import UTC, datetime

from ziggurat.calls.wait import item_of, wait, waiting_place
from ziggurat.core.clock import Stopwatch, take_back
from ziggurat.core.codec import canonical
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import NonNegativeSeconds, checked
from ziggurat.journal.journal import journal_of
from ziggurat.messages.agent import Answer, Decision, PendingItem
from ziggurat.messages.parts import ToolCall

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
    await wait(item, ctx, lambda item: _fired(item, ctx))


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
