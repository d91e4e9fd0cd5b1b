"""Any plan gives the same under any order of completion, and when it is broken off anywhere and resumed."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents.flow_trees import plant
from tests.plans.plan_trees import Forest, expected
from tests.samples import amount, sample
from tests.stores.places import new_store, stores
from ziggurat import AgentRun
from ziggurat.agents import runs_of
from ziggurat.journal.entries import Intent, JournalEntry, Result
from ziggurat.messages import stops
from ziggurat.plans import PlanResult


def gave(run: AgentRun[PlanResult]) -> Any:
    """Return the output and the variables of a run, or its failure."""
    if isinstance(run.stop, stops.Completed):
        return run.output.output, {name: each for name, each in run.output.variables.items() if name != "error"}
    return run.error


def agrees(seen: Any, wanted: Any) -> bool:
    """Return whether a run gave what the model of the tests gives."""
    if isinstance(wanted, str):
        return isinstance(seen, str) and (wanted in seen or wanted == "rounds")
    output, values = wanted
    return bool(seen == (output, {name: each for name, each in values.items() if name != "error"}))


async def test_any_order_of_completion_gives_what_one_line_gives() -> None:
    for seed in range(amount(20, 60)):
        wanted = expected(Forest(seed).nodes)
        results = []
        for order in range(3):
            run = await Forest(seed, order).plan().run({})
            assert agrees(gave(run), wanted), (seed, gave(run), wanted)
            results.append((gave(run), run._output))
        assert results[0] == results[1] == results[2]


def begun_once(entries: list[JournalEntry]) -> set[str]:
    """Return the paths of tasks that act once only, were begun, and have no result."""
    ended = {entry.path for entry in entries if isinstance(entry, Result)}
    return {entry.path for entry in entries if isinstance(entry, Intent) and entry.once} - ended


@pytest.mark.parametrize("seed", sample(range(8), 3))
async def test_a_plan_that_was_broken_off_anywhere_goes_on_there(seed: int) -> None:
    whole, store = Forest(seed), new_store()
    run = await whole.plan(store).run({}, run_id="whole")
    entries = [*(await runs_of(store).read("whole")).entries]
    for cut in range(1, len(entries), 2):
        await plant(store, f"cut-{cut}", entries[:cut])
        resumed = Forest(seed, cut)
        again = await resumed.plan(store).resume(f"cut-{cut}")
        answered = {entry.path for entry in entries[:cut] if isinstance(entry, Result)}
        assert not answered.intersection(resumed.done)
        assert len(set(resumed.done)) == len(resumed.done)
        assert not begun_once(entries[:cut]).intersection(resumed.done)
        assert begun_once(entries[:cut]) or gave(again) == gave(run)


async def test_a_plan_is_resumed_from_a_store_of_another_process(tmp_path: Path) -> None:
    async with stores("sqlite", tmp_path) as (store, other):
        run = await Forest(3).plan(store).run({}, run_id="whole")
        entries = [*(await runs_of(store).read("whole")).entries]
        for cut in range(1, len(entries), 5):
            await plant(store, f"cut-{cut}", entries[:cut])
            again = await Forest(3).plan(other).resume(f"cut-{cut}", strict=True)
            assert begun_once(entries[:cut]) or gave(again) == gave(run)
