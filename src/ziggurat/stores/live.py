"""Live messages of runs: to readers in this process, and to other processes that share a disk.

The folder of a database has one for each log to which anybody listens.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from pathlib import Path

from ziggurat.core.clock import SYSTEM_CLOCK, new_id
from ziggurat.core.tasks import ring
from ziggurat.databases.companion import SUPPORTED
from ziggurat.databases.files import Disk, make_private_folder, open_private
from ziggurat.journal.store import Send

if SUPPORTED:
    import fcntl

_POLL = 0.02  # seconds between a reader's looks at the file

_LARGEST = 1 << 20  # bytes of a file, and so of a disk, before the sender begins a new one

_MOST = 4 << 20


class LiveBuffer:
    """A reader's messages, put by any thread; of more than a few megabytes the oldest are dropped."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque()
        self._size = 0
        self._lock = threading.Lock()
        self._waiting: asyncio.Future[None] | None = None

    def put(self, message: bytes) -> None:
        with self._lock:
            self._messages.append(message)
            self._size += len(message)
            while self._size > _MOST:
                self._size -= len(self._messages.popleft())
            waiting, self._waiting = self._waiting, None
        if waiting is not None:
            ring(waiting)

    def take(self) -> list[bytes]:
        with self._lock:
            messages = list(self._messages)
            self._messages.clear()
            self._size = 0
        return messages

    async def wait(self, seconds: float) -> None:
        with self._lock:
            if self._messages:
                return
            waiting = self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.wait([waiting], timeout=seconds)


class LocalLive:
    def __init__(self) -> None:
        self._readers: dict[str, list[LiveBuffer]] = {}

    @asynccontextmanager
    async def listen(self, log: str) -> AsyncIterator[LiveBuffer]:
        reader = LiveBuffer()
        readers = self._readers.setdefault(log, [])
        readers.append(reader)
        try:
            yield reader
        finally:
            readers[:] = [each for each in readers if each is not reader]
            if not readers:
                self._readers.pop(log, None)

    async def watched(self, logs: Sequence[str]) -> list[str]:
        return [log for log in logs if log in self._readers]

    @asynccontextmanager
    async def sending(self, log: str) -> AsyncIterator[Send]:
        async def send(message: bytes) -> None:
            for reader in self._readers.get(log, ()):
                reader.put(message)

        yield send


class LiveFolder:
    """Pass messages through the files of a folder, which has none while nobody listens."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _at(self, log: str) -> Path:
        return self._path / blake2b(log.encode(), digest_size=16).hexdigest()

    @asynccontextmanager
    async def listen(self, log: str) -> AsyncIterator["_FileReader"]:
        reader = _FileReader(self._at(log))
        try:
            yield reader
        finally:
            reader.close()
            self.clean(log)

    async def watched(self, logs: Sequence[str]) -> Collection[str]:
        return [log for log in logs if self.clean(log)] if self._path.exists() else ()

    @asynccontextmanager
    async def sending(self, log: str) -> AsyncIterator[Send]:
        path, at = self._at(log) / "messages", -1

        def begin() -> None:
            nonlocal at
            new = path.with_name(new_id())
            created = open_private(new, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            close()
            at = created
            os.replace(new, path)  # readers of the file before read it to its end

        def close() -> None:
            if at >= 0:
                os.close(at)

        async def send(message: bytes) -> None:
            with suppress(FileNotFoundError):  # nobody listens any more
                if at < 0 or os.fstat(at).st_size > _LARGEST or not Disk.is_at(at, path):
                    begin()
                os.write(at, b"\n" + message + b"\n")

        try:
            yield send
        finally:
            close()

    def clean(self, log: str) -> bool:
        """Remove the folder of a log unless somebody listens; return whether somebody does."""
        folder = self._at(log)
        if not SUPPORTED:
            return False
        try:
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if Disk.is_at(at, folder):
                for left in folder.iterdir():
                    left.unlink(missing_ok=True)
                folder.rmdir()
                with suppress(OSError):  # others are listened to
                    self._path.rmdir()
        except BlockingIOError:
            return True
        finally:
            os.close(at)
        return False


class _FileReader:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "messages"
        self._lock = _joined(folder)
        self._rest = b""
        self._at: int | None = None
        if self._opened():  # what was sent before is for others
            os.lseek(self._at or 0, 0, os.SEEK_END)

    def _opened(self) -> bool:
        with suppress(FileNotFoundError):
            self._at = open_private(self._path, os.O_RDONLY)
        return self._at is not None

    def take(self) -> list[bytes]:
        lines: list[bytes] = []
        size = 0
        while size <= _LARGEST and (self._at is not None or self._opened()):
            assert self._at is not None
            over = not Disk.is_at(self._at, self._path)  # before the read: then nothing more comes after it
            data = os.read(self._at, _LARGEST)
            size += len(data)
            *whole, self._rest = (self._rest + data).split(b"\n")
            lines += [line for line in whole if line]
            if not data:
                if not over:
                    break
                os.close(self._at)
                self._at, self._rest = None, b""
        return lines

    async def wait(self, seconds: float) -> None:
        await SYSTEM_CLOCK.sleep(min(seconds, _POLL))

    def close(self) -> None:
        for at in (self._at, self._lock):
            if at is not None:
                os.close(at)


def _joined(folder: Path) -> int | None:
    """Create a folder if need be, and return a descriptor with a shared lock on it; None where there are no locks."""
    while SUPPORTED:
        for each in (folder.parent, folder):
            with suppress(FileExistsError, FileNotFoundError):  # others create and remove it at the same time
                make_private_folder(each)
        with suppress(FileNotFoundError):
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(at, fcntl.LOCK_SH)
            if Disk.is_at(at, folder):
                return at
            os.close(at)
    return None
