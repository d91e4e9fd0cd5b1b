"""Tests of events as JSON lines."""

import io
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from ziggurat import Agent, ConfigurationError, Event
from ziggurat.core.codec import decode
from ziggurat.events import AgentEnded, Retrying
from ziggurat.messages.events import AnyEvent
from ziggurat.observe import JsonLines
from ziggurat.testing import ScriptedModel


def test_every_line_is_an_event_that_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    heard: list[Event] = []
    with JsonLines(path) as lines:
        Agent(ScriptedModel("Hello there.")).run_sync("x", listeners=[heard.append, lines])
    read = [decode(line, AnyEvent) for line in path.read_text().splitlines()]
    assert read == heard
    assert lines.written == len(read)


def test_a_file_is_appended_to_and_a_closed_one_takes_no_more(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for _ in range(2):
        with JsonLines(path) as lines:
            lines(Retrying("a", 1, "why", 0.5))
        lines(Retrying("a", 2, "why", 0.5))
    assert len(path.read_text().splitlines()) == 2


def test_a_path_that_cannot_be_written_raises_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot write events to"):
        JsonLines(tmp_path / "no" / "such" / "folder.jsonl")


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_when_the_reader_has_left_it_is_told_once() -> None:
    told = []
    lines = JsonLines(Gone(), on_closed=lambda: told.append(1))
    for _ in range(3):
        lines(Retrying("a", 1, "why", 0.5))
    assert told == [1]
    assert lines.written == 0


def test_an_answer_without_a_json_form_is_written_as_text() -> None:
    @dataclass
    class Odd:
        inner: object

    out = io.StringIO()
    run = Agent(ScriptedModel("x")).run_sync("x")
    from msgspec.structs import replace

    JsonLines(out)(AgentEnded("agent", replace(run, output=Odd(object()))))
    line = json.loads(out.getvalue())
    assert line["event"] == "AgentEnded"
    assert "Odd" in line["run"]["output"]


def test_a_new_file_is_private_and_an_existing_one_keeps_its_mode(tmp_path: Path) -> None:
    for name, mode in (("new", None), ("old", 0o640)):
        path = tmp_path / name
        if mode is not None:
            path.touch()
            path.chmod(mode)
        with JsonLines(path):
            pass
        assert stat.S_IMODE(path.stat().st_mode) == (mode or 0o600)


def test_a_pipe_that_nobody_reads_is_an_error_and_nothing_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="cannot write events to"):
        JsonLines(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with JsonLines(tmp_path / "pipe") as lines:
            assert os.get_blocking(lines._file.fileno())
    finally:
        os.close(reader)
