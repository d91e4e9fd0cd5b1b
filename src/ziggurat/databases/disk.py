"""The file-system operations that stores of files use, in one place that tests can replace."""

__all__ = ["Disk"]

import contextlib
import os
from pathlib import Path


class Disk:
    """The file system; a test puts one in its place that fails, or that remembers what was flushed and what was not.

    Every method may raise OSError.
    """

    def open(self, path: Path, *, fresh: bool) -> int:
        """Open a file to write at its end, made when it is not there; a fresh one is empty. Return its descriptor."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if fresh else os.O_APPEND), 0o600)

    def write(self, at: int, data: bytes | memoryview) -> int:
        """Write as much as goes; return how many bytes that was."""
        return os.write(at, data)

    def truncate(self, at: int, size: int) -> None:
        """Cut a file off."""
        os.ftruncate(at, size)

    def sync(self, at: int) -> None:
        """Return when what was written is durable."""
        os.fsync(at)

    def close(self, at: int) -> None:
        """Close a file."""
        os.close(at)

    def make_folder(self, path: Path) -> None:
        """Make a folder."""
        path.mkdir()

    def make_folders(self, path: Path) -> None:
        """Make a folder with those above it, each durable; harmless when they are there."""
        if path.exists():
            return
        self.make_folders(path.parent)
        with contextlib.suppress(FileExistsError):  # another process makes it now
            self.make_folder(path)
        self.sync_folder(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        """Give a file or folder another name; a file that has it already is replaced."""
        old.replace(new)

    def sync_folder(self, path: Path) -> None:
        """Return when the names in a folder are durable."""
        at = os.open(path, os.O_RDONLY)
        try:
            os.fsync(at)
        finally:
            os.close(at)
