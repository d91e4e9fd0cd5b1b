"""Level 2: CPython in a process without files, network and other processes, confined by `sandlock` or `bwrap`."""

import asyncio
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import cache
from time import monotonic
from typing import Any

import msgspec

from ziggurat.sandbox.errors import ProgramError
from ziggurat.sandbox.printed import Printed
from ziggurat.sandbox.sandbox import HostCall, ProgramResult, Sandbox
from ziggurat.sandbox.values import plain

_CHILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child.py")
"""The program of the process. It is not imported here: it is for Linux, and changes what it imports."""

_START = 10.0
"""Seconds in which the process must have started."""

# Landlock guards what files contain, not what else belongs to them, and nothing of processes but signals.
_DENIED = [
    "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "utimensat", "setxattr", "lsetxattr", "fsetxattr",
    "removexattr", "lremovexattr", "fremovexattr", "setpriority", "ioprio_set", "prlimit64", "setrlimit",
    "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr", "clock_settime", "clock_adjtime",
    "settimeofday", "adjtimex", "chroot", "memfd_create", "mlock", "mlock2", "mlockall", "pidfd_open",
    "inotify_init1", "fanotify_init", "sync", "flock", "syslog", "acct", "swapon", "swapoff", "reboot", "quotactl",
]  # fmt: skip
_DENIED_ON_X86 = ["chmod", "chown", "lchown", "utime", "utimes", "futimesat", "inotify_init"]

_PYTHON = 128 * 2**20
"""Bytes of address space that Python itself takes, which the limit on variables does not mean."""

_FRAMES = 10_000
"""How many messages of a program are read, besides its calls."""


@cache
def missing() -> str | None:
    """Return why this level is not available, or None if it is."""
    if sys.platform != "linux":
        return "it needs Linux"
    reasons = {"sandlock": sandlock_missing(), "bwrap": _without_bwrap()}
    return None if None in reasons.values() else "; ".join(f"{name}: {why}" for name, why in reasons.items())


@cache
def sandlock_missing() -> str | None:
    """Return why `sandlock` is not available, or None if it is."""
    try:
        import sandlock
    except (ImportError, OSError):
        return "it is not installed: pip install 'ziggurat[sandbox]'"
    found, needed = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
    if found < needed:
        return f"the kernel has Landlock {found}, and {needed} is needed"
    try:
        probe = _policy(_PYTHON).run([*_command()[:-1], "-c", "import os; os.chmod(os.devnull, 0o666)"], timeout=_START)
    except (RuntimeError, ValueError, OSError, sandlock.SandlockError) as error:
        return f"it does not work here: {error}"
    return None if probe.exit_code == 1 else f"it does not work here: its probe ended with {probe.exit_code}"


def denied_calls() -> list[str]:
    """Return the system calls that no confined process needs, and that Landlock does not guard."""
    return _DENIED + (_DENIED_ON_X86 if platform.machine() == "x86_64" else [])


def _policy(memory: int) -> Any:
    """Return what `sandlock` allows a process."""
    import sandlock

    return sandlock.Sandbox(
        fs_readable=[*python_paths(), "/dev/null", "/dev/urandom"],
        fs_writable=["/dev/null"],
        extra_deny_syscalls=denied_calls(),
        max_processes=1,
        max_memory=memory,
        clean_env=True,
        env={"PYTHONHASHSEED": "0"},
        cwd="/",
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


def python_paths() -> list[str]:
    """Return the paths that Python itself is read from."""
    paths = [
        sys.prefix,
        sys.base_prefix,
        "/usr/lib",
        "/usr/lib64",
        "/lib",
        "/lib64",
        "/etc/ld.so.cache",
        _CHILD,
    ]
    return [path for path in dict.fromkeys(paths) if os.path.exists(path)]


def _bwrap() -> list[str]:
    bound = [part for path in [*python_paths(), "/usr/bin"] for part in ("--ro-bind", path, path)]
    return [
        str(shutil.which("bwrap")), "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent",
        "--new-session", "--clearenv", "--setenv", "PYTHONHASHSEED", "0", "--cap-drop", "ALL", *bound,
        "--dev", "/dev", "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/",
    ]  # fmt: skip


def _command() -> list[str]:
    return [sys.executable, "-I", "-B", _CHILD]


class _Process:
    """The process of a session: its pipes, and how it ends."""

    def __init__(self, process: Any, reader: asyncio.StreamReader, pipes: Sequence[asyncio.BaseTransport]) -> None:
        self._process = process
        self._pipes = pipes
        self._ended = False
        self.reader = reader

    def write(self, data: bytes) -> None:
        """Send to it."""
        writer = self._pipes[0]
        assert isinstance(writer, asyncio.WriteTransport)
        writer.write(data)

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


async def _started(sandbox: Sandbox) -> _Process:
    limit = sandbox.size + 2**16
    if sandlock_missing() is not None:
        process = await asyncio.create_subprocess_exec(
            *_bwrap(), *_command(), stdin=-1, stdout=-1, stderr=-3, limit=limit
        )
        assert process.stdout is not None
        assert process.stdin is not None
        return _Process(process, process.stdout, [process.stdin.transport])
    import sandlock

    policy = _policy(sandbox.memory + _PYTHON)
    mode = sandlock.StdioMode
    confined = await asyncio.to_thread(policy.popen, _command(), mode.PIPED, mode.PIPED, mode.NULL)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=limit)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), confined.stdout)
    writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, confined.stdin)
    return _Process(confined, reader, [writing, reading])


