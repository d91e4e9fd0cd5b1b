"""The runtime: its order, its settings, and that it is no more than its parts."""

import asyncio
from typing import Any

import pytest

from tests.samples import pairs
from tests.wrong import wrong
from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Approvals,
    Approve,
    ConfigurationError,
    Context,
    Middleware,
    ModelRequest,
    ModelResponse,
    tool,
)
from ziggurat.agents.memory import WorkingValues
from ziggurat.agents.memory.showing import VALUES
from ziggurat.errors import RunNotFound
from ziggurat.knowledge import KnowledgeGraph
from ziggurat.layers import Gate, retry
from ziggurat.memory import AgentMemory, Remembering, WorkingMemory, open_memory
from ziggurat.messages import assistant, tool_call
from ziggurat.messages.message import MEMORY
from ziggurat.messages.stops import status_of
from ziggurat.observe import Metrics
from ziggurat.plans import Parallel, Task, workflow
from ziggurat.runtime import Runtime
from ziggurat.teams import parallel
from ziggurat.testing import ScriptedModel


@tool
async def greet(name: str = "you") -> str:
    """Greet."""
    return f"Hello, {name}."


@pytest.mark.parametrize(("gated", "recalling", "working", "linked"), pairs(*[[False, True]] * 4))
async def test_any_combination_of_parts_answers(gated: bool, recalling: bool, working: bool, linked: bool) -> None:
    asked: list[ModelRequest] = []

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        asked.append(request)
        if len(asked) == 1:
            return ModelResponse(assistant(tool_call("greet", name="Ann")), "tool_calls")
        return ModelResponse(assistant("Done."), "stop")

    store = open_memory("memory:")
    await AgentMemory(store, "ann").remember("Ann likes trains to Rome.")
    values = WorkingMemory(store, "ann")
    await values.set("goal", "book a trip\n- and more")
    gate = Gate(1)
    runtime = Runtime(
        model,
        tools=[greet],
        gate=gate if gated else None,
        memory=Remembering(store, "ann") if recalling else None,
        working=values if working else None,
        graph=KnowledgeGraph() if linked else None,
    )
    run = await runtime.run("Which trains to Rome?")
    assert (run.text, run.steps, gate.depth) == ("Done.", 2, 0)
    shown = [message.text for message in asked[0].messages if message.origin == MEMORY]
    assert [text.startswith(VALUES) for text in shown] == [False] * recalling + [True] * working
    assert not recalling or "likes trains" in shown[0]
    assert not working or shown[-1].count("\n- ") == 1
    assert asked[0].messages[-1].text == "Which trains to Rome?"
    assert ("search_graph" in runtime.tools) is linked
    counted = runtime.metrics
    assert (counted.runs, counted.running, counted.tools["greet"].calls) == (1, 0, 1)


class Noting(Middleware):
    """Notes when recalling could begin."""

    def __init__(self) -> None:
        self.begun = 0

    async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
        self.begun += 1


class SlowNoting(Noting):
    """Takes some turns of the event loop, as recalling does."""

    async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
        await super().before_agent(request, ctx)
        for _ in range(5):
            await asyncio.sleep(0)


@pytest.mark.parametrize(("hard", "runs"), [(1, 1), (1, 5), (3, 5), (5, 5)])
async def test_a_run_too_many_is_refused_before_anything_else(hard: int, runs: int) -> None:
    opened, begun = asyncio.Event(), asyncio.Semaphore(0)
    noting, gate = Noting(), Gate(hard)

    @tool
    async def wait() -> str:
        begun.release()
        await opened.wait()
        return "now"

    replies = [assistant(tool_call("wait")), assistant("Done.")]

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        last = request.messages[-1].role == "tool"
        return ModelResponse(replies[last], "stop" if last else "tool_calls")

    runtime = Runtime(model, tools=[wait], gate=gate, middleware=[noting])
    going = [asyncio.ensure_future(runtime.run("Go.")) for _ in range(hard)]
    for _ in range(hard):
        await begun.acquire()
    refused = [await runtime.run("Go.") for _ in range(runs - hard)]
    assert noting.begun == hard
    assert all(not run.model_calls and run.error is not None for run in refused)
    assert runtime.metrics.runs == 0
    opened.set()
    assert {run.text for run in await asyncio.gather(*going)} == {"Done."}
    assert (gate.depth, runtime.metrics.runs, runtime.metrics.running) == (0, hard, 0)


