"""Level 1: pydantic-monty, an interpreter of a part of Python, in a process of its own for each session."""

import atexit
import os
import sysconfig
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cache, partial
from importlib import metadata
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ziggurat.sandbox.sandbox import LimitReached, Printed, ProgramCall, Sandbox

if TYPE_CHECKING:
    from pydantic_monty import AsyncMontySession, AsyncSnapshot

VERSION = "1.4.0"  # the version whose limits and traps are tested; its language and interface change with each
_GRACE = 0.5  # seconds after its limit in which the interpreter stops by itself; then its process is killed


@cache
def missing() -> str | None:
    try:
        import pydantic_monty  # noqa: F401

        found = metadata.version("pydantic-monty")
    except ImportError:  # PackageNotFoundError is one, too
        return "pydantic-monty is not installed: pip install 'ziggurat[sandbox]'"
    if found != VERSION:
        return f"it is tested with pydantic-monty {VERSION}, and {found} is installed"
    return None if os.access(_binary(), os.X_OK) else f"{_binary()} is not there: install pydantic-monty again"


def _binary() -> str:
    """Return the interpreter; left to itself, the library would take one from the environment or the search path."""
    return os.path.join(sysconfig.get_path("scripts"), "monty")


@cache
def _settle_at_exit() -> None:
    # A thread of the library that has just set the result of an await may still be on its way out of Python. If the
    # interpreter is finalized under it, the process aborts, once in 20 to 50 programs.
    atexit.register(sleep, 0.1)


@asynccontextmanager
async def started(sandbox: Sandbox, now: datetime, seed: int) -> AsyncGenerator["MontyProcess", None]:
    import pydantic_monty as monty

    _settle_at_exit()
    limits: monty.ResourceLimits = {
        "max_feed_duration_secs": sandbox.seconds,
        "max_memory": sandbox.memory,
        "max_recursion_depth": sandbox.recursion,
        "max_suspensions": 2**31,  # they are counted by the session, for each program
    }
    policy: monty.OSPolicy = {"datetime": now, "sleep": "zero", "random_start": {"seed": seed}}
    # A process of its own: a pool that sessions share would be held up by those that wait for a model or a person.
    pool = monty.AsyncMonty(
        binary_path=_binary(),
        max_processes=1,
        request_timeout=sandbox.seconds + _GRACE,
        feed_duration_limit_grace=_GRACE,
    )
    async with pool, pool.checkout(limits=limits, os_policy=policy) as session:
        yield MontyProcess(session)


class MontyProcess:
    """The interpreter, which is fed programs and answers."""

    grace = _GRACE

    def __init__(self, session: "AsyncMontySession") -> None:
        self._session = session
        self._functions: Collection[str] = ()
        self._resume: Callable[..., Awaitable[AsyncSnapshot]]  # of the call that waits for its answer
        self._next: Callable[[], Awaitable[AsyncSnapshot]]

    def begin(self, code: str, functions: Collection[str], values: dict[str, Any], printed: Printed) -> None:
        self._functions = functions
        self._next = partial(self._session.feed_start, code, inputs=values, print_callback=printed.add)

    def answer(self, value: Any) -> None:
        self._next = partial(self._resume, {"return_value": value})

    def fail(self, kind: str, text: str) -> None:
        self._next = partial(self._resume, {"exc_type": kind, "message": text})

    async def end(self) -> None:
        """Do nothing: the pool ends with its block, and kills a process that runs on."""

    async def turn(self, until: float) -> ProgramCall | tuple[Any, str] | None:
        """Run on; return the next call, the value and the error at the end, or None for what is answered here."""
        import pydantic_monty as monty

        try:
            snapshot = await self._next()
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as raised:
            error = raised.exception()
            # a TimeoutError well before the limit came from a call
            if isinstance(error, MemoryError) or (isinstance(error, TimeoutError) and until - monotonic() <= _GRACE):
                raise LimitReached(raised.display()) from None
            return None, raised.display()
        except monty.MontyCrashedError as crashed:
            if crashed.timed_out:
                raise TimeoutError from None
            raise LimitReached("MemoryError: the interpreter has ended") from None
        if isinstance(snapshot, monty.MontyComplete):
            return snapshot.output, ""
        if isinstance(snapshot, monty.AsyncNameLookupSnapshot):
            name = snapshot.variable_name
            known = {"value": _named(name)} if name in self._functions else {}
            self._next = partial(snapshot.resume, **known)
        elif not isinstance(snapshot, monty.AsyncFunctionSnapshot):
            raise LimitReached("RuntimeError: the program waits for what nobody does")
        elif snapshot.is_os_function:
            self._next = partial(snapshot.resume_not_handled)
        else:
            self._resume = snapshot.resume
            name = snapshot.function_name if snapshot.object_id is None else f".{snapshot.function_name}"
            return ProgramCall(name, snapshot.args, snapshot.kwargs)
        return None


def _named(name: str) -> Callable[[], None]:
    """Return what the interpreter takes for a function of the host, which it asks for by this name."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function
