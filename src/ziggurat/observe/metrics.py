"""Metrics in memory: calls, failures, durations and tokens by model, tool and agent; as text for Prometheus, too."""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from ziggurat.core import errors
from ziggurat.core.context import METERS, Context
from ziggurat.core.service import Service, name_of
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.middleware import CALLER, Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.stops import status_of
from ziggurat.messages.usage import Usage, total_of
from ziggurat.observe.conventions import BUCKETS, CONVENTIONS, FirstChunk

Own = TypeVar("Own", bound="Instrument")

_NAME = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*")


class Instrument:
    """A metric of your own: a value for each combination of labels. Made by `Metrics`.

    Labels should have few different values: a name, but not an id. A label that cannot be one is a ConfigurationError.
    """

    def __init__(self, name: str, help_text: str, kind: str, bounds: tuple[float, ...] = ()) -> None:
        if not _NAME.fullmatch(name):
            raise errors.ConfigurationError(f"{name!r} is no name of a metric: letters, digits (not first), _ and :")
        if list(bounds) != sorted(set(bounds)):
            raise errors.ConfigurationError(f"the bounds of {name!r} must increase")
        self.name = name
        self.help_text = help_text
        self.kind = kind
        self.bounds = bounds
        self.values: dict[tuple[tuple[str, str], ...], float] = {}
        self.buckets: dict[tuple[tuple[str, str], ...], list[int]] = {}

    def lines(self) -> Iterator[str]:
        """Return its lines in Prometheus' text format; none if it has no value."""
        samples = [(dict(key), value) for key, value in self.values.items()]
        buckets = [self.buckets[key] for key in self.values] if self.kind == "histogram" else ()
        return metric_lines(self.name, self.kind, self.help_text, samples, self.bounds, buckets)

    def _key(self, labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        for label in labels:
            if not _NAME.fullmatch(label) or label.startswith("__"):
                raise errors.ConfigurationError(f"{label!r} is not a name of a label")
        return tuple(sorted((label, str(text)) for label, text in labels.items()))


class CounterMetric(Instrument):
    """A number that only grows."""

    def add(self, amount: float = 1, **labels: str) -> None:
        """Add to it; a negative amount is a ConfigurationError."""
        if not amount >= 0:
            raise errors.ConfigurationError(f"the counter {self.name} must not decrease; got {amount!r}")
        key = self._key(labels)
        self.values[key] = self.values.get(key, 0) + amount


class GaugeMetric(Instrument):
    """A number that grows and shrinks."""

    def set(self, value: float, **labels: str) -> None:
        """Set it."""
        self.values[self._key(labels)] = value

    def add(self, amount: float = 1, **labels: str) -> None:
        """Add to it; a negative amount is subtracted."""
        key = self._key(labels)
        self.values[key] = self.values.get(key, 0) + amount


class HistogramMetric(Instrument):
    """How often values up to some bounds occurred."""

    def record(self, value: float, **labels: str) -> None:
        """Count a value."""
        key = self._key(labels)
        self.values[key] = self.values.get(key, 0.0) + value
        buckets = self.buckets.setdefault(key, [0] * (len(self.bounds) + 1))
        buckets[bisect_left(self.bounds, value)] += 1


class Instruments:
    def __init__(self) -> None:
        self._own: dict[str, Instrument] = {}

    def counter(self, name: str, help_text: str = "") -> CounterMetric:
        """Return a counter of your own, made when it is first asked for.

        Raises:
            ConfigurationError: the name cannot be that of a metric, or belongs to one of another kind.
        """
        return self._instrument(CounterMetric(name, help_text, "counter"))

    def gauge(self, name: str, help_text: str = "") -> GaugeMetric:
        """Return a gauge of your own, made when it is first asked for; see `counter`."""
        return self._instrument(GaugeMetric(name, help_text, "gauge"))

    def histogram(self, name: str, help_text: str = "", bounds: Sequence[float] = BUCKETS) -> HistogramMetric:
        """Return a histogram of your own, made when it is first asked for; see `counter`.

        Its `bounds` are the upper ones of its buckets, increasing; by default they are durations in seconds.
        """
        return self._instrument(HistogramMetric(name, help_text, "histogram", tuple(bounds)))

    def _instrument(self, new: Own) -> Own:
        known = self._own.setdefault(new.name, new)
        if not isinstance(known, type(new)) or known.bounds != new.bounds:
            raise errors.ConfigurationError(f"there is a metric {new.name!r} of another kind, {known.kind}")
        return known

    def own_values(self) -> dict[str, list[dict[str, Any]]]:
        return {
            name: [{"labels": dict(key), "value": value} for key, value in each.values.items()]
            for name, each in self._own.items()
        }

    def own_lines(self) -> list[str]:
        return [line for instrument in self._own.values() for line in instrument.lines()]


def metric_lines(
    name: str,
    kind: str,
    help_text: str,
    samples: Sequence[tuple[Mapping[str, str], float]],
    bounds: Sequence[float] = (),
    buckets: Sequence[Sequence[int]] = (),
) -> Iterator[str]:
    """Yield the lines of a metric; none if there are no samples. Those of a histogram are sums, and have buckets.

    >>> print(*metric_lines("failures.total", "counter", "Failed calls.", [({"tool": "look"}, 3)]), sep="\\n")
    # HELP failures_total Failed calls.
    # TYPE failures_total counter
    failures_total{tool="look"} 3
    """
    name = name.replace(".", "_")  # as those of OpenTelemetry are in Prometheus
    if samples and help_text:
        escaped = help_text.replace("\\", "\\\\").replace("\n", "\\n")
        yield f"# HELP {name} {escaped}"
    if samples:
        yield f"# TYPE {name} {kind}"
    for number, (labels, value) in enumerate(samples):
        if kind != "histogram":
            yield _sample(name, labels, value)
            continue
        sums = list(accumulate(buckets[number]))
        for bound, count in zip((*map(str, bounds), "+Inf"), sums, strict=True):
            yield _sample(f"{name}_bucket", {**labels, "le": bound}, count)
        yield _sample(f"{name}_sum", labels, value)
        yield _sample(f"{name}_count", labels, sums[-1])


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    texts = [f'{label}="{_escaped(text)}"' for label, text in labels.items()]
    return f"{name}{{{','.join(texts)}}} {value!r}" if texts else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


Q = TypeVar("Q")
R = TypeVar("R")

_NAMES = CONVENTIONS["latest"]


class CallStatistics(msgspec.Struct):
    """How often something was called, how often it failed, and how long it took.

    Attributes:
        calls: The number of calls that ended, failed ones included.
        seconds: Their durations together.
        failures: The number of failed calls by the kind of failure.
        buckets: The number of calls by duration: up to 10 ms, up to 20 ms and so on, each bound twice the last; at the
            end that of calls longer than 81.92 s.
    """

    calls: int = 0
    seconds: float = 0.0
    failures: Counter[str] = msgspec.field(default_factory=Counter)
    buckets: list[int] = msgspec.field(default_factory=lambda: [0] * (len(BUCKETS) + 1))

    @property
    def mean_seconds(self) -> float:
        """The mean duration of a call in seconds; 0 if there was none."""
        return self.seconds / self.calls if self.calls else 0.0

    @property
    def failure_rate(self) -> float:
        """The share of calls that failed, from 0 to 1; 0 if there was none."""
        return self.failures.total() / self.calls if self.calls else 0.0

    def add(self, seconds: float, failure: str | None) -> None:
        """Count a call, and how it failed if it did."""
        self.calls += 1
        self.seconds += seconds
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        if failure is not None:
            self.failures[failure] += 1


class AgentStatistics(CallStatistics):
    """The calls of an agent, and what it did in them itself, without the agents below it.

    Attributes:
        steps: The steps of the calls that ended.
        model_calls: The model calls that ended, failed ones included.
        tool_calls: The tool calls that ended, failed ones included.
        usage: Tokens by the name of the model, those of failed tries included, as in `AgentRun.usage_by_model`.
    """

    steps: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    usage: dict[str, Usage] = msgspec.field(default_factory=dict)

    @property
    def cost(self) -> Decimal | None:
        """The cost of its model calls in US dollars, by list prices; None if one is unknown, as without ``prices``."""
        return total_of(self.usage)


class _Charged:
    def __init__(self, metrics: "Metrics", statistics: AgentStatistics) -> None:
        self.metrics = metrics
        self._usage = statistics.usage

    def add(self, cost: object, name: str = "", /) -> None:
        if isinstance(cost, Usage):
            _add(self._usage, cost.model or name, cost)


class Metrics(Instruments, Middleware):
    """Counts the calls of the agents that it is given to, and of all agents below them.

    What is answered from a record is not counted again. What waits for a decision is counted when it ends. One instance
    may serve many agents and runs of one event loop.

    ::

        metrics = Metrics()
        agent = Agent(model, tools=[search], middleware=[metrics])
        await agent.run("What is new?")
        print(metrics.tools["search"].failure_rate)
        print(metrics.prometheus_text())

    Attributes:
        models: The statistics of model calls by the name of the model.
        first_chunks: The time to the first chunk of replies that streamed in, because somebody listened, by the name
            of the model.
        tools: Those of tool calls by the name of the tool.
        agents: Those of agents by name, with their steps, calls and tokens; that a limit ended it is a failure, too.
        usage: Those tokens of all agents together.
        runs: The number of runs that ended. An agent below another one is part of its run.
        running: The number of runs in progress.
    """

    def __init__(self) -> None:
        self.models: dict[str, CallStatistics] = {}
        self.first_chunks: dict[str, CallStatistics] = {}
        self.tools: dict[str, CallStatistics] = {}
        self.agents: dict[str, AgentStatistics] = {}
        self.runs: int = 0
        self.running: int = 0
        super().__init__()

    @property
    def usage(self) -> dict[str, Usage]:
        """Tokens by the name of the model, of all agents together."""
        sums: dict[str, Usage] = {}
        for agent in self.agents.values():
            for model, usage in agent.usage.items():
                _add(sums, model, usage)
        return sums

    def _agent(self, ctx: Context) -> AgentStatistics:
        return self.agents.setdefault(ctx.scope[CALLER].agent, AgentStatistics())

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        name = name_of(model)
        first = FirstChunk(ctx)
        agent = self._agent(ctx)
        try:
            return await _timed(self.models.setdefault(name, CallStatistics()), model, request, first.context)
        finally:
            agent.model_calls += 1
            if first.seconds is not None:
                self.first_chunks.setdefault(name, CallStatistics()).add(first.seconds, None)

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        ended = 1
        try:
            return await _timed(self.tools.setdefault(call.name, CallStatistics()), tool, call, ctx)
        except errors.Suspend:
            ended = 0
            raise
        finally:
            self._agent(ctx).tool_calls += ended

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        if ctx.replayed:
            return await agent(request, ctx)
        if ctx.scope[CALLER].outer is not None:
            return await self._agent_call(request, ctx, agent)
        self.running += 1
        ended = 1
        try:
            return await self._agent_call(request, ctx, agent)
        except errors.Suspend:
            ended = 0
            raise
        finally:
            self.running -= 1
            self.runs += ended

    async def _agent_call(
        self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]
    ) -> AgentRun:
        statistics = self._agent(ctx)
        others = [each for each in ctx.scope.get(METERS) or () if getattr(each, "metrics", None) is not self]
        metered = ctx.within(METERS, (*others, _Charged(self, statistics)))
        run = await _timed(statistics, agent, request, metered)
        statistics.steps += run.steps
        return run

    def snapshot(self) -> dict[str, Any]:
        """Return all metrics as plain data, which can be written as JSON."""
        plain: dict[str, Any] = msgspec.to_builtins(
            {
                "models": self.models,
                "first_chunks": self.first_chunks,
                "tools": self.tools,
                "agents": self.agents,
                "usage": self.usage,
                "runs": self.runs,
                "running": self.running,
                "own": self.own_values(),
            }
        )
        return plain

    def prometheus_text(self) -> str:
        """Return all metrics in Prometheus' text format, version 0.0.4, for an endpoint ``/metrics``.

        The names are those that OpenTelemetry's conventions for generative AI get in Prometheus. Labels are names of
        models, tools and agents and kinds of failures, never ids, so that there is a bounded number of them.
        """
        called = (
            (_NAMES.model_duration, "Durations of model calls.", "gen_ai_request_model", self.models),
            (_NAMES.first_chunk, "Times to the first chunk of replies.", "gen_ai_request_model", self.first_chunks),
            (_NAMES.tool_duration, "Durations of tool calls.", "gen_ai_tool_name", self.tools),
            (_NAMES.agent_duration, "Durations of agents.", "gen_ai_agent_name", self.agents),
        )
        lines: list[str] = []

        def add_counter(name: str, what: str, samples: Sequence[tuple[Mapping[str, str], float]]) -> None:
            lines.extend(metric_lines(f"{name}_total", "counter", what, samples))

        for name, what, label, statistics in called:
            samples = [({label: key}, each.seconds) for key, each in statistics.items()]
            buckets = [each.buckets for each in statistics.values()]
            lines += metric_lines(f"{name}_seconds", "histogram", what, samples, BUCKETS, buckets)
        for kind, name in _NAMES.tokens.items():
            tokens = [({"gen_ai_request_model": model}, getattr(usage, kind)) for model, usage in self.usage.items()]
            known = [(labels, count) for labels, count in tokens if count is not None]
            add_counter(name, f"Tokens of model calls: {kind}.", known)
        failures = [
            ({label: key, "error_type": failure}, count)
            for _, _, label, statistics in called
            for key, each in statistics.items()
            for failure, count in each.failures.items()
        ]
        add_counter("ziggurat.failures", "Failed calls of models, tools and agents.", failures)
        add_counter("ziggurat.runs", "Runs that ended.", [({}, self.runs)])
        lines += metric_lines("ziggurat.runs.running", "gauge", "Runs in progress.", [({}, self.running)])
        for own in ("steps", "model_calls", "tool_calls"):
            done = [({"gen_ai_agent_name": name}, getattr(each, own)) for name, each in self.agents.items()]
            add_counter(f"ziggurat.agent.{own}", f"{own.replace('_', ' ').capitalize()} of agents.", done)
        for kind in ("input", "output"):
            spent = [
                ({"gen_ai_agent_name": name, "gen_ai_request_model": model}, getattr(usage, kind) or 0)
                for name, each in self.agents.items()
                for model, usage in each.usage.items()
            ]
            add_counter(f"ziggurat.agent.{kind}_tokens", f"{kind.capitalize()} tokens of agents.", spent)
        lines += self.own_lines()
        return "\n".join(lines) + "\n"


def _add(sums: dict[str, Usage], model: str, usage: Usage) -> None:
    sums[model] = sums.get(model, Usage()) + usage


async def _timed(statistics: CallStatistics, service: Service[Q, R], request: Q, ctx: Context) -> R:
    monotonic = ctx.clock.monotonic
    started = monotonic()
    try:
        answer = await service(request, ctx)
    except errors.Suspend:
        raise
    except BaseException as error:
        statistics.add(monotonic() - started, errors.type_name_of(error))
        raise
    statistics.add(monotonic() - started, _failure_of(answer))
    return answer


def _failure_of(answer: object) -> str | None:
    if isinstance(answer, ToolResult):
        return answer.error
    return status_of(answer.stop) if isinstance(answer, AgentRun) and answer.error is not None else None