@pytest.mark.parametrize(("hard", "runs"), [(1, 4), (3, 5), (5, 5)])
async def test_of_runs_that_start_together_those_that_are_refused_do_nothing(hard: int, runs: int) -> None:
    noting, gate, memory = Noting(), Gate(hard), SlowNoting()
    runtime = Runtime(ScriptedModel(always="Done."), gate=gate, middleware=[memory, noting], store="memory:")
    outer = runtime.with_store(runtime.store)  # the same runs
    ended = await asyncio.gather(*([runtime, outer][each % 2].run("Go.", run_id=f"r-{each}") for each in range(runs)))
    refused = [run for run in ended if run.error is not None]
    assert len(refused) == runs - hard
    assert {status_of(run.stop) for run in refused} <= {"LimitExceeded", "Failed"}
    assert (memory.begun, noting.begun, runtime.metrics.runs, gate.depth) == (hard, hard, hard, 0)
    for run in refused:
        with pytest.raises(RunNotFound):
            await runtime.record(run.id)
        assert (await runtime.run("Go.", run_id=run.id)).text == "Done."  # its id can be used


async def test_a_run_that_waits_stays_as_it_was_when_it_is_refused() -> None:
    gate = Gate(1)
    script = ScriptedModel(tool_call("greet"), "Done.")
    runtime = Runtime(script, tools=[greet], gate=gate, approvals=Approvals("greet"), store="memory:")
    waiting = await runtime.run("Go.", run_id="r-1")
    before = await runtime.record("r-1")
    gate.enter()
    refused = await runtime.resume("r-1", {waiting.pending[0].id: Approve()})
    assert refused.error is not None
    assert await runtime.record("r-1") == before
    gate.leave()
    assert (await runtime.resume("r-1", {waiting.pending[0].id: Approve()})).text == "Done."
    gate.enter()
    assert (await runtime.replay("r-1")).text == (await runtime.run("Go.", run_id="r-1")).text == "Done."


async def test_a_full_gate_refuses_at_once_also_a_run_whose_session_is_in_use() -> None:
    go, gate = asyncio.Event(), Gate(1)

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        await go.wait()
        return ModelResponse(assistant("Done."))

    runtime = Runtime(model, gate=gate, store="memory:")
    busy = runtime.start("Go.", session="ann")
    await busy.recorded()
    for session in ("ann", "ben"):
        refused = await runtime.run("Go.", session=session)
        assert (status_of(refused.stop), refused.session, refused.model_calls) == ("Failed", session, 0)
        with pytest.raises(RunNotFound):
            await runtime.record(refused.id)
    go.set()
    assert (await busy.result()).text == "Done."
    assert (await runtime.run("Go.", session="ann")).text == "Done."


@pytest.mark.parametrize("around", ["tool", "layered", "team", "plan"])
async def test_a_gate_holds_inside_other_runs(around: str) -> None:
    inside, most = 0, 0

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        for _ in range(5):
            await asyncio.sleep(0)
        inside -= 1
        return ModelResponse(assistant("done"))

    gate = Gate(2)
    desk = Runtime(model, gate=gate, name="desk", description="Works.")
    desks = [desk, desk, desk]
    if around in {"tool", "layered"}:
        one = desk if around == "tool" else desk.layered(retry(attempts=1))
        calls = [tool_call("desk", input=each) for each in "abc"]
        run = await Agent(ScriptedModel(calls, "End."), tools=[one]).run("Go")
        assert sorted(each == "done" for each in run.observations) == [False, True, True]
    elif around == "team":
        await parallel(*(Runtime(model, gate=gate, name=f"desk{at}") for at, _ in enumerate(desks))).run("Go")
    else:
        tasks = [Task(f"t{at}", prompt="Go", agent=each) for at, each in enumerate(desks)]
        await workflow(Parallel(tasks)).run("Go")
    assert (most, gate.depth) == (2, 0)


