"""RunControl: what a run shares with the handle that started it."""

__all__ = ["RunControl"]

import asyncio


class RunControl:
    """What a run shares with the handle that started it.

    Args:
        run_id: The id that the run has, or will have once it is on record.

    Attributes:
        recorded: Set when the run is on record.
        cancelled: Whether the handle has asked to cancel it.
        withdrawn: Whether it is cancelled as if its process had ended, so that another may go on with it at once.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.recorded: asyncio.Event = asyncio.Event()
        self.cancelled = False
        self.withdrawn = False
