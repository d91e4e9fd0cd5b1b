"""Timeout: bounds how long a call may take."""

from typing import TypeVar

from ziggurat.core.context import Context
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import Seconds

Q = TypeVar("Q")
R = TypeVar("R")


@layer
async def timeout(request: Q, ctx: Context, inner: Service[Q, R], *, seconds: Seconds) -> R:
    """Cancel a call that takes longer than `seconds`, and raise `Timeout`, which is transient.

    Inside a retry it limits each try, outside a retry all tries together. The service gets the deadline in its context.
    Time spent waiting for a slow reader of events does not count::

        stack(model, retry(attempts=3), timeout(seconds=30))
    """
    async with ctx.limit(seconds) as ctx:
        return await inner(request, ctx)
