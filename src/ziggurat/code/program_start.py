"""The start of a program: the time and the random numbers that it finds, however often it runs."""

from datetime import UTC, datetime

from msgspec import Struct

from ziggurat.core.context import Context


class Start(Struct, frozen=True):
    """The time and the random numbers of a program, recorded when it first ran."""

    now: float
    seed: int

    @property
    def time(self) -> datetime:
        """The time as a datetime."""
        return datetime.fromtimestamp(self.now, UTC)


async def begun(ctx: Context) -> Start:
    """Return the start of a program, as recorded if it ran before."""
    return await ctx.at("start").once("start", None, _begin, returns=Start)


async def _begin(_: None, ctx: Context) -> Start:
    return Start(ctx.clock.now(), int(ctx.random() * 2**53))
