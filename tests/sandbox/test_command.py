"""Commands see their folder and the programs of the system, change nothing else, and end with their limits."""

import asyncio
import os
from pathlib import Path
from select import select
from time import monotonic

import pytest

from ziggurat import Agent, ConfigurationError
from ziggurat.code import Workspace
from ziggurat.messages import tool_call
from ziggurat.sandbox import Shell
from ziggurat.sandbox.confined import sandlock_missing
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.skipif(sandlock_missing() is not None, reason=f"sandlock: {sandlock_missing()}")

ESCAPES = [
    *(
        "cat /etc/passwd",
        "cat ../secret",
        "ls ..",
        "ls /proc/1/root",
        "cat link",
        "head -c 9 /dev/sda",
        "cat /proc/1/environ",
    ),
    *("echo x > ../secret", "echo x > link", "rm ../secret", "mv ../secret .", "ln ../secret hard", "touch ../new"),
    *("chmod 777 ../secret", "chown 1 ../secret", "touch -d 2000-01-01 ../secret", "kill -9 1", "kill -9 $HOST"),
    *("unshare -r id", "chroot . /bin/sh", "mount -t tmpfs x .", "mknod d b 8 0 && head -c 9 d", "nsenter -t 1 -a id"),
    "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", PORT), 1)'",
    "python3 -c 'import socket; socket.create_connection((\"169.254.169.254\", 80), 1)'",
    "python3 -c 'import os; os.kill(HOST, 9)'",
    "python3 -c 'import ctypes, os; raise SystemExit(ctypes.CDLL(None).ptrace(16, HOST, 0, 0) != 0)'",
]
BOMBS = [
    *("sleep 100", "yes", "while :; do :; done", "(sleep 100 &); (setsid sleep 100 &)", "cat /dev/urandom"),
    *("python3 -c 'x = bytearray(2**33)'", ":(){ :|:& };:", "trap '' TERM INT HUP; sleep 100", "nohup sleep 100 &"),
    "python3 -c 'import os\nwhile True: os.fork()'",
    *(
        "yes > big",
        "ulimit -f unlimited; yes >> big",
        "(yes > one &); (yes > two &); sleep 100",
        "truncate -s 9G sparse",
    ),
    "python3 -c 'import ctypes; ctypes.CDLL(None).syscall(160, 1, (ctypes.c_long * 2)(-1, -1))'; yes > raised",
    "python3 -c 'import os; os.posix_fallocate(os.open(\"held\", os.O_RDWR | os.O_CREAT), 0, 2**33)'",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("the secret of the host")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    return folder


def state(folder: Path) -> list[tuple[str, int, int, int]]:
    """Return what a command could have changed beside its folder."""
    stats = [(each.name, each.lstat()) for each in sorted(folder.parent.iterdir()) if each != folder]
    return [(name, found.st_mode, found.st_mtime_ns, found.st_uid) for name, found in stats]


async def test_nothing_leads_out_of_the_folder(folder: Path) -> None:
    before = state(folder)
    heard = asyncio.Event()
    server = await asyncio.start_server(lambda reader, writer: heard.set(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        for command in ESCAPES:
            own = command.replace("PORT", str(port)).replace("$HOST", "HOST").replace("HOST", str(os.getpid()))
            done = await Shell(seconds=20).run(own, folder)
            assert done.code != 0, command
            assert "secret of" not in done.output, command
            assert state(folder) == before, command
    assert not heard.is_set()


def running(folder: Path) -> list[str]:
    """Return the processes that have the folder as their own; one that was killed has two seconds to be gone."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder:
                ends = os.pidfd_open(int(process.name))
                if not select([ends], [], [], 2)[0]:
                    found.append(process.name)
                os.close(ends)
        except OSError:
            continue
    return found


async def test_commands_end_with_their_limits_and_all_that_they_have_started(folder: Path) -> None:
    shell = Shell(seconds=1, memory=256 * 2**20, output=1_000, processes=16, file_size=2**20)
    for command in BOMBS:
        began = monotonic()
        done = await shell.run(command, folder)
        assert monotonic() - began < 4, command
        assert len(done.output) <= 1_000
        assert not running(folder), command
        assert all(each.lstat().st_size <= 2**20 for each in folder.iterdir()), command


async def test_a_command_that_is_cancelled_leaves_nothing(folder: Path) -> None:
    os.mkfifo(folder / "begun")
    task = asyncio.ensure_future(Shell().run("(setsid sleep 100 &); echo > begun; sleep 100", folder))
    await asyncio.to_thread((folder / "begun").read_text)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not running(folder)


async def test_an_agent_runs_commands_beside_its_files(folder: Path) -> None:
    model = ScriptedModel(
        tool_call("write_file", path="a.py", text="print(6 * 7)"),
        tool_call("execute", command="python3 a.py; env | grep -c KEY"),
        tool_call("execute", command="cat a.py > b.py"),
        tool_call("read_file", path="b.py"),
        "done",
    )
    os.environ["SOME_KEY"] = "secret"
    try:
        run = await Agent(model, tools=[*Workspace(folder, shell=Shell()).tools]).run("go")
    finally:
        del os.environ["SOME_KEY"]
    assert run.observations[1:] == ("42\n0\n[exit code 1]", "It printed nothing.", "print(6 * 7)")


def test_a_shell_needs_a_folder_in_which_it_may_write(folder: Path) -> None:
    with pytest.raises(ConfigurationError):
        Workspace(shell=Shell())
    with pytest.raises(ConfigurationError):
        Workspace(folder, read_only=True, shell=Shell())
