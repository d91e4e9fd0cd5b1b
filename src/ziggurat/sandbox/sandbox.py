"""Sandbox: the level at which programs of a model run, and their limits; a session in it keeps its variables."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from io import StringIO
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import CheckedStruct, PositiveInt, Seconds

if TYPE_CHECKING:
    from ziggurat.sandbox.confined import ConfinedProcess
    from ziggurat.sandbox.monty import MontyProcess

MAX_DEPTH = 64  # how deep a value from a sandbox may be nested
_MAX_NODES = 100_000  # how many parts it may have; one that occurs several times counts each time
_MAX_BITS = 4_096  # the size of its integers: longer ones are slow to write in decimal

ProgramErrorKind = Literal["PermissionError", "RuntimeError", "TimeoutError", "TypeError", "ValueError"]


class ProgramError(Exception):
    """Raised by a call that a program makes, to be raised in the program, where it can be caught.

    Args:
        kind: The exception that the program gets.
        text: Its text; the program can read all of it.
    """

    def __init__(self, kind: ProgramErrorKind, text: str) -> None:
        super().__init__(text)
        self.kind: ProgramErrorKind = kind
        self.text: str = text


class LimitReached(Exception): ...


HostCall = Callable[[str, tuple[Any, ...], dict[str, Any]], Awaitable[Any]]
"""Makes a call of a program: its name and arguments, of JSON's types; a `ProgramError` is raised in the program."""


class ProgramResult(Struct, frozen=True):
    """What a program has done.

    Attributes:
        output: What it has printed, up to the limit.
        value: The value of its last line if that is an expression, else None.
        error: Why it ended early, with its traceback; empty if it did not.
        lost: Whether a limit ended it, and its session with it.
    """

    output: str
    value: Any = None
    error: str = ""
    lost: bool = False


class ProgramCall(Struct, frozen=True):
    name: str
    args: Any
    kwargs: Any


