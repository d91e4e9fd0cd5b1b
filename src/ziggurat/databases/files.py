"""The files of a store: private to their user, and only regular files, so that no open or read ever waits."""

import contextlib
import errno
import os
import stat
import threading
from pathlib import Path

from ziggurat.core.clock import new_id
from ziggurat.core.errors import StoreError
from ziggurat.core.event import warn_once

_MODE, _FOLDER_MODE = 0o600, 0o700
_PAGE = 4096
_creating = threading.Lock()  # held until a new file is closed again: no other connection here has locked it by then

_NEVER_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)  # a pipe that nobody reads

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_IRREGULAR = (errno.ENXIO, errno.ELOOP, errno.EISDIR, errno.ENODEV)  # of a pipe, a link, a folder, a device


def open_private(path: Path, flags: int) -> int:
    known = flags & ~os.O_CREAT | _NEVER_WAIT | _NO_LINK
    while True:
        try:
            at = os.open(path, known)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
        except OSError as error:
            if error.errno in _IRREGULAR:
                raise _irregular(path) from None
            raise
        else:
            if stat.S_ISREG(os.fstat(at).st_mode):
                return at
            os.close(at)
            raise _irregular(path)
        try:
            return _create(path, known)
        except FileExistsError:  # another process has just created it
            continue


def _create(path: Path, flags: int) -> int:
    at = os.open(path, flags | os.O_CREAT | os.O_EXCL, _MODE)
    if stat.S_IMODE(os.fstat(at).st_mode) != _MODE:  # the umask has taken away what its user needs
        os.chmod(path, _MODE)
    return at


def create_private(path: Path) -> None:
    """Create an empty file of mode 0600 for a database, unless there is one; its companions get this mode, too."""
    real = Path(os.path.realpath(path))
    with _creating, contextlib.suppress(FileExistsError):
        os.close(_create(real, os.O_WRONLY))


def private_opener(path: str, flags: int) -> int:
    """Open a file that a user has named, as the `opener` of ``open()``: a new one gets mode 0600."""
    # It may be a device or a pipe, but a pipe that nobody reads is an error instead of waiting for a reader.
    at = os.open(path, flags | _NEVER_WAIT, _MODE)
    os.set_blocking(at, True)
    return at


def write_private_text(path: Path, text: str) -> None:
    with open(path, "w", encoding="utf-8", opener=private_opener) as file:
        file.write(text)


def read_private(path: Path) -> bytes:
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        return file.read()


def refuse_irregular(path: Path) -> None:
    try:
        mode = path.stat().st_mode  # once: another process may remove the companion of a database at any moment
    except OSError:  # there is none, or the use that follows says why it cannot be read
        return
    if not stat.S_ISREG(mode):
        raise _irregular(path)


def _irregular(path: Path) -> StoreError:
    if path.is_dir():
        return StoreError(f"{path} is not a regular file but a folder; name a file in it, such as {path / 'agents.db'}")
    return StoreError(f"{path} is not a regular file, which this store needs there; remove it, or choose another place")


def make_private_folder(path: Path) -> None:
    os.mkdir(path, _FOLDER_MODE)
    if stat.S_IMODE(os.stat(path).st_mode) & _FOLDER_MODE != _FOLDER_MODE:
        os.chmod(path, _FOLDER_MODE)


def write_problem(folder: Path) -> str:
    """Return why no file can be written in a folder, such as "No space left on device"; empty if one can."""
    # SQLite reports a full disk or quota as a file that it cannot open, or as an I/O error.
    path = folder / f".{new_id()}.new"
    try:
        at = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
        try:
            os.write(at, bytes(_PAGE))
            os.fsync(at)
        finally:
            os.close(at)
            path.unlink()
    except OSError as error:
        return error.strerror or str(error)
    return ""


class Disk:
    """The file system; tests replace it by one that fails, or that tracks what was flushed."""

    def open(self, path: Path) -> int:
        return open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    @staticmethod
    def is_at(at: int, path: Path) -> bool:
        """Return whether an open file or folder is the one at a path, and not one that was removed or replaced."""
        try:
            return os.path.samestat(os.fstat(at), os.stat(path))
        except FileNotFoundError:
            return False

    def write(self, at: int, data: bytes | memoryview) -> int:
        return os.write(at, data)

    def edit(self, path: Path) -> int:
        return open_private(path, os.O_RDWR | os.O_CREAT)

    def overwrite(self, at: int, offset: int, data: bytes) -> None:
        os.pwrite(at, data, offset)

    def truncate(self, at: int, size: int) -> None:
        os.ftruncate(at, size)

    def sync(self, at: int) -> None:
        os.fsync(at)

    def close(self, at: int) -> None:
        os.close(at)

    def make_folder(self, path: Path) -> None:
        make_private_folder(path)

    def make_parents(self, path: Path) -> None:
        """Create the folders above a file or folder; warn once if there were none, as the path may be misspelt."""
        parent = path.absolute().parent
        if not parent.exists():
            warn_once(f"the folder {parent} did not exist, and is created for the store {path.name!r}")
            self.make_folders(parent)

    def make_folders(self, path: Path) -> None:
        if path.exists():
            return
        self.make_folders(path.parent)
        with contextlib.suppress(FileExistsError):  # another process has just created it
            self.make_folder(path)
        self.sync_folder(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def sync_folder(self, path: Path) -> None:
        at = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))  # which fails for a pipe, and does not wait
        try:
            os.fsync(at)
        finally:
            os.close(at)
