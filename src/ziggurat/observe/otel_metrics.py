"""The metrics of OpenTelemetry: durations of calls, and tokens."""

from typing import TYPE_CHECKING

from ziggurat.messages.agent import AgentRun
from ziggurat.messages.usage import Usage
from ziggurat.observe.conventions import BUCKETS, Names

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter


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
        """Record the duration of a call, and how it failed if it did."""
        histogram = self._durations.get(labels["gen_ai.operation.name"])
        if histogram is not None:
            histogram.record(seconds, labels if failure is None else {**labels, "error.type": failure})

    def record_first_chunk(self, seconds: float, labels: dict[str, str]) -> None:
        self._first_chunk.record(seconds, labels)

    def count_tokens(self, usage: Usage, labels: dict[str, str]) -> None:
        """Count the tokens of a model call, as far as they are known."""
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
