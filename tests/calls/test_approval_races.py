"""No call is executed without approval, whatever is changed between approval and execution.

The long form is ``make approvals``.
"""

import random
from collections.abc import Awaitable, Callable

import pytest

from tests.calls.approval_races import EVIL, KINDS, World, evil, race
from tests.samples import amount
from ziggurat import Context

RACES = amount(20, 50)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_was_not_approved_is_not_executed(kind: Callable[[World], Awaitable[None]]) -> None:
    outcome = race(kind, RACES, seed=7)
    assert outcome["races"] == RACES
    assert outcome["attacks"] >= RACES * 0.6, "most races must see the attack"
    assert outcome["unapproved"] == 0


@pytest.mark.parametrize(
    "kind", ["shared_mapping", "call_of_the_model", "call_that_is_shown", "hook_in_another_task", "tool_replaced"]
)
def test_what_was_approved_is_executed_although_it_is_attacked(kind: str) -> None:
    (attack,) = [each for each in KINDS if each.__name__ == kind]
    assert race(attack, RACES, seed=3)["executed"] == RACES


async def test_an_execution_without_approval_would_be_seen() -> None:
    world = World(random.Random(1))

    await world.pay(evil(), Context("run"))
    assert (world.executed, world.unapproved) == ([EVIL], 1)