class Printed:
    """Collects what a program prints up to a limit, and notes that there was more."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept = StringIO()

    def add(self, _stream: str, text: str) -> None:
        self._kept.write(text[: max(0, self._limit - self._size)])
        self._size += len(text)

    def text(self) -> str:
        text, more = self._kept.getvalue().encode(errors="replace").decode(), self._size - self._limit
        return f"{text}\n[cut: {more} more characters]" if more > 0 else text


class Session:
    """Runs programs one after another; each finds the variables of those before. Made by `Sandbox.open`."""

    def __init__(self, sandbox: "Sandbox", process: "MontyProcess | ConfinedProcess") -> None:
        self._sandbox = sandbox
        self._process = process
        self._lost = ""

    async def run(
        self, code: str, call: HostCall, functions: Collection[str] = (), values: Mapping[str, Any] | None = None
    ) -> ProgramResult:
        """Run a program.

        An error of the program is in the result. What `call` raises besides `ProgramError`, such as `Suspend`, never
        comes into the program: it is raised here, and ends the session.

        Args:
            code: The program.
            call: Makes its calls, one at a time.
            functions: The names that it may call.
            values: Variables that it gets.
        """
        if self._lost:
            return ProgramResult("", None, self._lost, True)
        printed, most = Printed(self._sandbox.output), self._sandbox.output
        self._process.begin(code, functions, dict(values or {}), printed)
        try:
            value, error = await self._drive(call, functions)
            return ProgramResult(printed.text(), plain(value, self._sandbox.size), error[-most:])
        except ProgramError as refused:
            return ProgramResult(printed.text(), None, f"{refused.kind}: {refused.text}")
        except LimitReached as reached:  # after it, nothing in the process can be relied on
            self._lost = str(reached)[-most:]
            await self._process.end()
            return ProgramResult(printed.text(), None, self._lost, True)
        except BaseException:
            self._lost = "the session has ended"
            await self._process.end()
            raise

    async def _drive(self, call: HostCall, functions: Collection[str]) -> tuple[Any, str]:
        """Answer what a program asks for, until it ends; return its value, and its error."""
        left, asked = self._sandbox.seconds + self._process.grace, 0
        while True:
            until = monotonic() + left
            try:
                # the limits of an interpreter do not count all that it waits for
                async with asyncio.timeout(left):
                    turn = await self._process.turn(until)
            except TimeoutError:
                seconds = self._sandbox.seconds
                raise LimitReached(f"TimeoutError: the program ran for more than {seconds:g} s") from None
            left = until - monotonic()
            if isinstance(turn, tuple):
                return turn
            asked += 1
            if asked > self._sandbox.calls:
                raise LimitReached(f"RuntimeError: the program made more than {self._sandbox.calls} calls")
            if turn is not None:
                await self._answer(turn, call, functions)

    async def _answer(self, asked: ProgramCall, call: HostCall, functions: Collection[str]) -> None:
        if asked.name not in functions:
            return self._process.fail("NameError", f"name {asked.name!r:.100} is not defined")
        try:
            args, kwargs = plain((asked.args, asked.kwargs), self._sandbox.size)
            self._process.answer(await call(asked.name, tuple(args), kwargs))
        except ProgramError as error:
            self._process.fail(error.kind, error.text)


class Sandbox(CheckedStruct, frozen=True):
    """A place for programs that nobody has read, with the limits of each::

        Sandbox(seconds=5)          # pydantic-monty, an interpreter of a part of Python
        Sandbox(level="python")     # the whole of Python in a process without files and network

    Neither has files, a network, other processes or the environment of the host.

    Attributes:
        level: ``"monty"`` is an interpreter in a process of its own, started in 10 ms. It has most of the language,
            but no classes that inherit, no ``yield`` and few modules. ``"python"`` is CPython as it is installed, in a
            process that the kernel confines, by `sandlock`, or `bwrap` where that is missing; it needs Linux.
        seconds: The time that a program may run, its sleep included; the calls that it makes do not count.
        memory: Bytes that its variables may take.
        output: Characters that it may print; the rest is dropped.
        calls: How many calls it may make.
        recursion: How deep its functions may call each other.
        size: Bytes of a value that leaves it, such as an argument of a call.

    Raises:
        ConfigurationError: the level is not available here; the message says why. Nothing takes its place.
    """

    level: Literal["monty", "python"] = "monty"
    seconds: Seconds = 10.0
    memory: PositiveInt = 64 * 2**20
    output: PositiveInt = 100_000
    calls: PositiveInt = 1_000
    recursion: PositiveInt = 500
    size: PositiveInt = 16_000_000

    def __post_init__(self) -> None:
        super().__post_init__()
        why = self.unavailable(self.level)
        if why is not None:
            raise ConfigurationError(f"the sandbox {self.level!r} is not available: {why}")

    @staticmethod
    def unavailable(level: Literal["monty", "python"]) -> str | None:
        """Return why a level is not available on this machine, or None if it is."""
        if level == "monty":
            from ziggurat.sandbox.monty import missing
        else:
            from ziggurat.sandbox.confined import missing
        return missing()

    @asynccontextmanager
    async def open(self, now: datetime, seed: int) -> AsyncGenerator[Session, None]:
        """Return a block with a new session.

        Args:
            now: The time that programs read, which stands still.
            seed: That of their random numbers.
        """
        if self.level == "monty":
            from ziggurat.sandbox.monty import started
        else:
            from ziggurat.sandbox.confined import started  # type: ignore[assignment]
        async with started(self, now, seed) as process:
            yield Session(self, process)


# -- values ------------------------------------------------------------------------------------------------------------


class _Budget(Struct):
    nodes: int
    bytes: int


def plain(value: object, size: int) -> Any:
    """Return a copy of a value from a sandbox, of JSON's types and at most so many bytes, before it is used."""
    # A list that a program has nested in itself, or that holds another one twice 40 times over, takes no memory before
    # it is copied or written, and all of it afterwards.
    return _copied(value, _Budget(_MAX_NODES, size), 0)


def _copied(value: Any, budget: _Budget, depth: int) -> Any:
    kind = type(value)
    budget.nodes -= 1
    budget.bytes -= 8 + (len(value) if kind is str else 0)
    if depth > MAX_DEPTH:
        raise ProgramError("ValueError", f"a value that leaves the program is nested more than {MAX_DEPTH} levels deep")
    if budget.nodes < 0 or budget.bytes < 0:
        raise ProgramError("ValueError", "a value that leaves the program is too large")
    if value is None or kind is bool or kind is float:
        return value
    if kind is str:
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ProgramError("ValueError", "a text that leaves the program has half of a surrogate pair") from None
        return value
    if kind is int:
        if value.bit_length() > _MAX_BITS:
            raise ProgramError("ValueError", f"an integer that leaves the program has more than {_MAX_BITS} bits")
        return value
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        return [_copied(each, budget, depth + 1) for each in value]
    if kind is dict:
        return {_key(key, budget): _copied(each, budget, depth + 1) for key, each in value.items()}
    raise ProgramError(
        "TypeError",
        f"a value of the type {kind.__name__:.60} cannot leave the program; only text, numbers, lists, dicts and None",
    )


def _key(key: object, budget: _Budget) -> str:
    if not isinstance(key, (str, int, float)):
        raise ProgramError("TypeError", "the keys of a dict that leaves the program must be text or numbers")
    return str(_copied(key, budget, 0))
