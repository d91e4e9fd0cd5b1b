"""Teams in a session that were recorded once are read, replayed and gone on with at every commit, on every store."""

from itertools import product
from pathlib import Path

import msgspec
import pytest

from tests.golden.stores import lines, misses
from tests.golden.teams import KEPT, read, recorded
from tests.samples import sample
from tests.stores.places import PLACES
from tests.teams.patterns import PATTERNS
from ziggurat.stops import Completed


@pytest.mark.parametrize("kind", PATTERNS)
async def test_what_is_recorded_of_a_team_today_has_the_form_that_is_kept(kind: str, tmp_path: Path) -> None:
    today = await recorded(kind, tmp_path)
    now, was = ([msgspec.json.decode(line) for line in lines(each)] for each in (today, KEPT[kind]))
    assert [(line["log"], line["data"].get("entry")) for line in now] == [
        (line["log"], line["data"].get("entry")) for line in was
    ]
    assert not misses(now, was), "the form of records has changed: if old ones are still read, run `make golden`"
    kept = await read(kind, KEPT[kind], tmp_path / "kept")
    assert kept == await read(kind, today, tmp_path / "today")
    assert {kept[f"stop {number}"] for number in range(3)} == {Completed()}
    assert len(kept["session"]) == len(kept["messages 2"])


@pytest.mark.parametrize(
    ("kind", "place"), sample(product(PATTERNS, [place for place in PLACES if place != "sqlite"]), 6)
)
async def test_a_recorded_team_goes_on_in_each_store(kind: str, place: str, tmp_path: Path) -> None:
    assert await read(kind, KEPT[kind], tmp_path, place) == await read(kind, KEPT[kind], tmp_path / "sqlite")
