"""What is reported has the names, types and values of the conventions, as their package and their pages list them."""

import asyncio
from random import Random
from typing import Any, get_args

import pytest
from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.trace import SpanKind, StatusCode

from tests.observe.collector import Collector
from tests.observe.test_otel import attributes_of, look, random_agent
from tests.samples import pairs
from ziggurat import Agent, Context, ModelRequest, ModelResponse, ModelSettings, Usage
from ziggurat.agents import Environment
from ziggurat.errors import ModelError
from ziggurat.events import Delta, TextDelta
from ziggurat.messages import assistant, tool_call
from ziggurat.observe import Metrics
from ziggurat.observe.conventions import CONVENTIONS, ConventionVersion
from ziggurat.testing import HandClock, ScriptedModel

NAMES: dict[type, str] = {
    str: """
        error.type gen_ai.agent.name gen_ai.conversation.id gen_ai.input.messages gen_ai.operation.name
        gen_ai.output.messages gen_ai.provider.name gen_ai.request.model gen_ai.response.id gen_ai.response.model
        gen_ai.system_instructions gen_ai.tool.call.arguments gen_ai.tool.call.id gen_ai.tool.call.result
        gen_ai.tool.definitions gen_ai.tool.name gen_ai.tool.type
    """,
    int: """
        gen_ai.request.max_tokens gen_ai.request.seed gen_ai.usage.cache_creation.input_tokens
        gen_ai.usage.cache_read.input_tokens gen_ai.usage.cache_write.input_tokens gen_ai.usage.input_tokens
        gen_ai.usage.output_tokens gen_ai.usage.reasoning.output_tokens
    """,
    float: """
        gen_ai.request.temperature gen_ai.request.top_p gen_ai.response.time_to_first_chunk
    """,
    tuple: """
        gen_ai.request.stop_sequences gen_ai.response.finish_reasons
    """,
}
TYPES: dict[str, type] = {name: kind for kind, names in NAMES.items() for name in names.split()}
"""The types of the attributes in the pages of the conventions."""

REQUIRED = {
    "chat": {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model"},
    "invoke_agent": {"gen_ai.operation.name", "gen_ai.agent.name"},
    "execute_tool": {"gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id"},
}
"""The attributes that a span of an operation always has."""

RENAMED = {names.cache_write for names in CONVENTIONS.values()}
PUBLISHED = {
    value
    for module in (gen_ai_attributes, error_attributes)
    for value in vars(module).values()
    if isinstance(value, str)
} | {CONVENTIONS["latest"].cache_write}
"""The names in OpenTelemetry's package, and the one that was renamed since."""


def streaming(clock: HandClock, *, failing: bool = False) -> Any:
    """Return a model whose first delta comes after two seconds and whose reply is complete after five."""

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        await clock.advance(2)
        if ctx.listens(Delta):
            await ctx.emit(Delta(ctx.path, TextDelta("Hel")))
            await clock.advance(3)
            await ctx.emit(Delta(ctx.path, TextDelta("lo.")))
        if failing:
            raise ModelError("gone", transient=False)
        return ModelResponse(assistant("Hello."), "stop")

    return model


@pytest.mark.parametrize("conventions", get_args(ConventionVersion))
async def test_every_attribute_has_a_published_name_and_its_type(
    conventions: ConventionVersion, collector: Collector
) -> None:
    telemetry = collector.telemetry(content=True, conventions=conventions)
    usage = Usage(input=10, output=4, cache_read=3, cache_write=2, reasoning=1, requests=1)
    replies = [
        ModelResponse(assistant(tool_call("look")), "tool_calls", usage, "the-model", "r-1"),
        ModelResponse(assistant("No."), "stop", usage),
    ]
    settings = ModelSettings(temperature=0.5, max_tokens=100, top_p=0.5, seed=1, stop=("end",))
    agent = Agent(
        ScriptedModel(*replies),
        instructions="Be brief.",
        tools=[look],
        middleware=[telemetry],
        settings=settings,
        store="memory:",
    )
    await agent.run("Go.", session="s-1")
    for seed in range(5):
        await random_agent(Random(seed), 2, telemetry).run("Go.")
    await Agent(ScriptedModel(ModelError("gone", transient=False)), middleware=[telemetry]).run("Go.")
    for span in collector.spans:
        attributes = attributes_of(span)
        operation = str(attributes["gen_ai.operation.name"])
        assert REQUIRED[operation] <= set(attributes)
        assert operation in {each.value for each in gen_ai_attributes.GenAiOperationNameValues}
        assert span.kind is SpanKind.INTERNAL
        assert (span.status.status_code is StatusCode.ERROR) == ("error.type" in attributes)
        standard = {name: value for name, value in attributes.items() if not name.startswith("ziggurat.")}
        assert set(standard) <= PUBLISHED
        assert not RENAMED & set(standard) - {CONVENTIONS[conventions].cache_write}
        assert {name: type(value) for name, value in standard.items()} == {name: TYPES[name] for name in standard}
    seen = {name for span in collector.spans for name in attributes_of(span)}
    assert not {name for name in TYPES if name not in seen} - RENAMED - {"gen_ai.response.time_to_first_chunk"}


def test_the_names_of_metrics_are_those_of_the_package() -> None:
    published = {value for name, value in vars(gen_ai_metrics).items() if name.startswith("GEN_AI_")}
    names = CONVENTIONS["1.41"]
    assert {names.model_duration, names.first_chunk, *names.tokens.values()} <= published


@pytest.mark.parametrize(
    ("conventions", "heard", "failing"), pairs(get_args(ConventionVersion), [False, True], [False, True])
)
async def test_the_first_chunk_is_timed_if_somebody_hears_it(
    conventions: ConventionVersion, heard: bool, failing: bool, collector: Collector
) -> None:
    clock = HandClock()
    metrics = Metrics()
    agent = Agent(streaming(clock, failing=failing), middleware=[collector.telemetry(conventions=conventions), metrics])
    pieces: list[object] = []
    environment = Environment(clock=clock)
    await agent.run("Hi.", environment=environment, listeners=[pieces.append] if heard else [])
    (chat,) = [span for span in collector.spans if span.name.startswith("chat")]
    name = CONVENTIONS[conventions].first_chunk
    if not heard:
        assert "gen_ai.response.time_to_first_chunk" not in attributes_of(chat)
        assert (metrics.first_chunks, name in collector.metrics) == ({}, False)
        return
    assert attributes_of(chat)["gen_ai.response.time_to_first_chunk"] == 2
    (point,) = collector.metrics[name].data_points
    (counted,) = metrics.first_chunks.values()
    assert (point.count, point.sum) == (counted.calls, counted.seconds) == (1, 2)
    assert sum(isinstance(piece, Delta) for piece in pieces) == 2


async def test_a_storm_of_cancellations_leaves_no_span_open(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    random = Random(1)
    runs = [
        asyncio.ensure_future(random_agent(Random(seed), 1, collector.telemetry()).run("Go.")) for seed in range(100)
    ]
    while waiting := [run for run in runs if not run.done()]:
        random.choice(waiting).cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*runs, return_exceptions=True)
    assert collector.started == len(collector.spans) > 100
    assert not caplog.records
