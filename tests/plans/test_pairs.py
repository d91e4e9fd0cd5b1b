"""Graphs and plans with everything they can be nested in: one rule for each way to run them, over generated nests."""

import random
from collections import Counter
from typing import Any

import pytest

from tests.observe.collector import Collector
from tests.plans.nests import SHAPES, Nest, answers
from tests.samples import sample
from ziggurat import AgentRun, Budget
from ziggurat.agents import runs_of
from ziggurat.core.path import is_beneath
from ziggurat.journal.entries import Entered, Intent, JournalEntry, Result, Returned
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore, Session

PLANNED = ("graph", "plan")
PAIRS = [(one, other) for one in SHAPES for other in SHAPES if one in PLANNED or other in PLANNED]
"""All that is directly within a graph or a plan, or around it."""

THREES = [
    (*outer, inner)
    for seed in range(4)
    for chance in [random.Random(seed)]
    for outer, inner in [(chance.choice(PAIRS), chance.choice(PLANNED))]
]


async def to_the_end(nest: Nest, run_id: str, run: AgentRun[Any]) -> AgentRun[Any]:
    """Answer all that a run waits for until it ends."""
    while run.pending:
        run = await nest.outermost.resume(run_id, answers(run), strict=True)
    return run


async def uninterrupted(shapes: tuple[str, ...], **options: Any) -> tuple[AgentRun[Any], list[JournalEntry], Nest]:
    """Run a nest in one process; return the run, its record, and the nest."""
    nest = Nest(shapes, store=InMemoryStore(), **options)
    run = await to_the_end(nest, "whole", await nest.outermost.run(nest.input, run_id="whole"))
    return run, [*(await runs_of(nest.outermost.store).read("whole")).entries], nest


async def broken_off(nest: Nest, entries: list[JournalEntry]) -> None:
    """Create the run of a nest as if it had been broken off after some entries."""
    await runs_of(nest.outermost.store).plant("whole", nest.outermost.name, entries)


def is_unknown(entries: list[JournalEntry]) -> bool:
    """Return whether it is unknown if what acts once only has acted."""
    ended = {entry.path for entry in entries if isinstance(entry, (Result, Returned))}
    return any(isinstance(entry, Intent) and entry.once and entry.path not in ended for entry in entries)


def gave(run: AgentRun[Any]) -> tuple[Any, ...]:
    """Return what a run has given and used."""
    return run.stop, run.text, run.output, run.usage.requests, run.model_calls


@pytest.mark.parametrize("shapes", sample([*PAIRS, *THREES], 8), ids="-".join)
async def test_a_nest_that_was_broken_off_anywhere_gives_what_an_uninterrupted_one_gives(
    shapes: tuple[str, ...],
) -> None:
    run, entries, whole = await uninterrupted(shapes)
    assert isinstance(run.stop, stops.Completed)
    assert set(Counter(whole.done).values()) == {1}
    for cut in range(1, len(entries), 8):
        nest = Nest(shapes, store=InMemoryStore())
        await broken_off(nest, entries[:cut])
        again = await to_the_end(nest, "whole", await nest.outermost.resume("whole", strict=True))
        answered = {entry.path for entry in entries[:cut] if isinstance(entry, Result)}
        assert not [path for path in nest.done if path in answered]
        assert set(Counter(nest.done).values()) <= {1}
        assert is_unknown(entries[:cut]) or gave(again) == gave(run)


@pytest.mark.parametrize(
    "shapes", sample([each for each in PAIRS if "team" in each or "tool" in each], 4), ids="-".join
)
async def test_workers_of_several_processes_give_what_one_process_gives(shapes: tuple[str, ...]) -> None:
    run, _, _ = await uninterrupted(shapes)
    store, done = InMemoryStore(), list[str]()

    def process() -> Nest:
        return Nest(shapes, store=InMemoryStore(shared=store))

    first = process()
    submitted = await first.outermost.submit(first.input, run_id="r")
    waits = True
    while waits:  # each worker is in a process of its own, and so is whoever decides
        nest = process()
        async with nest.outermost.worker():
            again = await submitted.result()
        done += nest.done
        waits = bool(again.pending)
        if waits:
            await process().outermost.attach("r").decide(answers(again))
    assert gave(again) == gave(run)
    assert set(Counter(done).values()) == {1}


