"""Sandbox: the level at which programs of a model run, and their limits; a session in it keeps its variables."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Literal, Protocol

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import CheckedStruct, PositiveInt, Seconds

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


class Session(Protocol):
    """Runs programs one after another; each finds the variables of those before."""

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
        ...


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

    def open(self, now: datetime, seed: int) -> AbstractAsyncContextManager[Session]:
        """Return a block with a new session.

        Args:
            now: The time that programs read, which stands still.
            seed: That of their random numbers.
        """
        if self.level == "monty":
            from ziggurat.sandbox.monty import open_session

            return open_session(self, now, seed)
        from ziggurat.sandbox.confined import open_session as open_confined

        return open_confined(self, now, seed)
