"""Marks in a file, against a dict; and what damage does to them."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.samples import amount
from ziggurat.databases.companion import LockFile, Marks
from ziggurat.databases.files import Disk
from ziggurat.databases.owner import new_owner
from ziggurat.journal import Row
from ziggurat.journal.store import LogMark

SLOT = 64
LOGS = [f"run:{number}" for number in range(40)]
_operation = st.tuples(st.sampled_from(("write", "remove", "reopen")), st.sampled_from(LOGS), st.integers(1, 1 << 40))


def mark(number: int) -> LogMark:
    return LogMark.of(Row(number, f"digest {number}", b""))


@given(st.lists(_operation, max_size=60))
@settings(max_examples=amount(30, 300))
def test_marks_are_a_dict_on_disk(operations: list[tuple[str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        marks, expected = Marks(Path(folder) / "marks"), dict[str, LogMark]()
        for what, log, number in operations:
            if what == "write":
                marks.write(log, mark(number))
                expected[log] = mark(number)
            elif what == "remove":
                marks.remove([log])
                expected.pop(log, None)
            else:
                marks.close()
                marks = Marks(Path(folder) / "marks")
            assert marks.find(log) == expected.get(log)
        assert {log: marks.find(log) for log in LOGS} == {log: expected.get(log) for log in LOGS}
        marks.close()


def test_processes_that_write_at_once_need_no_lock(tmp_path: Path) -> None:
    stores = [Marks(tmp_path / "marks") for _ in range(3)]
    for number in range(1, 6):
        for index in range(300):
            stores[index % 3].write(f"run:{index}", mark(number))
    for each in stores:
        assert all(each.find(f"run:{index}") == mark(5) for index in range(300))
        each.close()


def test_the_file_grows_by_levels_and_no_mark_moves(tmp_path: Path) -> None:
    marks = Marks(tmp_path / "marks")
    names = [f"run:{number}" for number in range(amount(1000, 3000))]
    for number, name in enumerate(names, 1):
        marks.write(name, mark(number))
    for number, name in enumerate(names, 1):
        assert marks.find(name) == mark(number)
    size = marks.path.stat().st_size
    assert size < 8 * SLOT * len(names)
    marks.remove(names)
    assert not any(marks.find(name) for name in names)
    for number, name in enumerate(names, 1):
        marks.write(f"{name}-again", mark(number))
    assert marks.path.stat().st_size <= 2 * size


@given(st.integers(0, SLOT * 8 - 1))
@settings(max_examples=amount(50, 500))
def test_a_damaged_mark_is_no_mark(bit: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        marks = Marks(Path(folder) / "marks")
        marks.write("run:r", mark(7))
        data = bytearray(marks.path.read_bytes())
        at = next(place for place, byte in enumerate(data) if byte) // SLOT * SLOT
        data[at + bit // 8] ^= 1 << bit % 8
        marks.path.write_bytes(data)
        assert marks.find("run:r") is None
        marks.close()


def test_marks_and_the_lock_share_a_file(tmp_path: Path) -> None:
    marks, lock = Marks(tmp_path / "runs.db"), LockFile(tmp_path / "runs.db-ziggurat", new_owner())
    marks.write("run:r", mark(7))
    assert lock.take()
    lock.sign()
    assert marks.find("run:r") == mark(7)
    other = LockFile(marks.path, new_owner())
    marks.clear()
    assert not other.take()
    assert marks.find("run:r") is None
    assert "this process" in str(other.refusal(1.0))
    for each in (marks, lock, other):
        each.close()


def test_a_damaged_mark_is_reported_and_written_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    marks = Marks(tmp_path / "marks")
    marks.write("run:r", mark(7))
    data = bytearray(marks.path.read_bytes())
    data[-SLOT] ^= 1
    marks.path.write_bytes(data)
    assert marks.find("run:r") is None
    assert "is damaged: whether the last entries of run:r are there cannot be checked" in caplog.text
    marks.write("run:r", mark(8))
    assert marks.find("run:r") == mark(8)
    assert marks.path.stat().st_size == len(data)


def test_a_mark_that_cannot_be_written_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Full(Disk):
        def overwrite(self, at: int, offset: int, data: bytes) -> None:
            raise OSError(28, "no space left")

    marks = Marks(tmp_path / "marks", Full())
    for number in (1, 2):
        marks.write("run:r", mark(number))
    assert len(caplog.records) == 1
    assert "no space left" in caplog.text
