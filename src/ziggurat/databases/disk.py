"""The file-system operations of file stores, in one place that tests can replace."""

import contextlib
import os
from pathlib import Path

from ziggurat.databases.files import make_private_folder, open_private


class Disk:
    """The file system; tests replace it by one that fails, or that tracks what was flushed."""

    def open(self, path: Path) -> int:
        """Open a file for writing at its end; create it if needed. Return the descriptor."""
        return open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, at: int, data: bytes | memoryview) -> int:
        """Write as many bytes as possible; return how many were written."""
        return os.write(at, data)

    def edit(self, path: Path) -> int:
        """Open a file for reading and for writing anywhere in it; create it if needed. Return the descriptor."""
        return open_private(path, os.O_RDWR | os.O_CREAT)

    def overwrite(self, at: int, offset: int, data: bytes) -> None:
        """Write a few bytes to a place in a file; they are not flushed."""
        os.pwrite(at, data, offset)

    def truncate(self, at: int, size: int) -> None:
        """Truncate a file."""
        os.ftruncate(at, size)

    def sync(self, at: int) -> None:
        """Flush a file; when this returns, its content is durable."""
        os.fsync(at)

    def close(self, at: int) -> None:
        """Close a file."""
        os.close(at)

    def make_folder(self, path: Path) -> None:
        """Create a folder."""
        make_private_folder(path)

    def make_folders(self, path: Path) -> None:
        """Create a folder and its parents, each durable; does nothing if it exists."""
        if path.exists():
            return
        self.make_folders(path.parent)
        with contextlib.suppress(FileExistsError):  # another process has just created it
            self.make_folder(path)
        self.sync_folder(path.parent)

    def rename(self, old: Path, new: Path) -> None:
        """Rename a file or folder; an existing file with the new name is replaced."""
        old.replace(new)

    def sync_folder(self, path: Path) -> None:
        """Flush a folder; when this returns, the names in it are durable."""
        at = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))  # which fails for a pipe, and does not wait
        try:
            os.fsync(at)
        finally:
            os.close(at)
