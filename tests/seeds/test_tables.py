"""Tables of llm-agent-runtime's README, row by row, where the rooms have no test of all rows together."""

from collections.abc import Callable
from typing import Any

import pytest

from ziggurat import Agent, Approvals, Deny, Toolbox, Usage, stack, tool
from ziggurat.agents import Environment
from ziggurat.errors import InvalidArguments, ToolError
from ziggurat.memory import AgentMemory
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.models import react
from ziggurat.observe import Metrics
from ziggurat.skills import Personas
from ziggurat.testing import HandClock, ScriptedModel
from ziggurat.tools.permissions import PERMISSIONS

TEXTS = (
    'Thought: first\nAction: half {"n": 3}',
    'Thought: again\nAction: half {"n": 4}',
    "Thought: now\nAction: FINAL_ANSWER It is 2",
)
SESSION = {
    "steps": 3,
    "has_final_answer": True,
    "text": "It is 2",
    "failed_tool_calls": 1,
    "thoughts": ("first", "again", "now"),
    "actions": ('half {"n": 3}', 'half {"n": 4}'),
    "most_common_action": 'half {"n": 3}',
    "seconds": 6.0,
}


def _agent(metrics: Metrics, clock: HandClock) -> tuple[Agent, Environment]:
    async def half(n: int) -> int:
        """Halve an even number."""
        await clock.advance(3)
        if n % 2:
            raise ToolError("it is odd")
        return n // 2

    model = ScriptedModel(*TEXTS, usage=Usage(input=100, output=10, requests=1), name="m")
    return Agent(stack(model, react()), tools=[half], middleware=[metrics]), Environment(clock=clock)


async def test_a_session_has_these_views() -> None:
    agent, environment = _agent(Metrics(), HandClock())
    run = await agent.run("Halve", environment=environment)
    assert {name: getattr(run, name) for name in SESSION} == SESSION
    assert [each.text for message in run.messages for each in message.tool_results] == list(run.observations)
    assert run.observations[1] == "2"
    assert run.step_at(1) == run.trace()[1]


FIGURES: dict[str, tuple[Callable[[Metrics], Any], Any]] = {
    "total_steps": (lambda metrics: sum(each.steps for each in metrics.agents.values()), 3),
    "total_sessions": (lambda metrics: metrics.runs, 1),
    "top_called_tool": (lambda metrics: max(metrics.tools, key=lambda name: metrics.tools[name].calls), "half"),
    "avg_step_latency_ms": (lambda metrics: metrics.agents["agent"].seconds / metrics.agents["agent"].steps, 2.0),
    "failure_rate_for": (lambda metrics: metrics.tools["half"].failure_rate, 0.5),
    "tool_calls_per_session": (lambda metrics: sum(each.calls for each in metrics.tools.values()) / metrics.runs, 2),
    "tool_call_count": (lambda metrics: metrics.tools["half"].calls, 2),
    "tool_failure_count": (lambda metrics: metrics.tools["half"].failures.total(), 1),
    "to_json": (lambda metrics: metrics.snapshot()["tools"]["half"]["calls"], 2),
    "agent total_steps": (lambda metrics: metrics.agents["agent"].steps, 3),
    "agent total_tokens_in": (lambda metrics: metrics.agents["agent"].usage["m"].input, 300),
    "agent total_tokens_out": (lambda metrics: metrics.agents["agent"].usage["m"].output, 30),
    "agent tool_calls_made": (lambda metrics: metrics.agents["agent"].tool_calls, 2),
    "agents tracked": (lambda metrics: len(metrics.agents), 1),
}


async def test_figures_of_a_runtime_and_of_each_agent() -> None:
    metrics = Metrics()
    agent, environment = _agent(metrics, HandClock())
    await agent.run("Halve", environment=environment)
    assert {name: figure(metrics) for name, (figure, _) in FIGURES.items()} == {
        name: value for name, (_, value) in FIGURES.items()
    }


