"""Random graphs give the same whatever ends first, and what a model of their rules says."""

from collections import Counter
from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.agents.flow_trees import plant
from tests.plans.random_graphs import (
    Declared,
    Trail,
    built,
    by_chance,
    declared,
    is_refused,
    model_of,
    pausing,
    writes_at_once,
)
from tests.samples import amount, sample
from tests.stores.places import stores
from ziggurat import ConfigurationError
from ziggurat.agents import runs_of
from ziggurat.journal.entries import JournalEntry, Result
from ziggurat.messages import stops


def _refusal(graph: Declared) -> str | None:
    """Return why a graph is refused; None if it is not."""
    try:
        built(graph, pausing(Random(0)), [])
    except ConfigurationError as error:
        return str(error)
    return None


def _accepted(seed: int, joins: str, *, loops: bool) -> Declared | None:
    """Return a random graph; None if it is refused."""
    graph = declared(Random(seed), joins.split(), loops=loops)  # type: ignore[arg-type]
    return graph if _refusal(graph) is None else None


def test_a_graph_is_refused_just_if_a_model_that_tries_all_choices_says_so() -> None:
    reasons: Counter[bool] = Counter()
    for seed in range(amount(200, 600)):
        graph = declared(Random(seed), ["all", "all", "settled"], loops=False)
        why, refusal = is_refused(graph), _refusal(graph)
        reasons[why] += 1
        assert why == (refusal is not None), (seed, refusal)
        assert not why or "can never start" in (refusal or ""), (seed, refusal)
    assert min(reasons.values()) > amount(5, 20)


async def _outcome(graph: Declared, order: int) -> str:
    """Return how a graph ended, and its output."""
    try:
        run = await built(graph, pausing(Random(order)), []).run(Trail())
    except ConfigurationError:  # of writes at the same time, or a loop that was left and went on
        return "ConfigurationError"
    assert isinstance(run.stop, (stops.Completed, stops.BudgetExceeded)), run.stop
    return f"{run.stop} {run._output}"


async def test_without_loops_random_graphs_do_what_the_model_says_in_any_order() -> None:
    accepted: Counter[bool] = Counter()
    for seed in range(amount(50, 300)):
        graph = _accepted(seed, "all all settled", loops=False)
        if graph is None:
            continue
        refused = writes_at_once(graph)
        accepted[refused] += 1
        if refused:
            assert {await _outcome(graph, order) for order in range(3)} == {"ConfigurationError"}, seed
            continue
        runs, _ = model_of(graph, by_chance(graph))
        outputs = []
        for order in range(3):
            calls: list[int] = []
            run = await built(graph, pausing(Random(order)), calls).run(Trail())
            assert run.stop == stops.Completed(), (seed, run.stop)
            assert Counter(calls) == Counter(list(runs)), seed
            outputs.append(run.output)
            for note in run.output.notes:
                number, _, seen = note.partition(":")
                assert {int(each) for each in seen.split(".") if each} == runs[int(number)], (seed, note)
        assert outputs[0] == outputs[1] == outputs[2], seed
    assert accepted[False] > amount(18, 120)
    assert accepted[True] > amount(0, 6)


# in the last one a node beside a loop waits for another
@pytest.mark.parametrize("seed", [*sample(range(60), 12), 5610])
async def test_with_loops_random_graphs_give_the_same_in_any_order(seed: int) -> None:
    graph = _accepted(seed, "all settled", loops=True)
    if graph is not None:
        assert len({await _outcome(graph, order) for order in range(3)}) == 1


@pytest.mark.parametrize(("place", "seed"), sample(product(["memory", "sqlite"], range(24)), 8))
async def test_resumed_equals_uninterrupted_at_every_cut(place: str, seed: int, tmp_path: Path) -> None:
    graph = _accepted(seed, "all settled any", loops=True)
    if graph is None or graph.writers or await _outcome(graph, 1) == "ConfigurationError":
        return

    async with stores(place, tmp_path) as (store, other):
        run = await built(graph, pausing(Random(1)), [], store=store).run(Trail(), run_id="whole")
        entries = [*(await runs_of(store).read("whole")).entries]
        ended = [each for each in entries if isinstance(each, Result) and each.path.count("/") == 1]
        for cut in range(1, len(entries)):
            await plant(store, f"cut-{cut}", entries[:cut])
            calls: list[int] = []
            again = await built(graph, pausing(Random(cut)), calls, store=other).resume(f"cut-{cut}", strict=True)
            before = [each for each in ended if each in entries[:cut]]
            if _any_in(entries[:cut]) == _any_in(entries):  # else another branch may be the first
                assert again.output == run.output
                assert len(calls) == len(ended) - len(before)
            assert again.stop == run.stop


def _any_in(entries: list[JournalEntry]) -> set[str]:
    """Return the nodes of which it is recorded with which branch they have started."""
    return {entry.path for entry in entries if isinstance(entry, Result) and entry.name == "any"}
