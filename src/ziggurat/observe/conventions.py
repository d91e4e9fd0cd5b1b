"""The names of spans, attributes and metrics: OpenTelemetry's conventions for generative AI, in one table a version.

The conventions have no release yet, and names change. ``"1.41"`` are the names of the last version that was part of the
general conventions, which most tools know; ``"latest"`` are those of the conventions' own repository, as of late 2026.
What the conventions have no name for begins with ``ziggurat.``.
"""

from typing import Literal

from msgspec import Struct

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