PREDEFINED = {
    "agent_inferences_total": 'ziggurat_agent_model_calls_total{gen_ai_agent_name="agent"} 3',
    "agent_inference_latency_ms": 'gen_ai_client_inference_duration_seconds_count{gen_ai_request_model="m"} 3',
    "agent_tool_calls_total": 'ziggurat_agent_tool_calls_total{gen_ai_agent_name="agent"} 2',
    "agent_errors_total": 'ziggurat_failures_total{gen_ai_tool_name="half",error_type="ToolError"} 1',
    "agent_memory_entries": "agent_memory_entries 1",
}


async def test_predefined_metrics_are_in_the_text_under_these_names() -> None:
    metrics = Metrics()
    agent, environment = _agent(metrics, HandClock())
    await agent.run("Halve", environment=environment)
    memory = AgentMemory(LocalMemoryStore(), "ann")
    await memory.remember("Tea is hot.")
    metrics.gauge("agent_memory_entries").set(await memory.store.count(owner="ann"))
    lines = metrics.prometheus_text().splitlines()
    assert [name for name, line in PREDEFINED.items() if line not in lines] == []


HINTS = {"string": str, "number": float, "boolean": bool, "array": list[Any], "object": dict[str, Any], "any": Any}
VALUES = {"string": "x", "number": 1.5, "boolean": True, "array": [1], "object": {"a": 1}, "null": None}


@pytest.mark.parametrize("hint", HINTS)
async def test_a_hint_of_a_type_accepts_its_values_only(hint: str) -> None:
    @tool
    def take(query: HINTS[hint]) -> str:  # type: ignore[valid-type]
        """Take."""
        return "taken"

    box = Toolbox([take])
    for name, value in VALUES.items():
        # A single value is a list of one; all else is as it is there.
        if name == hint or hint == "any" or (hint == "array" and value is not None):
            assert (await box.call("take", {"query": value})).text == "taken"
            continue
        with pytest.raises(InvalidArguments, match="query"):
            await box.call("take", {"query": value})


async def test_calls_are_validated_in_this_order() -> None:
    def search(query: str, limit: float = 10) -> str:
        """Search."""
        return query

    box = Toolbox([search])
    assert (await box.call("search", {"query": "rust async", "limit": 10})).text == "rust async"
    with pytest.raises(ToolError, match="find"):
        await box.call("find", {})
    with pytest.raises(InvalidArguments, match="query") as missing:
        await box.call("search", {"limit": "many"})
    assert "limit" in str(missing.value)  # all problems at once
    with pytest.raises(InvalidArguments, match="offset"):
        await box.call("search", {"query": "x", "offset": 1})


@pytest.mark.parametrize(
    ("name", "tone"),
    [
        ("assistant", "casual"),
        ("researcher", "formal"),
        ("coder", "technical"),
        ("critic", "concise"),
        ("teacher", "casual"),
    ],
)
def test_a_persona_is_built_in(name: str, tone: str) -> None:
    assert Personas().get(name).tone == tone


def test_permissions_have_these_labels() -> None:
    assert {
        *("file_read", "file_write", "network", "database_read", "database_write", "shell_exec", "secret_access")
    } == PERMISSIONS


async def test_observations_are_classified_for_a_model_that_reads_text() -> None:
    async def work(kind: str) -> str:
        """Work."""
        if kind == "none":
            return "done"
        raise ConnectionError("down") if kind == "transient" else ValueError("wrong")

    def forbidden() -> str:
        """Do what nobody may."""
        return "never"

    kinds = ["none", "transient", "permanent"]
    actions = [*(f'work {{"kind": "{kind}"}}' for kind in kinds), "wrok {}", "forbidden {}"]
    model = ScriptedModel(*(f"Thought: go\nAction: {action}" for action in actions), "Action: FINAL_ANSWER x")
    approvals = Approvals("forbidden", approver=lambda item: Deny("no"))
    agent = Agent(stack(model, react()), tools=[work, forbidden], approvals=approvals)
    await agent.run("Go")
    said = model.calls[-1].messages[-1].text
    for kind in (*kinds[1:], "not_found", "denied"):
        assert f'"kind":"{kind}"' in said
    assert '{"ok":true,"data":"done"}' in said
