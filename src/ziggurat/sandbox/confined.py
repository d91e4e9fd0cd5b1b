"""Level 2: CPython in a process without files, network and other processes, confined by `sandlock` or `bwrap`."""

import asyncio
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import cache
from typing import Any

import msgspec

from ziggurat.sandbox.sandbox import LimitReached, Printed, ProgramCall, Sandbox

_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child.py")
"""The program of the process. It is not imported here: it is for Linux, and changes what it imports."""

_START = 10.0  # seconds in which the process must have started

# Landlock guards what files contain, not what else belongs to them, and nothing of processes but signals.
_DENIED = [
    "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "utimensat", "setxattr", "lsetxattr", "fsetxattr",
    "removexattr", "lremovexattr", "fremovexattr", "setpriority", "ioprio_set", "prlimit64", "setrlimit",
    "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr", "clock_settime", "clock_adjtime",
    "settimeofday", "adjtimex", "chroot", "memfd_create", "mlock", "mlock2", "mlockall", "pidfd_open",
    "inotify_init1", "fanotify_init", "sync", "flock", "syslog", "acct", "swapon", "swapoff", "reboot", "quotactl",
]  # fmt: skip
_DENIED_ON_X86 = ["chmod", "chown", "lchown", "utime", "utimes", "futimesat", "inotify_init"]

_NO_MESSAGE = "RuntimeError: the program has written what is no message"

_PYTHON = 128 * 2**20  # bytes of address space that Python itself takes, which the limit on variables does not mean


@cache
def missing() -> str | None:
    if sys.platform != "linux":
        return "it needs Linux"
    reasons = {"sandlock": sandlock_missing(), "bwrap": _without_bwrap()}
    return None if None in reasons.values() else "; ".join(f"{name}: {why}" for name, why in reasons.items())


@cache
def sandlock_missing() -> str | None:
    try:
        import sandlock
    except (ImportError, OSError):
        return "it is not installed: pip install 'ziggurat[sandbox]'"
    found, needed = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
    if found < needed:
        return f"the kernel has Landlock {found}, and {needed} is needed"
    try:
        probe = policy(_PYTHON).run([*_command()[:-1], "-c", "import os; os.chmod(os.devnull, 0o666)"], timeout=_START)
    except (RuntimeError, ValueError, OSError, sandlock.SandlockError) as error:
        return f"it does not work here: {error}"
    return None if probe.exit_code == 1 else f"it does not work here: its probe ended with {probe.exit_code}"


def policy(
    memory: int,
    readable: Sequence[str] = ("/dev/null", "/dev/urandom"),
    writable: Sequence[str] = (),
    processes: int = 1,
    **environment: str,
) -> Any:
    """Return what `sandlock` allows a process; it runs in the first folder that it may write to, if any."""
    import sandlock

    return sandlock.Sandbox(
        fs_readable=[*readable, *_python_paths()],
        fs_writable=[*writable, "/dev/null"],
        # system calls that no confined process needs, and that Landlock does not guard
        extra_deny_syscalls=_DENIED + (_DENIED_ON_X86 if platform.machine() == "x86_64" else []),
        max_processes=processes,
        max_memory=memory,
        clean_env=True,
        env=environment or {"PYTHONHASHSEED": "0"},
        cwd=next(iter(writable), "/"),
    )


@cache
def _without_bwrap() -> str | None:
    if shutil.which("bwrap") is None:
        return "it is not on the search path"
    if os.geteuid() == 0:
        return "it cannot limit the processes of root; run as another user"
    command = [*_bwrap(), *_command()]
    probe = subprocess.run(command, input="", capture_output=True, text=True, check=False, timeout=_START)  # noqa: S603
    return None if probe.returncode == 0 else f"it does not work here: {probe.stderr.strip()[:200]}"


def _python_paths() -> list[str]:
    system = ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache"]
    return [path for path in dict.fromkeys((sys.prefix, sys.base_prefix, *system, _CHILD)) if os.path.exists(path)]


