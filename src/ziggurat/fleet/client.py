"""What the parts on Redis need of a client."""

import asyncio
from typing import TYPE_CHECKING

from ziggurat.core.errors import ConfigurationError

if TYPE_CHECKING:
    from redis.asyncio import Redis


def checked_client(client: "Redis") -> "Redis":
    """Return a client, after checking that it returns bytes."""
    if client.get_connection_kwargs().get("decode_responses"):  # type: ignore[no-untyped-call]
        raise ConfigurationError("the client of Redis must return bytes: make it without decode_responses=True")
    return client


def is_away(error: BaseException) -> bool:
    """Return whether an error says that Redis cannot be reached, or not in time."""
    from redis.exceptions import ConnectionError as Lost, TimeoutError as Late

    return isinstance(error, Lost | Late | OSError | TimeoutError)


def check_cancelled() -> None:
    """Cancel the task again if a cancellation of it was lost: on Python 3.11 `wait_for`, in the client, drops some."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
