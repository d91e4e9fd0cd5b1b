"""Random lives of runs agree with the specification; many more are told by `make life`."""

from pathlib import Path

import pytest

from tests.life.story import PLACES, tell


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("first", range(0, 60, 10))
async def test_lives_of_runs_agree_with_the_specification(place: str, first: int, tmp_path: Path) -> None:
    count = 6 if place == "rows" else 2
    for seed in range(first, first + count):
        folder = tmp_path / str(seed)
        folder.mkdir()
        await tell(seed, place, folder)
