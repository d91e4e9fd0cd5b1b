"""Whether a failed call of a tool that acts once only may have taken effect."""

from asyncio import CancelledError
from collections.abc import Coroutine
from typing import Any

from ziggurat.core.errors import (
    CallerError,
    Denied,
    InvalidArguments,
    LimitExceeded,
    NotRepeatable,
    ServiceError,
    Suspend,
    ToolError,
    is_transient,
)
from ziggurat.messages.message import ToolResult
from ziggurat.tools.guarded_call import Frozen
from ziggurat.tools.results import text_of_error

_CLIENTS = frozenset(
    {"aiohttp", "anyio", "grpc", "h11", "h2", "httpcore", "httpx", "requests", "urllib3", "websockets"}
)
"""Libraries whose errors tell of a connection."""

_FILES = (FileExistsError, FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
_ANSWERS = (CallerError, Denied, InvalidArguments, LimitExceeded)
_DEPTH = 20


def is_lost(error: BaseException) -> bool:
    """Return whether an error leaves the outcome of a call unknown: a timeout, a broken connection, or a crash."""
    waiting = [error]
    for _ in range(_DEPTH):
        if not waiting:
            break
        seen = waiting.pop()
        if _is_lost_itself(seen):
            return True
        causes: list[BaseException | None] = []
        if isinstance(seen, ToolError):  # made of what is no exception of a call, such as SystemExit, or of another
            causes = [None if isinstance(seen.__cause__, Exception) else seen.__cause__]
        elif isinstance(seen, BaseExceptionGroup):
            causes = [*seen.exceptions]
        elif not isinstance(seen, _ANSWERS):
            causes = [seen.__cause__ or (None if seen.__suppress_context__ else seen.__context__)]
        waiting += [each for each in causes if each is not None]
    return False


def _is_lost_itself(error: BaseException) -> bool:
    if isinstance(error, ToolError):
        return error.kind in ("timeout", "interrupted")
    if isinstance(error, _ANSWERS):
        return False
    if isinstance(error, ServiceError):
        return is_transient(error)
    if isinstance(error, OSError):
        return not isinstance(error, _FILES)
    if isinstance(error, BaseExceptionGroup):
        return False
    if any(kind.__module__.partition(".")[0] in _CLIENTS for kind in type(error).__mro__):
        return True
    return isinstance(error, EOFError) or not isinstance(error, Exception)


def unknown_outcome(name: str, error: BaseException | None = None) -> NotRepeatable:
    why = "it was cancelled" if isinstance(error, CancelledError) else "" if error is None else text_of_error(error)
    return NotRepeatable(
        f"{name} was interrupted and acts once only, so it was not run again; whether it took effect is unknown: find "
        f"out before you ask for it again{f' ({why})' if why else ''}",
        kind="interrupted",
    )


def unknown_in(frozen: Frozen, error: BaseException) -> NotRepeatable | None:
    """Return the error of a call that acts once only if it failed with one that leaves its outcome unknown."""
    if frozen.unknown is None and frozen.runs and is_lost(error):
        return unknown_outcome(frozen.call.name, error)
    return frozen.unknown


async def once_only(work: Coroutine[Any, Any, ToolResult], frozen: Frozen) -> ToolResult:
    """Await a tool that acts once only, and note how it failed, so that no layer runs it again."""
    try:
        return await work
    except Suspend:
        raise
    except BaseException as error:
        frozen.failure = error
        if not is_lost(error):
            raise
        frozen.unknown = unknown_outcome(frozen.call.name, error)
        if isinstance(error, Exception):
            raise frozen.unknown from error
        raise