class Failing(Middleware):
    """Fails before an agent."""

    async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
        raise ValueError("no")


async def test_a_slot_is_given_back_however_a_run_ends() -> None:
    gate = Gate(1)
    failing = Runtime(ScriptedModel("Hi."), gate=gate, middleware=[Failing()])
    assert (await failing.run("Go.")).error is not None
    assert gate.depth == 0
    cancelled = asyncio.ensure_future(Runtime(ScriptedModel("Hi."), gate=gate).run("Go."))
    for _ in range(3):
        await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    assert gate.depth == 0
    asking = Runtime(
        ScriptedModel(tool_call("greet"), "Done."),
        tools=[greet],
        gate=gate,
        approvals=Approvals("greet"),
        store="memory:",
    )
    waiting = await asking.run("Go.", run_id="r-1")
    assert (status_of(waiting.stop), gate.depth) == ("Suspended", 0)
    run = await asking.resume("r-1", {waiting.pending[0].id: Approve()})
    assert (run.text, gate.depth) == ("Done.", 0)
    assert (await asking.replay("r-1")).text == "Done."


async def test_agents_below_are_a_part_of_the_run() -> None:
    gate = Gate(1)
    below = Agent(ScriptedModel("Yes."), name="below")
    runtime = Runtime(ScriptedModel(tool_call("below", input="Is it?"), "Done."), tools=[below], gate=gate)
    run = await runtime.run("Go.")
    assert (run.text, run.failed_tool_calls, gate.depth) == ("Done.", 0, 0)
    assert (runtime.metrics.runs, runtime.metrics.agents["below"].calls) == (1, 1)


async def test_values_are_shown_once_and_as_they_are_now() -> None:
    values = WorkingMemory(open_memory("memory:"), "ann")
    model = ScriptedModel("One.", "Two.", "Three.")
    agent = Agent(model, middleware=[WorkingValues(values)], store="memory:")
    await values.set("goal", "first", origin="tool", taint=["web"])
    await agent.run("Go.", session="s")
    await values.set("goal", "second")
    await agent.run("Go.", session="s")
    await values.clear()
    await agent.run("Go.", session="s")
    shown = [[each for each in request.messages if each.origin == MEMORY] for request in model.calls]
    assert [[each.text for each in messages] for messages in shown] == [
        [f"{VALUES}\n- goal: first"],
        [f"{VALUES}\n- goal: second"],
        [],
    ]
    assert shown[0][0].taint == ("web",)


async def test_metrics_are_those_of_the_runtime() -> None:
    shared = Metrics()
    script: list[Any] = [tool_call("greet"), "Done."]
    runtimes = [Runtime(ScriptedModel(*script), tools=[greet], metrics=shared, name=name) for name in ("one", "two")]
    for runtime in runtimes:
        await runtime.run("Go.")
    assert (shared.runs, shared.tools["greet"].calls, set(shared.agents)) == (2, 2, {"one", "two"})
    assert shared.tools["greet"].failure_rate == 0
    assert shared.snapshot()["runs"] == 2
    assert 'gen_ai_tool_name="greet"' in shared.prometheus_text()


async def test_quick_has_the_number_of_steps() -> None:
    runtime = Runtime.quick(2, ScriptedModel(*[tool_call("greet")] * 5))
    run: AgentRun[str] = await runtime.run("Go.")
    assert (run.steps, status_of(run.stop)) == (2, "MaxSteps")
    with pytest.raises(ConfigurationError, match="max_steps"):
        Runtime.quick(0, ScriptedModel("Hi."))
    with pytest.raises(ConfigurationError, match="gate"):
        Runtime(ScriptedModel("Hi."), gate=wrong(3))
