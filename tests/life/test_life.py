"""Random lives of runs agree with the specification; many more are told by `make life`."""

from itertools import product
from pathlib import Path

import pytest

from tests.life.story import PLACES, tell
from tests.samples import sample


@pytest.mark.parametrize(("place", "seed"), sample(product(PLACES, range(50)), 5))
async def test_a_life_of_runs_agrees_with_the_specification(place: str, seed: int, tmp_path: Path) -> None:
    await tell(seed, place, tmp_path)
