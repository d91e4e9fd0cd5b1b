"""Snippets of llm-agent-runtime's README that are neither ports nor the subject of a test of a room."""

from pathlib import Path

import pytest

from ziggurat import Agent, ConfigurationError, Toolbox, stack, tool
from ziggurat.agents import Checkpoints, Environment
from ziggurat.core import CLOCK, root
from ziggurat.errors import InvalidArguments
from ziggurat.layers import CircuitBreaker, circuit_breaker, timeout
from ziggurat.memory import AgentMemory
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.messages import tool_call
from ziggurat.plans import Branch, Task, workflow
from ziggurat.runtime import Child, Runtime, Supervisor
from ziggurat.runtime.supervisor import ChildStatistics
from ziggurat.skills import Persona, Personas
from ziggurat.stores import FileStore, InMemoryStore
from ziggurat.teams import TeamResult, debate
from ziggurat.testing import HandClock, ScriptedModel, run_until_idle
from ziggurat.tools import calculator, echo, timestamp


def uppercase(text: str) -> str:
    """Write a text in capitals."""
    return text.upper()


async def test_tools_are_called_by_name_within_a_limit_of_time_and_counted() -> None:
    box = Toolbox([*(stack(tool(each), timeout(seconds=5)) for each in (echo, calculator, timestamp)), uppercase])
    at = HandClock(now=1_774_173_600.0)
    ctx = root("tools").within(CLOCK, at)
    calls = {
        "echo": ({"text": "hello"}, "hello"),
        "calculator": ({"expression": "(2 + 3) * 4"}, "20"),
        "timestamp": ({}, "2026-03-22T10:00:00Z"),
        "uppercase": ({"text": "hello"}, "HELLO"),
    }
    for name, (arguments, expected) in calls.items():
        assert (await box.call(name, arguments, ctx)).text == expected
    with pytest.raises(InvalidArguments):
        await box.call("calculator", {"expression": "1 / 0"}, ctx)
    figures = {name: (each.calls, each.errors, each.mean_seconds) for name, each in box.statistics.items()}
    assert figures == dict.fromkeys(calls, (1, 0, 0.0)) | {"calculator": (2, 1, 0.0)}
    assert set(Runtime("demo", tools=[echo, uppercase]).tools) == {"echo", "uppercase"}


async def test_handlers_may_be_plain_async_or_guarded_by_a_breaker() -> None:
    clock = HandClock()

    def greet() -> str:
        """Greet."""
        return "hello"

    async def fetch() -> dict[str, str]:
        """Fetch."""
        return {"status": "ok"}

    def search(q: str) -> str:
        """Search."""
        raise ConnectionError("down")

    guarded = stack(tool(search), circuit_breaker(breaker=CircuitBreaker(consecutive=1, open_seconds=30)))
    names = ["greet", "fetch", "search", "search", "search", "serach"]
    arguments = [{}, {}, {}, {"q": "x"}, {"q": "x"}, {}]
    calls = [tool_call(name, id=str(at), **arguments[at]) for at, name in enumerate(names)]
    model = ScriptedModel(*calls, "Done.")
    run = await Agent(model, tools=[greet, fetch, guarded]).run("Go", environment=Environment(clock=clock))
    results = [result for message in run.messages for result in message.tool_results]
    assert [result.error for result in results] == [
        *(None, None),
        "invalid_arguments",  # a required field is missing
        *("transient", "transient"),  # a connection that fails, and a circuit that is open
        "not_found",
    ]
    assert [results[at].text for at in (0, 1)] == ["hello", '{"status":"ok"}']


def test_a_persona_is_applied_by_its_name_and_another_one_registered() -> None:
    personas = Personas()
    text = personas.get("coder").apply("implement a search")
    assert text.startswith("[System]: ")
    assert text.endswith("\n[User]: implement a search")
    personas.register(Persona("legal", "a lawyer", "formal", "Be careful.", ("Name the jurisdiction.",)))
    assert "- Name the jurisdiction." in personas.get("legal").text
    with pytest.raises(ConfigurationError, match="nobody"):
        personas.get("nobody")


async def test_a_runtime_remembers_facts_for_an_agent() -> None:
    memory = AgentMemory(LocalMemoryStore(), "ann")
    await memory.semantic.remember("A ferry checks its doors twice, so it is safe", key="ferry_fact")
    await memory.semantic.remember("Tea is hot", key="tea_fact")
    found = await memory.semantic.recall("safe ship engines", limit=3)
    assert [each.record.facts["key"] for each in found] == ["ferry_fact"]


async def test_a_child_that_ends_well_is_not_restarted_on_failure() -> None:
    runs = 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        if runs < 3:
            raise ValueError("not yet")

    child = Child("worker", work, restart="on_failure", max_restarts=3, shutdown=5)
    async with Supervisor([child], strategy="one_for_one", max_restarts=3) as supervisor:
        await run_until_idle()
        figures = supervisor.statistics
        assert (runs, figures.total_restarts, figures.children) == (3, 2, (ChildStatistics("worker", "stopped", 2),))


@pytest.mark.parametrize(("answer", "path"), [("my confidence is high", "publish"), ("I am not sure", "refine")])
async def test_a_workflow_goes_on_as_a_variable_says(answer: str, path: str) -> None:
    model = ScriptedModel(rules=[("Judge", answer)], always="done")
    plan = workflow(
        Task("research", prompt="Sum up {input}"),
        Task("confidence", prompt="Judge {research}"),
        Branch("confidence:high", Task("publish", prompt="Format it"), Task("refine", prompt="Read more")),
        agent=Agent(model),
        name="my-workflow",
    )
    result = (await plan.run("the topic")).output
    assert result.outputs == {"research": "done", "confidence": answer, path: "done"}
    assert result.steps == 3


async def test_debaters_with_equal_scores_tie_after_two_rounds() -> None:
    def debater(name: str, position: str) -> Agent:
        model = ScriptedModel(rules=[("How convincing", "0.5")], always=f"{name}: {position}")
        return Agent(model, name=name, instructions=f"You are for {position}.")

    moderator = Agent(ScriptedModel("Begin with one."), name="moderator")
    team = debate(debater("ann", "one service"), debater("ben", "many services"), moderator=moderator)
    run = await team.run("One service or many?")
    assert (TeamResult.of(run).winner or "tie", run.text) == ("tie", "Begin with one.")
    assert run.model_calls == 2 * (2 + 2) + 1  # arguments and scores of each round, and the moderator


@pytest.mark.parametrize(("every", "keep", "steps"), [(5, 10, [5, 10, 15]), (5, 2, [10, 15]), (10, 5, [10])])
async def test_checkpoints_are_taken_at_an_interval_and_the_oldest_dropped(
    every: int, keep: int, steps: list[int], tmp_path: Path
) -> None:
    for store in (InMemoryStore(), FileStore(tmp_path)):
        calls = [tool_call("uppercase", id=str(at), text="x") for at in range(15)]
        agent = Agent(ScriptedModel(*calls, "Done."), tools=[uppercase], store=store)
        await agent.run("Go", run_id="agent-1")
        points = Checkpoints(agent, every=every, keep=keep)
        assert [point.step for point in await points.list("agent-1")] == steps
        last = await points.latest("agent-1")
        assert last is not None
        assert last.step == steps[-1]
        assert (await points.load(last))[0].text == "Go"
        await store.close()
