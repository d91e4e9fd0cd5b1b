"""The code of a flow changes while its run waits: a call gets what is on record for it, is made, or is refused."""

import random

import pytest

from tests.agents.changed_flows import Trial, changed, code
from tests.samples import amount


@pytest.mark.parametrize("seed", range(amount(40, 2000)))
async def test_a_call_gets_what_is_on_record_for_it_or_is_refused(seed: int) -> None:
    chance = random.Random(seed)
    trial, before = Trial(chance), code(chance)
    status = await trial.go_on(before, begin=True)
    for _ in range(chance.randrange(4)):
        if status != "Suspended":
            break
        await trial.happen(before)
        status = await trial.go_on(before) if chance.random() < 0.7 else status
    if status != "Suspended":
        return
    after = changed(before, chance)
    status = await trial.go_on(after)
    if status == "refused" and not trial.made:
        after, status = before, await trial.go_on(before)
        assert status != "refused", "the code as it was goes on"
    for _ in range(40):
        if status != "Suspended":
            break
        await trial.happen(after)
        status = await trial.go_on(after)
    assert status in ("Completed", "refused")
