"""Tests of metrics in memory: they agree with what happened, and Prometheus can read them."""

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.agents.test_usage_by_model import Team
from tests.observe.test_otel import fail, look, random_agent
from tests.samples import amount
from ziggurat import Agent, Approvals, Approve, Budget, ConfigurationError, Event, Usage, tool
from ziggurat.agents import Environment
from ziggurat.events import ModelEnded, ToolEnded
from ziggurat.messages import tool_call
from ziggurat.observe import Metrics
from ziggurat.observe.conventions import BUCKETS
from ziggurat.observe.metrics import CallStatistics
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel


@pytest.mark.parametrize("seed", range(amount(10, 100)))
async def test_they_count_what_happened(seed: int) -> None:
    metrics = Metrics()
    answers = 0
    tools: Counter[tuple[str, bool]] = Counter()

    def listen(event: Event) -> None:
        if isinstance(event, ModelEnded):
            nonlocal answers
            answers += 1
        if isinstance(event, ToolEnded):
            tools[event.call.name, event.result.error is not None] += 1

    run = await random_agent(Random(seed), 2, metrics).run("Go.", listeners=[listen])
    assert metrics.models["scripted"].calls == answers == run.model_calls
    assert sum(each.calls for each in metrics.agents.values()) == 1 + sum(
        each.calls for name, each in metrics.tools.items() if name.startswith("ask")
    )
    counted = {name: (each.calls, each.failures.total()) for name, each in metrics.tools.items()}
    names = {name for name, _ in tools}
    assert counted == {name: (tools[name, False] + tools[name, True], tools[name, True]) for name in names}
    assert (metrics.runs, metrics.running) == (1, 0)


async def test_a_recorded_answer_is_not_counted_again(tmp_path: Path) -> None:
    metrics = Metrics()
    agent = Agent(
        ScriptedModel(tool_call("look"), "Nothing."),
        tools=[look],
        approvals=Approvals("look"),
        middleware=[metrics],
        store=f"sqlite:///{tmp_path}/runs.db",
    )
    run = await agent.run("Go.", run_id="one")
    assert (metrics.runs, metrics.running, metrics.agents["agent"].calls) == (0, 0, 0), "it waits"
    await agent.resume("one", {run.pending[0].id: Approve()})
    await agent.run("Go.", run_id="one")
    await agent.replay("one")
    calls = {
        name: each.calls for named in (metrics.models, metrics.tools, metrics.agents) for name, each in named.items()
    }
    assert calls == {"scripted": 2, "look": 1, "agent": 1}
    assert (metrics.runs, metrics.agents["agent"].steps) == (1, 2)


async def test_durations_are_those_of_the_clock() -> None:
    clock = HandClock()
    metrics = Metrics()

    @tool
    async def work(seconds: float) -> str:
        """Work."""
        await clock.advance(seconds)
        return "done"

    calls = [tool_call("work", id=str(at), seconds=each) for at, each in enumerate((0.01, 0.03, 100.0))]
    agent = Agent(ScriptedModel(*calls, "Done."), tools=[work], middleware=[metrics])
    await agent.run("Go.", environment=Environment(clock=clock))
    statistics = metrics.tools["work"]
    assert statistics.seconds == pytest.approx(100.04)
    assert statistics.mean_seconds == pytest.approx(100.04 / 3)
    assert [at for at, count in enumerate(statistics.buckets) if count] == [0, 2, len(BUCKETS)]


async def test_stops_that_were_not_intended_are_failures() -> None:
    metrics = Metrics()
    agent = Agent(
        ScriptedModel(tool_call("fail"), "No."), tools=[fail], middleware=[metrics], budget=Budget(requests=1)
    )
    await agent.run("Go.")
    assert metrics.agents["agent"].failures == {"LimitExceeded": 1}
    assert metrics.agents["agent"].failure_rate == 1.0
    assert metrics.tools["fail"].failure_rate == 1.0
    assert CallStatistics().failure_rate == CallStatistics().mean_seconds == 0.0


_SAMPLE = re.compile(r'([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\[\\"n])*",?)*)\})? ([0-9.e+-]+)')


async def test_prometheus_can_read_them() -> None:
    metrics = Metrics()
    name = 'odd "name"\\\n'
    usage = Usage(input=7, output=3, requests=1)
    model = ScriptedModel(tool_call("look"), "No.", name=name, usage=usage)
    await Agent(model, tools=[look], middleware=[metrics]).run("Go.")
    families: dict[str, str] = {}
    samples: dict[str, float] = {}
    for line in metrics.prometheus_text().splitlines():
        if line.startswith("# TYPE"):
            _, _, family, kind = line.split()
            assert family not in families
            families[family] = kind
        elif not line.startswith("# HELP"):
            matched = _SAMPLE.fullmatch(line)
            assert matched is not None, line
            assert any(matched[1].startswith(family) for family in families)
            assert f"{matched[1]}{{{matched[2]}}}" not in samples
            samples[f"{matched[1]}{{{matched[2]}}}"] = float(matched[3])
    label = r'gen_ai_request_model="odd \"name\"\\\n"'
    assert samples[f"gen_ai_client_inference_duration_seconds_count{{{label}}}"] == 2
    assert samples[f'gen_ai_client_inference_duration_seconds_bucket{{{label},le="+Inf"}}'] == 2
    assert samples[f"gen_ai_client_inference_usage_input_tokens_total{{{label}}}"] == 14
    assert families["gen_ai_execute_tool_duration_seconds"] == "histogram"
    assert samples["ziggurat_runs_total{None}"] == 1
    assert json.loads(json.dumps(metrics.snapshot()))["tools"]["look"]["calls"] == 1


