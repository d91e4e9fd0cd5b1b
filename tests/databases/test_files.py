"""Tests of opening a store's files: their modes under any umask, and what is no regular file."""

import os
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ziggurat import Agent
from ziggurat.core.event import warn_once
from ziggurat.databases.companion import LockFile
from ziggurat.databases.files import (
    Disk,
    create_private,
    make_private_folder,
    open_private,
    read_private,
    refuse_irregular,
)
from ziggurat.databases.owner import new_owner
from ziggurat.errors import StoreError
from ziggurat.stores import connect
from ziggurat.testing import ScriptedModel

UMASKS = (0, 0o022, 0o077, 0o177, 0o277, 0o777)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set the umask of this process for a while."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.symlink(path.parent, f"{folder}/s")  # the path of a socket must be short
        server.bind(f"{folder}/s/{path.name}")


IRREGULAR: dict[str, Callable[[Path], object]] = {
    "a folder": os.mkdir,
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a symbolic link": lambda path: path.symlink_to("elsewhere"),
}
OPENS: dict[str, Callable[[Path], object]] = {
    "read": read_private,
    "append": lambda path: Disk().open(path),
    "lock": lambda path: LockFile(path, new_owner()),
}


@pytest.mark.parametrize("mask", UMASKS)
def test_files_and_folders_are_private_whatever_the_umask(tmp_path: Path, mask: int) -> None:
    with umask(mask):
        create_private(tmp_path / "database")
        os.close(open_private(tmp_path / "file", os.O_WRONLY | os.O_CREAT))
        Disk().make_folders(tmp_path / "folder" / "inner")
    assert _mode(tmp_path / "database") == _mode(tmp_path / "file") == 0o600
    assert _mode(tmp_path / "folder") == _mode(tmp_path / "folder" / "inner") == 0o700


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_what_exists_keeps_its_mode_and_content(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    path.chmod(mode)
    create_private(path)
    os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
    assert _mode(path) == mode
    assert read_private(path) == b"content"
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path)


@pytest.mark.parametrize("kind", IRREGULAR)
@pytest.mark.parametrize("way", OPENS)
def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path, kind: str, way: str) -> None:
    path, raised = tmp_path / "file", list[BaseException]()
    IRREGULAR[kind](path)

    def opens() -> None:
        try:
            OPENS[way](path)
        except (StoreError, OSError) as error:
            raised.append(error)

    thread = threading.Thread(target=opens, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive(), "it waits for ever"
    (error,) = raised
    assert isinstance(error, StoreError), error
    assert str(error).startswith(f"{path} is not a regular file")


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero", "/dev/full"])
def test_devices_are_refused(device: str) -> None:
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT):
        with pytest.raises(StoreError, match=f"^{device} is not a regular file"):
            open_private(Path(device), flags)
    with pytest.raises(StoreError, match="is not a regular file"):
        refuse_irregular(Path(device))


def test_a_link_to_a_database_is_followed_where_it_is_to_be_created(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "database")
    create_private(tmp_path / "link")
    assert _mode(tmp_path / "database") == 0o600
    refuse_irregular(tmp_path / "link")


@pytest.mark.parametrize("kind", ["sqlite", "file"])
@pytest.mark.parametrize("exists", [True, False])
async def test_a_store_below_a_folder_that_did_not_exist_warns_once(
    kind: str, exists: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    folder = tmp_path if exists else tmp_path / "misspelt" / "data"
    for _ in range(2):
        store = connect(f"{kind}:///{folder}/runs")
        await Agent(ScriptedModel("x"), store=store).run("x")
        await store.close()
    assert [str(folder) in record.message for record in caplog.records] == [True] * (not exists)


def test_a_file_that_comes_and_goes_is_regular(tmp_path: Path) -> None:
    path, over = tmp_path / "k.db-wal", threading.Event()

    def toggle() -> None:
        while not over.is_set():
            path.touch()
            path.unlink()

    other = threading.Thread(target=toggle)
    other.start()
    try:
        for _ in range(5_000):
            refuse_irregular(path)
    finally:
        over.set()
        other.join()