def _bwrap() -> list[str]:
    bound = [part for path in [*_python_paths(), "/usr/bin"] for part in ("--ro-bind", path, path)]
    return [
        str(shutil.which("bwrap")), "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent",
        "--new-session", "--clearenv", "--setenv", "PYTHONHASHSEED", "0", "--cap-drop", "ALL", *bound,
        "--dev", "/dev", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/",
    ]  # fmt: skip


def _command() -> list[str]:
    return [sys.executable, "-I", "-B", _CHILD]


class ConfinedProcess:
    """The process of a session, whose messages are read as those of a stranger."""

    grace: float = 0.0

    def __init__(
        self, process: Any, reader: asyncio.StreamReader, writer: asyncio.WriteTransport, *pipes: asyncio.BaseTransport
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._pipes = (writer, *pipes)
        self._ended = False
        self._printed = Printed(0)

    def begin(self, code: str, functions: Collection[str], values: dict[str, Any], printed: Printed) -> None:
        self._printed = printed
        self.send({"code": code, "functions": list(functions), "values": values})

    def answer(self, value: Any) -> None:
        self.send({"value": value})

    def fail(self, kind: str, text: str) -> None:
        self.send({"error": kind, "text": text})

    async def turn(self, _until: float) -> ProgramCall | tuple[Any, str]:
        while not (message := await self.read()).keys() & {"done", "call"}:
            self._printed.add("stdout", str(message.get("printed", "")))
        if "done" in message:
            return message.get("value"), str(message.get("error", ""))
        name, args, kwargs = message["call"], message.get("args"), message.get("kwargs")
        if not (isinstance(name, str) and isinstance(args, list) and isinstance(kwargs, dict)):
            raise LimitReached(_NO_MESSAGE)
        return ProgramCall(name, args, kwargs)

    def send(self, message: dict[str, Any]) -> None:
        self._writer.write(msgspec.json.encode(message) + b"\n")

    async def read(self) -> dict[str, Any]:
        try:
            message = msgspec.json.decode(await self._reader.readuntil())
        except asyncio.LimitOverrunError:
            raise LimitReached("MemoryError: a value that leaves the program is too large") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise LimitReached("MemoryError: the process of the program has ended") from None
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            raise LimitReached(_NO_MESSAGE) from None
        return message if isinstance(message, dict) else {}

    async def end(self) -> None:
        """Kill it, and all that it has started."""
        if self._ended:
            return
        self._ended = True
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGKILL)  # that of the library is for its group, which it may have left
        for pipe in self._pipes:
            pipe.close()
        wait = self._process.wait
        await (wait() if asyncio.iscoroutinefunction(wait) else asyncio.to_thread(wait))


async def _process(sandbox: Sandbox) -> ConfinedProcess:
    limit = sandbox.size + 2**16
    if sandlock_missing() is not None:
        process = await asyncio.create_subprocess_exec(
            *_bwrap(), *_command(), stdin=-1, stdout=-1, stderr=-3, limit=limit
        )
        assert process.stdout is not None
        assert process.stdin is not None
        return ConfinedProcess(process, process.stdout, process.stdin.transport)
    import sandlock

    confine, mode = policy(sandbox.memory + _PYTHON), sandlock.StdioMode
    confined = await asyncio.to_thread(confine.popen, _command(), mode.PIPED, mode.PIPED, mode.NULL)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), confined.stdout)
    writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, confined.stdin)
    return ConfinedProcess(confined, reader, writing, reading)


@asynccontextmanager
async def started(sandbox: Sandbox, now: datetime, seed: int) -> AsyncGenerator[ConfinedProcess, None]:
    process = await _process(sandbox)
    try:
        limits = {"memory": sandbox.memory + _PYTHON, "recursion": sandbox.recursion, "output": sandbox.output}
        confined = sandlock_missing() is None
        process.send({**limits, "confined": confined, "now": now.timestamp(), "seed": seed})
        try:
            async with asyncio.timeout(_START):
                await process.read()
        except (TimeoutError, LimitReached) as error:
            raise OSError("the process of the sandbox did not start") from error
        yield process
    finally:
        await process.end()
