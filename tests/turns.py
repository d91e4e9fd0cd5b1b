"""Waiting for what rings no event, such as the other end of a socket or a thread, without a clock."""

__all__ = ["until"]

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop turn until something holds; that it never does, the time limit of the tests finds out."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0)
