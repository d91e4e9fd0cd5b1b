"""Runs that were recorded once are read, replayed and gone on with at every commit, on every store, cut anywhere."""

import re
from itertools import product
from pathlib import Path

import msgspec
import pytest

from tests.golden.agents import GOLDEN, PROMPT
from tests.golden.convert import recorded
from tests.golden.stores import RECORDINGS, lines, misses, put
from tests.samples import sample
from tests.stores.places import PLACES
from ziggurat import AgentRun, Approve, Deny
from ziggurat.core.codec import SHAPE_VERSION
from ziggurat.errors import RunExists
from ziggurat.journal import Store
from ziggurat.messages import stops

EACH = pytest.mark.parametrize(
    ("recording", "kind"),
    [(recording, "memory") for recording in RECORDINGS]
    + sample(product(RECORDINGS, [place for place in PLACES if place != "memory"]), 6),
)


def _golden(recording: str) -> str:
    return recording.partition("/")[2]


def test_every_kind_is_recorded() -> None:
    assert {_golden(recording) for recording in RECORDINGS if f"version-{SHAPE_VERSION}/" in recording} == set(GOLDEN)


@pytest.mark.parametrize("name", GOLDEN)
async def test_what_is_recorded_today_has_the_form_that_is_kept(name: str) -> None:
    kept = RECORDINGS[f"version-{SHAPE_VERSION}/{name}"]
    today = await recorded(GOLDEN[name])
    now, was = ([msgspec.json.decode(line) for line in lines(each)] for each in (today, kept))
    assert [(entry["entry"], entry["path"]) for entry in now] == [(entry["entry"], entry["path"]) for entry in was]
    assert not misses(now, was), "the form of records has changed: if old ones are still read, run `make golden`"


def test_a_change_of_form_is_seen() -> None:
    assert not misses({"a": [{"b": 1}], "more": None}, {"a": [{"b": 2}]})
    assert misses({"a": []}, {"a": [], "b": 1}) == [".b"]
    assert misses([{"a": "1"}], [{"a": 1}]) == ["[0].a is of another type"]
    assert misses([{"a": []}], [{"a": [1]}]) == ["[0].a has another length"]
    assert misses(1, {"a": 1})


@EACH
async def test_a_recorded_run_replays_to_its_end(recording: str, kind: str, tmp_path: Path) -> None:
    name, store = _golden(recording), PLACES[kind](tmp_path)()
    await put(store, name, RECORDINGS[recording])
    run = await GOLDEN[name].make(store).replay("r")
    assert stops.status_of(run.stop) == GOLDEN[name].stop
    if run.stop == stops.Completed():
        assert run.text == GOLDEN[name].text
    await store.close()


async def _to_the_end(store: Store, name: str) -> AgentRun:
    agent = GOLDEN[name].make(store)
    run = await agent.run(PROMPT, run_id="r")
    while run.pending:
        unknown = Deny("nobody knows")
        run = await agent.resume("r", {item.id: unknown if item.interrupted else Approve() for item in run.pending})
    return run


def _check(run: AgentRun, name: str) -> None:
    golden = GOLDEN[name]
    if isinstance(run.stop, stops.Failed):
        assert name == "failed", run.stop  # its model fails the first time in this process too
        return
    assert run.stop == stops.Completed()
    assert run.text == golden.text or any(said in run.text for said in golden.may_say)


@EACH
async def test_a_recorded_run_goes_on_wherever_it_was_cut(recording: str, kind: str, tmp_path: Path) -> None:
    name, whole = _golden(recording), lines(RECORDINGS[recording])
    cuts = range(1, len(whole) + 1) if kind == "memory" else (len(whole) // 2, len(whole) - 1)

    for cut in cuts:
        store = PLACES[kind](tmp_path / str(cut))()
        await put(store, name, b"\n".join(whole[:cut]) + b"\n")
        _check(await _to_the_end(store, name), name)
        await store.close()


async def test_a_payment_that_was_begun_is_not_made_again(tmp_path: Path) -> None:
    whole = lines(RECORDINGS[f"version-{SHAPE_VERSION}/once"])
    (begun,) = [number for number, line in enumerate(whole, 1) if b'"entry":"Intent"' in line]

    store = PLACES["memory"](tmp_path)()
    await put(store, "once", b"\n".join(whole[:begun]) + b"\n")
    assert "was not run again" in (await _to_the_end(store, "once")).text


def test_no_recording_holds_a_secret() -> None:
    kept = [recording for name, recording in RECORDINGS.items() if name.endswith("/redacted")]
    assert kept
    assert not any(re.search(rb"sk-proj|abcdefghijkl", recording) for recording in kept)


async def test_another_agent_is_told_apart_by_its_name(tmp_path: Path) -> None:
    store = PLACES["memory"](tmp_path)()
    await put(store, "once", RECORDINGS[f"version-{SHAPE_VERSION}/once"])
    with pytest.raises(RunExists, match="another agent, 'once'"):
        await GOLDEN["tools"].make(store).run(PROMPT, run_id="r")
