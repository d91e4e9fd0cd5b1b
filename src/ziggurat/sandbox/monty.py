"""Level 1: pydantic-monty, an interpreter of a part of Python, in a process of its own for each session."""

import asyncio
import os
import sysconfig
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from functools import cache, partial
from importlib import metadata
from time import monotonic
from typing import TYPE_CHECKING, Any

from ziggurat.sandbox.errors import ProgramError
from ziggurat.sandbox.printed import Printed
from ziggurat.sandbox.sandbox import HostCall, ProgramResult, Sandbox
from ziggurat.sandbox.values import plain

if TYPE_CHECKING:
    from pydantic_monty import AsyncFunctionSnapshot, AsyncMontySession, AsyncSnapshot

    _Turn = Callable[[], Awaitable[AsyncSnapshot]]

VERSION = "1.4.0"
"""The version whose limits and traps are tested; its language and interface change with each."""

_GRACE = 0.5
"""Seconds after its limit in which the interpreter stops by itself; then its process is killed."""


@cache
def missing() -> str | None:
    """Return why this level is not available, or None if it is."""
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


@asynccontextmanager
async def open_session(sandbox: Sandbox, now: datetime, seed: int) -> AsyncGenerator["MontySession", None]:
    """Start a process with a session, and end it with the block."""
    import pydantic_monty as monty

    limits: monty.ResourceLimits = {
        "max_feed_duration_secs": sandbox.seconds,
        "max_memory": sandbox.memory,
        "max_recursion_depth": sandbox.recursion,
        "max_suspensions": 2**31,  # they are counted here, for each program
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
        yield MontySession(sandbox, session)


class MontySession:
    """A session of the interpreter."""

    def __init__(self, sandbox: Sandbox, session: "AsyncMontySession") -> None:
        self._sandbox = sandbox
        self._session = session
        self._lost = ""
        self._left = 0.0  # of the seconds of the program that runs

    async def run(
        self, code: str, call: HostCall, functions: Collection[str] = (), values: Mapping[str, Any] | None = None
    ) -> ProgramResult:
        """Run a program, as in `Session.run`."""
        import pydantic_monty as monty

        printed = Printed(self._sandbox.output)
        if self._lost:
            return ProgramResult("", None, self._lost, True)
        feed = partial(self._session.feed_start, code, inputs=dict(values or {}), print_callback=printed.add)
        try:
            value = plain(await self._drive(feed, call, functions), self._sandbox.size)
            return ProgramResult(printed.text(), value)
        except _LimitReached as reached:
            error = str(reached)
        except ProgramError as refused:
            return ProgramResult(printed.text(), None, f"{refused.kind}: {refused.text}")
        except (monty.MontyRuntimeError, monty.MontySyntaxError) as raised:
            error = raised.display()
            within = isinstance(raised.exception(), TimeoutError) and self._left > _GRACE  # it came from a call
            if within or not isinstance(raised.exception(), (TimeoutError, MemoryError)):
                return ProgramResult(printed.text(), None, error[-self._sandbox.output :])
        except monty.MontyCrashedError as crashed:
            error = (
                f"TimeoutError: {self._too_long()}" if crashed.timed_out else "MemoryError: the interpreter has ended"
            )
        except BaseException:
            self._lost = "the session has ended"
            raise
        self._lost = error[-self._sandbox.output :]  # the interpreter vouches for nothing after a limit
        return ProgramResult(printed.text(), None, self._lost, True)

    async def _drive(self, feed: "_Turn", call: HostCall, functions: Collection[str]) -> Any:
        """Answer what a program asks for, until it ends; return its value."""
        import pydantic_monty as monty

        turn: _Turn = feed
        asked = 0
        self._left = self._sandbox.seconds + _GRACE
        while True:
            began = monotonic()
            try:
                async with asyncio.timeout(
                    self._left
                ):  # the limits of the interpreter do not count all that it waits for
                    snapshot = await turn()
            except TimeoutError:
                raise _LimitReached(self._too_long()) from None
            finally:
                self._left -= monotonic() - began
            if isinstance(snapshot, monty.MontyComplete):
                return snapshot.output
            asked += 1
            if asked > self._sandbox.calls:
                raise _LimitReached(f"RuntimeError: the program made more than {self._sandbox.calls} calls")
            if isinstance(snapshot, monty.AsyncNameLookupSnapshot):
                name = snapshot.variable_name
                turn = partial(snapshot.resume, value=_named(name)) if name in functions else partial(snapshot.resume)
            elif isinstance(snapshot, monty.AsyncFunctionSnapshot):
                turn = await self._answer(snapshot, call, functions)
            else:
                raise _LimitReached("RuntimeError: the program waits for what nobody does")

    async def _answer(self, snapshot: "AsyncFunctionSnapshot", call: HostCall, functions: Collection[str]) -> "_Turn":
        name = snapshot.function_name
        if snapshot.is_os_function:
            return partial(snapshot.resume_not_handled)
        if name not in functions or snapshot.object_id is not None:
            return partial(snapshot.resume, {"exc_type": "NameError", "message": f"name {name!r:.100} is not defined"})
        try:
            args = plain(snapshot.args, self._sandbox.size)
            kwargs = plain(snapshot.kwargs, self._sandbox.size)
            return partial(snapshot.resume, {"return_value": await call(name, tuple(args), kwargs)})
        except ProgramError as error:
            return partial(snapshot.resume, {"exc_type": error.kind, "message": error.text})

    def _too_long(self) -> str:
        return f"TimeoutError: the program ran for more than {self._sandbox.seconds:g} s"


def _named(name: str) -> Callable[[], None]:
    """Return what the interpreter takes for a function of the host, which it asks for by this name."""

    def function() -> None: ...

    function.__name__ = function.__qualname__ = name
    return function


class _LimitReached(Exception):
    """A limit that is counted here ended the program."""
