"""OpenTelemetry's conventions for generative AI: the names of a version, and the instruments of its metrics.

The conventions have no release yet, and names change. ``"1.41"`` are the names of the last version that was part of the
general conventions, which most tools know; ``"latest"`` are those of the conventions' own repository, as of late 2026.
What the conventions have no name for begins with ``ziggurat.``.
"""

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from ziggurat.messages.agent import AgentRun
from ziggurat.messages.usage import Usage

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter

ConventionVersion = Literal["latest", "1.41"]
"""A version of the conventions."""

BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The upper bounds of the buckets of durations, in seconds, that the conventions advise."""


class Names(Struct, frozen=True):
    """The names that differ between versions of the conventions."""

    cache_write: str
    model_duration: str
    first_chunk: str
    tokens: dict[str, str]
    agent_duration: str = ""
    agent_model_calls: str = ""
    agent_tool_calls: str = ""
    tool_duration: str = ""


CONVENTIONS: dict[ConventionVersion, Names] = {
    "latest": Names(
        cache_write="gen_ai.usage.cache_write.input_tokens",
        model_duration="gen_ai.client.inference.duration",
        first_chunk="gen_ai.client.inference.time_to_first_chunk",
        tokens={
            "input": "gen_ai.client.inference.usage.input_tokens",
            "output": "gen_ai.client.inference.usage.output_tokens",
            "cache_read": "gen_ai.client.inference.usage.cache_read.input_tokens",
            "cache_write": "gen_ai.client.inference.usage.cache_write.input_tokens",
            "reasoning": "gen_ai.client.inference.usage.reasoning.output_tokens",
        },
        agent_duration="gen_ai.invoke_agent.duration",
        agent_model_calls="gen_ai.invoke_agent.inference_calls",
        agent_tool_calls="gen_ai.invoke_agent.tool_calls",
        tool_duration="gen_ai.execute_tool.duration",
    ),
    "1.41": Names(
        cache_write="gen_ai.usage.cache_creation.input_tokens",
        model_duration="gen_ai.client.operation.duration",
        first_chunk="gen_ai.client.operation.time_to_first_chunk",
        tokens={"input": "gen_ai.client.token.usage", "output": "gen_ai.client.token.usage"},
    ),
}


class Instruments:
    """The instruments of one meter, by the names of one version of the conventions."""

    def __init__(self, meter: "Meter", names: Names) -> None:
        self._durations: dict[str, Histogram] = {
            operation: meter.create_histogram(name, "s", what, explicit_bucket_boundaries_advisory=BUCKETS)
            for operation, name, what in (
                ("chat", names.model_duration, "The duration of a model call."),
                ("execute_tool", names.tool_duration, "The duration of a tool call."),
                ("invoke_agent", names.agent_duration, "The duration of an agent."),
            )
            if name
        }
        self._calls: dict[str, Histogram] = {
            field: meter.create_histogram(name, "{call}", f"The number of {what} of an agent.")
            for field, name, what in (
                ("model_calls", names.agent_model_calls, "model calls"),
                ("tool_calls", names.agent_tool_calls, "tool calls"),
            )
            if name
        }
        self._first_chunk = meter.create_histogram(
            names.first_chunk,
            "s",
            "The time to the first chunk of a reply.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        shared = len(set(names.tokens.values())) == 1
        self._tokens: dict[str, Counter] = {}
        self._token_histogram: Histogram | None = None
        if shared:
            self._token_histogram = meter.create_histogram(names.tokens["input"], "{token}", "Tokens of a model call.")
        else:
            self._tokens = {
                kind: meter.create_counter(name, "{token}", f"Tokens of model calls: {kind}.")
                for kind, name in names.tokens.items()
            }

    def record_duration(self, seconds: float, labels: dict[str, str], failure: str | None) -> None:
        histogram = self._durations.get(labels["gen_ai.operation.name"])
        if histogram is not None:
            histogram.record(seconds, labels if failure is None else {**labels, "error.type": failure})

    def record_first_chunk(self, seconds: float, labels: dict[str, str]) -> None:
        self._first_chunk.record(seconds, labels)

    def count_tokens(self, usage: Usage, labels: dict[str, str]) -> None:
        for kind in ("input", "output") if self._token_histogram is not None else self._tokens:
            count: int | None = getattr(usage, kind)
            if count is None:
                continue
            if self._token_histogram is not None:
                self._token_histogram.record(count, {**labels, "gen_ai.token.type": kind})
            else:
                self._tokens[kind].add(count, labels)

    def count_agent(self, run: AgentRun, labels: dict[str, str]) -> None:
        for field, histogram in self._calls.items():
            histogram.record(getattr(run, field), labels)
