"""Damage to each part of each store; `make faults` has more cases."""

from pathlib import Path

import pytest

from tests.faults.damage import KINDS, damage_files, damage_store
from tests.samples import amount, sample

CASES = amount(8, 20)


@pytest.mark.parametrize("kind", sample(KINDS, 3))
def test_damage_is_noticed_or_does_no_harm(kind: str) -> None:
    found = damage_store(kind, CASES, 11)
    assert not found.verdict, found.verdict
    assert found.cases == CASES
    if kind == "wal":
        assert found.accepted
    if kind == "session":
        assert found.named


def test_a_store_that_forgets_what_it_acknowledged_is_found_out() -> None:
    def forget(folder: Path) -> None:
        (folder / "runs.db-ziggurat").unlink()

    found = damage_files("wal", CASES, 11, forget)
    assert found.verdict.lost
    assert found.verdict.doubled