@asynccontextmanager
async def open_session(sandbox: Sandbox, now: datetime, seed: int) -> AsyncGenerator["ConfinedSession", None]:
    """Start a process with a session, and end it with the block."""
    process = await _started(sandbox)
    try:
        session = ConfinedSession(sandbox, process)
        await session.begin(now, seed)
        yield session
    finally:
        await process.end()


class ConfinedSession:
    """A session of a process, whose messages are read as those of a stranger."""

    def __init__(self, sandbox: Sandbox, process: _Process) -> None:
        self._sandbox = sandbox
        self._process = process
        self._lost = ""

    async def begin(self, now: datetime, seed: int) -> None:
        """Send what holds for all programs."""
        box, confined = self._sandbox, sandlock_missing() is None
        limits = {"memory": box.memory + _PYTHON, "recursion": box.recursion, "output": box.output}
        self._send({**limits, "confined": confined, "now": now.timestamp(), "seed": seed})
        try:
            async with asyncio.timeout(_START):
                await self._read()
        except (TimeoutError, _LimitReached) as error:
            raise OSError("the process of the sandbox did not start") from error

    async def run(
        self, code: str, call: HostCall, functions: Collection[str] = (), values: Mapping[str, Any] | None = None
    ) -> ProgramResult:
        """Run a program, as in `Session.run`."""
        printed = Printed(self._sandbox.output)
        if self._lost:
            return ProgramResult("", None, self._lost, True)
        self._send({"code": code, "functions": list(functions), "values": dict(values or {})})
        try:
            done = await self._drive(printed, call, functions)
            error = str(done.get("error", ""))[-self._sandbox.output :]
            return ProgramResult(printed.text(), plain(done.get("value"), self._sandbox.size), error)
        except ProgramError as refused:
            return ProgramResult(printed.text(), None, f"{refused.kind}: {refused.text}")
        except _LimitReached as reached:
            self._lost = str(reached)
            await self._process.end()
            return ProgramResult(printed.text(), None, self._lost, True)
        except BaseException:
            self._lost = "the session has ended"
            await self._process.end()
            raise

    async def _drive(self, printed: Printed, call: HostCall, functions: Collection[str]) -> dict[str, Any]:
        """Answer what a program asks for, until it ends."""
        left, calls, frames = self._sandbox.seconds, 0, 0
        while True:
            began = monotonic()
            try:
                async with asyncio.timeout(left):
                    message = await self._read()
            except TimeoutError:
                seconds = self._sandbox.seconds
                raise _LimitReached(f"TimeoutError: the program ran for more than {seconds:g} s") from None
            left -= monotonic() - began
            if "done" in message:
                return message
            frames += 1
            calls += "call" in message
            if calls > self._sandbox.calls or frames - calls > _FRAMES:
                raise _LimitReached(f"RuntimeError: the program made more than {self._sandbox.calls} calls")
            if "call" in message:
                self._send(await self._answer(message, call, functions))
            else:
                printed.add("stdout", str(message.get("printed", "")))

    async def _answer(self, message: dict[str, Any], call: HostCall, functions: Collection[str]) -> dict[str, Any]:
        name, args, kwargs = message["call"], message.get("args"), message.get("kwargs")
        known = isinstance(name, str) and name in functions
        if not known or not isinstance(args, list) or not isinstance(kwargs, dict):
            return {"error": "NameError", "text": f"name {name!r:.100} is not defined"}
        try:
            args, kwargs = plain(args, self._sandbox.size), plain(kwargs, self._sandbox.size)
            return {"value": await call(name, tuple(args), kwargs)}
        except ProgramError as error:
            return {"error": error.kind, "text": error.text}

    def _send(self, message: dict[str, Any]) -> None:
        self._process.write(msgspec.json.encode(message) + b"\n")

    async def _read(self) -> dict[str, Any]:
        try:
            line = await self._process.reader.readuntil()
            message = msgspec.json.decode(line)
        except asyncio.LimitOverrunError:
            raise _LimitReached("MemoryError: a value that leaves the program is too large") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise _LimitReached("MemoryError: the process of the program has ended") from None
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            raise _LimitReached("RuntimeError: the program has written what is no message") from None
        return message if isinstance(message, dict) else {}


class _LimitReached(Exception):
    """A limit ended the program, and its process."""