async def test_each_agent_has_its_own_steps_calls_and_tokens() -> None:
    metrics, used = Metrics(), Usage(input=100, output=10, requests=1)

    def agent(name: str, *script: Any, **options: Any) -> Agent[str]:
        return Agent(ScriptedModel(*script, usage=used, name="m"), name=name, middleware=[metrics], **options)

    below = agent("below", tool_call("look"), "done", tools=[look], description="Helps.")
    await agent("above", tool_call("below", input="?"), "end", tools=[below]).run("Go")
    await agent("above", [tool_call("look"), tool_call("fail")], "end", tools=[look, fail]).run("Go")
    seen = {
        name: (each.calls, each.steps, each.model_calls, each.tool_calls, each.usage["m"].input)
        for name, each in metrics.agents.items()
    }
    assert seen["above"] == (2, 4, 4, 3, 400)
    assert 'ziggurat_agent_steps_total{gen_ai_agent_name="above"} 4' in metrics.prometheus_text()
    assert json.dumps(metrics.snapshot())


@pytest.mark.parametrize("fails", list(product([False, True], repeat=2)))
async def test_their_tokens_are_those_that_the_runs_were_charged(fails: tuple[bool, bool]) -> None:
    store, parts = InMemoryStore(), (Metrics(), Metrics())
    team = Team([("a", fails[0]), ("b", fails[1]), ("a", True)])
    run = await team.agent(store, parts[0]).run("go", run_id="r")
    assert parts[0].usage == run.usage_by_model
    approved = {item.id: Approve() for item in run.pending}
    run = await team.agent(store, parts[1]).resume("r", approved)
    await team.agent(store, parts[1]).replay("r")
    assert {name: parts[0].usage[name] + parts[1].usage[name] for name in "ab"} == run.usage_by_model == team.sums()
    spent = [parts[0].agents["agent1"], parts[1].agents["agent1"]]
    assert sum((each.usage["b"] for each in spent), Usage()) == run.usage_by_model["b"]
    tokens = spent[0].usage["b"].input
    line = f'ziggurat_agent_input_tokens_total{{gen_ai_agent_name="agent1",gen_ai_request_model="b"}} {tokens}'
    assert line in parts[0].prometheus_text().splitlines()


def test_own_metrics_are_in_the_same_text() -> None:
    metrics = Metrics()
    metrics.counter("orders_total", "Orders.").add(2, kind="book")
    metrics.counter("orders_total").add(kind='a"b')
    gauge = metrics.gauge("queue_length")
    gauge.set(5)
    gauge.add(-2)
    sizes = metrics.histogram("order_size", bounds=(1, 10))
    for size in (1, 2, 50):
        sizes.record(size)
    lines = metrics.prometheus_text().splitlines()
    assert lines[lines.index("# HELP orders_total Orders.") :] == [
        "# HELP orders_total Orders.",
        "# TYPE orders_total counter",
        'orders_total{kind="book"} 2',
        'orders_total{kind="a\\"b"} 1',
        "# TYPE queue_length gauge",
        "queue_length 3",
        "# TYPE order_size histogram",
        'order_size_bucket{le="1"} 1',
        'order_size_bucket{le="10"} 2',
        'order_size_bucket{le="+Inf"} 3',
        "order_size_sum 53.0",
        "order_size_count 3",
    ]
    assert metrics.snapshot()["own"]["queue_length"] == [{"labels": {}, "value": 3}]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda metrics: metrics.counter("1st"),
        lambda metrics: metrics.counter("a-b"),
        lambda metrics: metrics.gauge("orders"),
        lambda metrics: metrics.histogram("sizes", bounds=(2, 1)),
        lambda metrics: metrics.counter("orders").add(-1),
        lambda metrics: metrics.counter("orders").add(float("nan")),
        lambda metrics: metrics.counter("orders").add(**{"a-b": "x"}),
    ],
)
def test_wrong_metrics_are_refused(wrong: Callable[[Metrics], object]) -> None:
    metrics = Metrics()
    metrics.counter("orders")
    with pytest.raises(ConfigurationError):
        wrong(metrics)


async def test_an_agent_below_another_one_with_the_same_metrics_counts_once() -> None:
    metrics, used = Metrics(), Usage(input=100, output=10, requests=1)
    below = Agent(ScriptedModel("x", usage=used, name="b"), name="below", middleware=[metrics])
    above = Agent(
        ScriptedModel(tool_call("below", input="?"), "y", usage=used, name="a"), tools=[below], middleware=[metrics]
    )
    run = await above.run("Go")
    assert sum(metrics.usage.values(), Usage()) == run.usage
    assert (metrics.models["b"].calls, metrics.agents["below"].calls, metrics.tools["below"].calls) == (1, 1, 1)
    assert metrics.runs == 1
