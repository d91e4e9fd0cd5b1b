"""Files of agents stay below their root, whatever paths and links there are, and also while these change."""

import os
import random
import threading
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

import pytest

from tests.samples import amount
from ziggurat import ConfigurationError, ToolError
from ziggurat.sandbox.files import MAX_FILE, MAX_PATH, FolderFiles, checked_text, clean_path

SECRET = "the secret of the host"

OUT = [
    *(
        "..",
        "../secret",
        "a/../../secret",
        "a/..",
        "./..",
        "a/./../b",
        "..//secret",
        "/..",
        "/../secret",
        "//../secret",
    ),
    *("a\\..\\..\\secret", "..\\secret", "C:\\secret", "\\\\host\\share", "a\\b"),
    *("a\0b", "\0", "a\nb", "a\rb", "a\tb", "\x1b[2J", "\x7f", "a\x85b"),
    *("a\u202eb", "a\u200bb", "a\u2066b", "\ufeffa", "a\u200f", "\ud800", "a/\udfff/b"),
    *("x" * 256, "ä" * 128, "a/" + "x" * 256, "x" * (MAX_PATH + 1), "a/" * MAX_PATH),
]
"""Paths that are refused before anything is opened."""


@pytest.mark.parametrize("path", OUT, ids=ascii)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(ToolError):
        clean_path(path)


def test_a_clean_path_is_its_own_clean_path_and_stays_below_the_root() -> None:
    chance = random.Random(5)
    parts = [
        "a",
        "b.c",
        ".",
        "..",
        "",
        "/",
        "//",
        "~",
        "ä",
        "…",
        "-",
        "*",
        " ",
        "a b",
        "%2e%2e",
        "..a",
        "a..",
        "...",
        "$HOME",
    ]
    for _ in range(amount(3_000, 100_000)):
        path = "/".join(chance.choice(parts) for _ in range(chance.randrange(6)))
        try:
            clean = clean_path(path)
        except ToolError:
            continue
        assert clean == clean_path(clean)
        assert os.path.normpath(f"/root/{clean}").startswith("/root")
        assert ".." not in clean.split("/")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with links of all kinds to a secret beside it."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(SECRET)
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "link").symlink_to("../secret")
    (root / "absolute").symlink_to(tmp_path / "secret")
    (root / "up").symlink_to("..")
    (root / "to_folder").symlink_to(tmp_path / "outside")
    (root / "inside").symlink_to("a.txt")
    (root / "chain").symlink_to("link")
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("../new")
    (root / "folder" / "deep").symlink_to("../../outside")
    (root / "proc").symlink_to("/proc/self/root")
    os.link(tmp_path / "secret", root / "hard")
    os.mkfifo(root / "pipe")
    return root


LINKS = [
    *("link", "absolute", "up", "up/secret", "up/outside/secret", "to_folder", "to_folder/secret", "to_folder/new"),
    *("chain", "loop", "loop/a", "dangling", "folder/deep/secret", "folder/deep/new", "proc", "proc/etc/passwd"),
    *("hard", "pipe", "folder", "inside"),
]


@pytest.mark.parametrize("path", LINKS)
def test_links_pipes_and_folders_are_neither_read_nor_replaced(root: Path, path: str) -> None:
    files = FolderFiles(root)
    folders = (root, root / "folder")  # whose own times a file that is written and removed changes

    def times() -> dict[Path, int]:
        return {each: each.lstat().st_mtime_ns for each in root.parent.rglob("*") if each not in folders}

    before = times()
    try:
        text = files.read(path)
    except ToolError:
        text = None
    assert text is None
    with pytest.raises(ToolError):
        files.write(path, "written")
    assert (root.parent / "secret").read_text() == (root.parent / "outside" / "secret").read_text() == SECRET
    assert times() == before
    assert files.paths() == ["a.txt", "hard"]


def test_files_are_written_whole_with_their_folders_and_modes(root: Path) -> None:
    files = FolderFiles(root)
    files.write("new/deep/b.txt", "b\n")
    assert files.read("new/deep/b.txt") == "b\n"
    (root / "run.sh").write_text("1")
    (root / "run.sh").chmod(0o755)
    files.write("run.sh", "2")
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o755
    assert files.read("missing") is files.read("a.txt/b") is files.read("missing/b") is None
    assert not list(root.rglob("*.tmp"))


def test_sizes_and_kinds_of_files_are_bounded(root: Path) -> None:
    files = FolderFiles(root)
    with open(root / "large", "wb") as large:
        large.truncate(2**40)  # a hole, which costs nothing
    (root / "binary").write_bytes(b"\xff\xfe\0")
    for path in ("large", "binary"):
        with pytest.raises(ToolError):
            files.read(path)
    for text in ("x" * (MAX_FILE + 1), "ä" * (MAX_FILE // 2 + 1), "\ud800"):
        with pytest.raises(ToolError):
            checked_text(text)
    with pytest.raises(ConfigurationError):
        FolderFiles(root / "missing")


def test_no_race_leads_out_of_the_root(root: Path) -> None:
    """Another program puts a link to the outside in the place of a folder again and again."""
    files, over, place = FolderFiles(root), threading.Event(), root / "place"

    def swap() -> None:
        while not over.is_set():
            with suppress(OSError):
                place.symlink_to(root.parent / "outside")
            with suppress(OSError):
                place.unlink()
                place.mkdir()
            rmtree(place, ignore_errors=True)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        read = set()
        for _ in range(amount(500, 20_000)):
            try:
                read.add(files.read("place/secret"))
                files.write("place/secret", "harmless")
            except ToolError:
                continue
    finally:
        over.set()
        thread.join()
    assert read <= {"harmless", None}
    assert (root.parent / "outside" / "secret").read_text() == SECRET
    assert sorted(each.name for each in (root.parent / "outside").iterdir()) == ["secret"]
