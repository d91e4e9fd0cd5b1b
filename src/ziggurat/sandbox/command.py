"""Commands of a shell in a folder: they see that folder and the programs of the system, and nothing else."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import CheckedStruct, PositiveInt, Seconds
from ziggurat.sandbox.confined import policy, sandlock_missing

_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives", "/dev/null", "/dev/urandom")

_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1"}

_FLOODED = "it printed too much"


class CommandResult(Struct, frozen=True):
    """What a command has done.

    Attributes:
        output: What it has printed, errors too, up to the limit.
        code: Its exit code; None if a limit ended it.
        error: The limit that ended it; empty if none did.
    """

    output: str
    code: int | None
    error: str = ""


class Shell(CheckedStruct, frozen=True):
    """Runs commands in a folder, by `sandlock`: without a network, without other files that can be written.

    ::

        workspace = Workspace("project/", shell=Shell(seconds=120))

    Commands read and write the files of the folder, and read the programs of the system and of this Python. They get no
    environment of the host, cannot change modes or owners of files, and end with their limit, whatever they started.

    Attributes:
        seconds: How long a command may run.
        memory: Bytes that its processes may take.
        output: Characters of its output that are kept.
        processes: How many processes it may have at the same time.
        file_size: Bytes that a file may have which it writes.

    Raises:
        ConfigurationError: `sandlock` is not available here; the message says why. Nothing takes its place.
    """

    seconds: Seconds = 60.0
    memory: PositiveInt = 2**30
    output: PositiveInt = 20_000
    processes: PositiveInt = 64
    file_size: PositiveInt = 2**28

    def __post_init__(self) -> None:
        super().__post_init__()
        why = sandlock_missing()
        if why is not None:
            raise ConfigurationError(f"commands cannot be confined: sandlock: {why}")

    async def run(self, command: str, folder: Path) -> CommandResult:
        """Run a command in a folder, and end all that it has started with it."""
        started = await asyncio.to_thread(self._start, command, folder)
        printed = bytearray()
        ending = asyncio.ensure_future(asyncio.to_thread(started.wait))
        reading = asyncio.ensure_future(asyncio.to_thread(self._read, started, printed))
        try:
            async with asyncio.timeout(self.seconds):
                await asyncio.wait([ending, reading], return_when=asyncio.FIRST_COMPLETED)
                flooded = reading.done() and len(printed) > 4 * self.output
                if not flooded:
                    await asyncio.shield(ending)
        except TimeoutError:
            return CommandResult(self._text(printed), None, f"it took over {self.seconds:g} s")
        finally:
            await asyncio.to_thread(started.kill)  # also what the command has left behind
            await reading
            result = await ending
            started.stdout.close()
        return CommandResult(self._text(printed), None if flooded else result.exit_code, _FLOODED if flooded else "")

    def _text(self, printed: bytearray) -> str:
        return printed.decode(errors="replace")[: self.output]

    def _start(self, command: str, folder: Path) -> Any:
        """Start a shell that waits until its limit on files is set, which nothing within can raise."""
        import resource

        import sandlock

        seen = [path for path in _SYSTEM if Path(path).exists()]
        confine = policy(self.memory, seen, [str(folder)], self.processes, **_ENVIRONMENT, HOME=str(folder))
        mode = sandlock.StdioMode
        waiting = ["/bin/sh", "-c", f"read -r _ || exit; exec < /dev/null 2>&1; {command}"]
        started = confine.popen(waiting, mode.PIPED, mode.PIPED, mode.NULL)
        resource.prlimit(started.pid, resource.RLIMIT_FSIZE, (self.file_size, self.file_size))
        started.stdin.write(b"\n")
        started.stdin.close()
        return started

    def _read(self, started: Any, printed: bytearray) -> None:
        """Read until the command has ended, or has printed more than anybody will see."""
        while len(printed) <= 4 * self.output and (data := started.stdout.read(65_536)):
            printed += data