@pytest.mark.parametrize("shapes", sample([each for each in PAIRS if each[-1] in PLANNED], 4), ids="-".join)
async def test_a_fork_before_any_call_gives_what_the_original_gave(shapes: tuple[str, ...]) -> None:
    run, entries, whole = await uninterrupted(shapes)
    calls = 1 + len({entry.path.split("/")[1] for entry in entries if "/" in entry.path})
    for at in range(1, calls + 1):
        nest = Nest(shapes, store=whole.outermost.store)
        forked = await nest.outermost.fork("whole", at=at, effects="recorded", new_id=f"fork-{at}")
        forked = await to_the_end(nest, f"fork-{at}", forked)
        assert forked.output == run.output
        assert not [path for path in nest.done if path.endswith("pay")], "it acts once, and is on record"
        assert len(nest.done) <= len(whole.done) - 1 - (at > 1)
    assert gave(await whole.outermost.replay("whole")) == gave(run), "the original does not change"


@pytest.mark.parametrize("shapes", sample(PAIRS, 8), ids="-".join)
async def test_the_spans_of_a_nest_are_its_tree_of_calls_and_a_replay_makes_none_of_models(
    shapes: tuple[str, ...],
) -> None:
    collector = Collector()
    run, entries, nest = await uninterrupted(shapes, middleware=[collector.telemetry()])
    paths = [str((span.attributes or {})["ziggurat.path"]) for span in collector.spans]
    calls = {
        node.path for node in (await nest.outermost.tree("whole")).nodes if node.kind in ("agent", "model", "tool")
    }
    assert set(paths) <= calls
    entered = {entry.path for entry in entries if isinstance(entry, Entered)}
    models = [entry.path for entry in entries if isinstance(entry, Result) and entry.path.endswith("/model")]
    assert entered <= set(paths)
    assert Counter(path for path in paths if path.endswith("/model")) == Counter(models), "each was made once"
    spans = {span.context.span_id: span for span in collector.spans if span.context is not None}
    for span in collector.spans:
        outer = None if span.parent is None else spans[span.parent.span_id]
        path = str((span.attributes or {})["ziggurat.path"])
        above = "" if outer is None else str((outer.attributes or {})["ziggurat.path"])
        assert path == above or is_beneath(path, above)
        between = [each for each in paths if each not in (path, above) and is_beneath(path, each)]
        assert not [each for each in between if is_beneath(each, above)]
    before = len(collector.spans)
    again = await nest.outermost.replay("whole")
    assert gave(again) == gave(run)
    assert not [span.name for span in collector.spans[before:] if not span.name.startswith("invoke_agent")]


@pytest.mark.parametrize("shapes", sample(PAIRS, 8), ids="-".join)
async def test_a_replay_with_tools_or_models_called_again_gives_the_same(shapes: tuple[str, ...]) -> None:
    run, _, whole = await uninterrupted(shapes)
    for live, called in (("tools", whole.done), ("models", [])):
        nest = Nest(shapes, store=whole.outermost.store)
        assert (await nest.outermost.replay("whole", live=live)).output == run.output
        assert sorted(nest.done) == sorted(called)


BUDGETED = [each for each in PAIRS if each[-1] in PLANNED]


@pytest.mark.parametrize("shapes", sample(BUDGETED, 5), ids="-".join)
async def test_a_budget_ends_a_nest_at_the_same_call_wherever_it_was_broken_off(shapes: tuple[str, ...]) -> None:
    for requests in (1, 4):
        run, entries, _ = await uninterrupted(shapes, budget=Budget(requests=requests))
        assert run.model_calls <= requests
        for cut in range(1, len(entries), 8):
            nest = Nest(shapes, store=InMemoryStore(), budget=Budget(requests=requests))
            await broken_off(nest, entries[:cut])
            again = await to_the_end(nest, "whole", await nest.outermost.resume("whole"))
            assert is_unknown(entries[:cut]) or (again.stop, again.model_calls) == (run.stop, run.model_calls)


@pytest.mark.parametrize("shapes", sample(BUDGETED, 5), ids="-".join)
async def test_a_session_is_the_same_whichever_processes_go_on_with_its_runs(shapes: tuple[str, ...]) -> None:
    async def talk(requests: int, *, alone: bool) -> list[object]:
        store = InMemoryStore()

        def process() -> Nest:
            shared = store if alone else InMemoryStore(shared=store)
            return Nest(shapes, store=shared, budget=Budget(requests=requests))

        ended: list[object] = []
        for run_id in ("first", "second"):
            nest = process()
            run = await nest.outermost.run(nest.input, run_id=run_id, session="talk")
            while run.pending:
                run = await process().outermost.resume(run_id, answers(run))
            ended.append((type(run.stop), run.model_calls))
        return [*ended, *[(each.role, each.text) for each in await Session("talk", store).history()]]

    for requests in (2, 99):
        said = await talk(requests, alone=True)
        assert said == await talk(requests, alone=False)
        assert said[0] == said[1], "what the first run has left behind does not change the second"
        assert requests == 2 or len(said) > 4
