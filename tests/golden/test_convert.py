"""New recordings say what the committed ones say; one that does not is found, and is replaced on demand only."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

from tests.golden.convert import NAMES, main
from tests.golden.stores import FOLDER
from tests.samples import sample
from ziggurat.core.codec import SHAPE_VERSION


def _copied(folder: Path) -> Path:
    copytree(FOLDER, folder, dirs_exist_ok=True)
    return folder


def test_new_recordings_say_what_the_committed_ones_say() -> None:
    assert main(sample(NAMES, 5)) == 0


CHANGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "messages": (lambda data: data.replace(b"3, and 7.", b"3, and 8."), "messages"),
    "usage": (lambda data: data.replace(b'"input":30', b'"input":31'), "usage"),
    "stop": (lambda data: b"".join(data.splitlines(keepends=True)[:4]), "stop"),
    "form": (lambda data: data.replace(b'"entry":"Result"', b'"entry":"Outcome"'), "it cannot be read"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_recording_that_says_something_else_is_found_and_replaced(
    change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, told = CHANGES[change]
    kept = _copied(tmp_path)
    recording = kept / f"version-{SHAPE_VERSION}" / "tools.jsonl"
    spoiled = spoil(recording.read_bytes())
    recording.write_bytes(spoiled)

    assert main(["tools", "once"], kept) == 1
    assert f"version-{SHAPE_VERSION}/tools: {told}" in capsys.readouterr().out
    assert recording.read_bytes() == spoiled

    assert main(["tools", "--write"], kept) == 1
    assert main(["tools"], kept) == 0


def test_a_run_that_is_not_recorded_yet_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["once", "--write"], tmp_path) == 1
    assert "once: not recorded yet" in capsys.readouterr().out
    assert main(["once"], tmp_path) == 0
