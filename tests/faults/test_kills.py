"""A short storm on each store that needs no server; `make faults` has the long one."""

import itertools
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.faults.flow_world import FlowWorld
from tests.faults.world import QUICK, Ledger, Verdict, judge
from tests.samples import amount, sample
from tests.stores.server import PASSWORD, schema
from ziggurat.agents import Answer
from ziggurat.journal.entries import Decided, Pending


def _storm(store: str, kills: int, seed: int, *more: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.faults", "kills", "--store", store, "--kills", str(kills)]
    command += ["--seed", str(seed), *(["--folder", QUICK] if QUICK else []), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("store", "world"), sample(itertools.product(["sqlite", "file"], ["agent", "flow", "graph", "plan", "team"]), 1)
)
def test_killed_runs_go_on_and_lose_nothing(store: str, world: str) -> None:
    kills = amount(4, 14)
    code, said = _storm(store, kills, 5, "--world", world)
    assert f"faults {kills} survived {kills} lost 0 doubled 0 stuck 0 leaked 0 " in said
    assert code == 0


def test_killed_runs_go_on_and_lose_nothing_upon_a_server() -> None:
    kills = amount(3, 12)
    code, said = _storm(schema(), kills, 6)
    assert f"faults {kills} survived {kills} lost 0 doubled 0 stuck 0 leaked 0 " in said
    assert unquote(PASSWORD) not in unquote(said)
    assert code == 0


@pytest.mark.parametrize("store", sample(["sqlite", "postgres"], 1))
def test_what_waits_goes_on_whatever_happens_to_workers_and_who_decides(store: str) -> None:
    kills = amount(3, 60)
    command = [sys.executable, "-m", "tests.faults.crowd", "--store", store, "--kills", str(kills), "--pauses", "1"]
    done = subprocess.run([*command, "--seed", "5"], capture_output=True, text=True, check=False)
    assert f"faults {kills + 1} lost 0 doubled 0 stuck 0 leaked 0 late 0 wrong 0 " in done.stdout, done.stderr
    assert done.returncode == 0


def test_a_storm_finds_out_a_store_that_acknowledges_before_it_writes() -> None:
    code, said = _storm("lying", amount(8, 16), 7, "--chance", "0")  # at points alone, however fast the machine is
    assert code == 1, said
    assert not re.search(r"lost 0 doubled 0", said)


def test_a_judge_sees_each_kind_of_wrong() -> None:
    def found(results: dict[str, str], *lines: Mapping[str, object]) -> Verdict:
        verdict = Verdict()
        judge([dict(line) for line in lines], results, verdict)
        return verdict

    done = {"effect": "pay", "number": 1, "path": "a", "key": "r:a"}
    heard = {"acknowledged": "a", "said": "pay 1 is done"}
    sound = {"a": "pay 1 is done"}
    assert not found(sound, done, heard)
    assert len(found({}, done, heard).lost) == 1
    assert len(found(sound, heard).lost) == 1
    assert len(found(sound, done, done, heard).doubled) == 1
    again = {**done, "effect": "note"}
    assert not found(sound, again, again, heard)
    assert len(found(sound, again, {**again, "key": "r:b"}).doubled) == 1
    assert len(found(sound, again, heard, again).doubled) == 1


def test_a_judge_sees_events_and_timers_go_wrong(tmp_path: Path) -> None:
    def found(name: str, *lines: Mapping[str, object], twice: bool = False) -> Verdict:
        verdict, world = Verdict(), FlowWorld(Ledger(tmp_path / name))
        world.agent("memory:", 5)  # waits for an event and a timer
        for line in lines:
            world.ledger.write(**line)
        decided = [Decided("worker/event", "e", Answer(1), 0.0, None, 1) for _ in range(1 + twice)]
        world.judge([Pending("worker/sleep", "s", "sleep", None, "", 2e9), *decided], {}, verdict)
        world.ledger.close()
        return verdict

    sent, taken = {"sent": 1, "new": True}, {"taken": 1, "place": "2"}
    fired = {"fired": 2e9, "length": FlowWorld.long}
    assert not found("sound", sent, {"sent": 1, "new": False}, taken, taken, fired, fired)
    assert len(found("lost", sent, fired).lost) == 1
    assert len(found("another", sent, taken, {**taken, "taken": 2}, fired).lost) == 1
    assert len(found("new twice", sent, sent, taken, fired).doubled) == 1
    assert len(found("taken twice", sent, taken, fired, twice=True).doubled) == 1
    assert len(found("early", sent, taken, {**fired, "fired": 1e9}).lost) == 1
    assert len(found("forgotten", sent, taken).lost) == 1
