"""Files of agents: virtual paths below one root, in a folder of the host or on the record of a run."""

import errno
import os
import stat
import unicodedata
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Lock

from msgspec import Struct

from ziggurat.core.clock import new_id
from ziggurat.core.codec import as_type
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.journal.entries import JournalEntry, Result

MAX_PATH = 1024  # characters of a path; a name in it has at most 255 bytes
MAX_FILE = 10 * 1024 * 1024  # bytes of a file
MAX_FILES = 10_000  # files that are listed, and that a run may have on its record
CHANGE = "workspace_file"  # the name with which a change of a file is recorded


class FileChange(Struct, frozen=True, omit_defaults=True):
    """A file as it was written, in place of how many texts in it."""

    path: str
    text: str
    new: bool = False
    places: int = 0


class Edit(Struct, frozen=True):
    """A change to make: the whole text of a file, or a text in place of an old one in it, or of all of these."""

    path: str
    text: str
    old: str | None = None
    every: bool = False

    def applied(self, was: str | None) -> FileChange:
        if self.old is None:
            return FileChange(self.path, self.text, was is None)
        was = was or ""
        count = was.count(self.old) if self.old else 0
        if count == 0:
            raise ToolError(f"{self.path} does not contain this text; read it again", kind="invalid_arguments")
        if count > 1 and not self.every:
            raise ToolError(f"{self.path} contains this text {count} times; give more of it", kind="invalid_arguments")
        if len(was) + count * (len(self.text) - len(self.old)) > MAX_FILE:  # it is not made, to be measured
            raise ToolError(f"{self.path} would have more than {MAX_FILE} bytes", kind="invalid_arguments")
        return FileChange(self.path, checked_text(was.replace(self.old, self.text)), places=count)


def clean_path(path: str) -> str:
    """Return a virtual path in its one form: relative to the root, with single slashes; empty for the root."""
    if len(path) > MAX_PATH:
        raise ToolError(f"the path has more than {MAX_PATH} characters", kind="invalid_arguments")
    names = [name for name in path.split("/") if name not in ("", ".")]
    for name in names:
        # Control characters, bidirectional marks and surrogates make a path that people read as another one.
        if name == ".." or "\\" in name or any(unicodedata.category(each) in ("Cc", "Cf", "Cs") for each in name):
            raise ToolError(f"the path {path!r:.200} is not allowed: name a file below the root", kind="denied")
        if len(name.encode()) > 255:
            raise ToolError("a name in the path has more than 255 bytes", kind="invalid_arguments")
    return "/".join(names)


def checked_text(text: str) -> str:
    """Return the text of a file if it is not too large, and has no surrogates."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ToolError("the text is not valid Unicode", kind="invalid_arguments") from None
    if size > MAX_FILE:
        raise ToolError(f"the file has {size} bytes; at most {MAX_FILE} are allowed", kind="invalid_arguments")
    return text


# -- in a folder -----------------------------------------------------------------------------------------------------


class FolderFiles:
    """The files of a folder.

    Each name of a path is opened below the one before it, without following links, so that no path leads out of the
    folder, also while somebody moves folders and links about. Only regular files with a single name are read and
    replaced: a hard link may name a file from outside.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder: Path = Path(folder).expanduser().resolve()
        self._lock = Lock()
        if not self.folder.is_dir():
            raise ConfigurationError(f"there is no folder {str(folder)!r} for a workspace")

    def names(self, path: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, without links and hidden folders, and whether each is a folder."""
        found: list[tuple[str, bool]] = []
        with suppress(OSError), self._opened(path) as folder, os.scandir(folder) as entries:
            for entry in islice(entries, MAX_FILES):
                is_folder = entry.is_dir(follow_symlinks=False)
                listed = not entry.name.startswith(".") if is_folder else entry.is_file(follow_symlinks=False)
                with suppress(ToolError):
                    if listed and clean_path(entry.name) == entry.name:
                        found.append((entry.name, is_folder))
        return found

    def paths(self) -> list[str]:
        """Return the paths of all files, sorted; at most `MAX_FILES`, those nearest to the root, as of `names`."""
        found: list[str] = []
        waiting = deque([""])
        for _ in range(MAX_FILES):
            if not waiting or len(found) > MAX_FILES:
                break
            below = waiting.popleft()
            for name, is_folder in self.names(below):
                path = f"{below}/{name}" if below else name
                if len(path) <= MAX_PATH:
                    (waiting if is_folder else found).append(path)
        return sorted(found[:MAX_FILES])

    def read(self, path: str) -> str | None:
        above, _, name = path.rpartition("/")
        try:
            with self._opened(above) as folder:
                file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR):
                return None
            raise _refused(path, error) from None
        try:
            _check_regular(os.fstat(file), path)
            with open(file, "rb", closefd=False) as opened:
                data = opened.read(MAX_FILE + 1)
        finally:
            os.close(file)
        if len(data) > MAX_FILE:
            raise ToolError(f"{path} has more than {MAX_FILE} bytes", kind="invalid_arguments")
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{path} is not a text file", kind="invalid_arguments") from None

    def change(self, edit: Edit) -> FileChange:
        """Make a change; those of several threads are made one after another."""
        with self._lock:
            change = edit.applied(self.read(edit.path))
            self.write(change.path, change.text)
        return change

    def write(self, path: str, text: str) -> None:
        """Create or replace a file, in one step: it has the old text or the new one."""
        above, _, name = path.rpartition("/")
        written = f".{new_id()}.tmp"
        try:
            with self._opened(above, create=True) as folder:
                mode = 0o644
                with suppress(FileNotFoundError):
                    known = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    _check_regular(known, path)
                    mode = stat.S_IMODE(known.st_mode) & 0o777
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                file = os.open(written, flags, mode, dir_fd=folder)
                try:
                    with open(file, "wb") as opened:
                        opened.write(text.encode())
                    os.rename(written, name, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    os.unlink(written, dir_fd=folder)
                    raise
        except OSError as error:
            raise _refused(path, error) from None

    @contextmanager
    def _opened(self, path: str, *, create: bool = False) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        folder = os.open(self.folder, flags)
        try:
            for name in path.split("/") if path else ():
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                below = os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = below
            yield folder
        finally:
            os.close(folder)


def _check_regular(known: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(known.st_mode) or known.st_nlink > 1:
        raise ToolError(f"{path} is not a regular file with a single name", kind="denied")


def _refused(path: str, error: OSError) -> ToolError:
    return ToolError(f"{path} cannot be opened: {error.strerror}", kind="denied")


# -- on record -------------------------------------------------------------------------------------------------------


class RunFiles(dict[str, str]):
    """The files that a run has on its record, by path: those it began with, and each change since."""

    _read = 0

    def take_in(self, entries: Sequence[JournalEntry]) -> "RunFiles":
        for entry in entries[self._read :]:
            if isinstance(entry, Result) and entry.name == CHANGE:
                change = as_type(entry.value, FileChange)
                self[change.path] = change.text
        self._read = len(entries)
        return self
