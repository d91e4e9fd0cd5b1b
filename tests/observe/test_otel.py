"""Tests of OpenTelemetry: spans are the tree of calls, whatever happens; names are those of the conventions."""

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import StatusCode

from tests.observe.collector import Collector
from tests.samples import amount
from ziggurat import (
    Agent,
    Approvals,
    Approve,
    Image,
    Middleware,
    ModelResponse,
    Text,
    ToolCall,
    ToolError,
    Usage,
    tool,
    user,
)
from ziggurat.messages import File, Thinking, assistant, tool_call
from ziggurat.middleware import Redaction
from ziggurat.observe.conventions import CONVENTIONS, ConventionVersion
from ziggurat.testing import ScriptedModel


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent_of(span: ReadableSpan, spans: Sequence[ReadableSpan]) -> ReadableSpan | None:
    if span.parent is None:
        return None
    (found,) = [each for each in spans if each.context is not None and each.context.span_id == span.parent.span_id]
    return found


@tool
async def look(place: str = "here") -> str:
    """Look."""
    return f"nothing {place}"


@tool
async def fail() -> str:
    """Fail."""
    raise ToolError("no")


def random_agent(random: Random, depth: int, telemetry: Middleware | None = None) -> Agent:
    """Return an agent that calls tools and agents, some of them together."""
    below = [random_agent(random, depth - 1) for _ in range(random.randint(0, 2))] if depth else []
    members = [agent.as_tool(name=f"ask-{number}") for number, agent in enumerate(below)]
    names = ["look", "fail", *[f"ask-{number}" for number in range(len(below))]]
    replies: list[Any] = []
    for step in range(random.randint(0, 2)):
        chosen = [random.choice(names) for _ in range(random.randint(1, 3))]
        calls = [
            ToolCall(f"{step}-{at}", name, '{"input": "Go."}' if name.startswith("ask") else "{}")
            for at, name in enumerate(chosen)
        ]
        replies.append(ModelResponse(assistant(*calls), "tool_calls"))
    model = ScriptedModel(*replies, "Done.", "Done.", "Done.", "Done.", "Done.")
    middleware = [] if telemetry is None else [telemetry]
    return Agent(model, name=f"agent-{depth}", tools=[look, fail, *members], middleware=middleware)


def outer_path(path: str, paths: set[str]) -> str | None:
    """Return the longest of the paths that enclose a path."""
    while "/" in path:
        path = path.rpartition("/")[0]
        if path in paths:
            return path
    return None


@pytest.mark.parametrize("seed", range(amount(10, 100)))
async def test_the_spans_are_the_tree_of_calls(seed: int, collector: Collector) -> None:
    await random_agent(Random(seed), 2, collector.telemetry()).run("Go.")
    paths = {attributes_of(span)["ziggurat.path"] for span in collector.spans}
    for span in collector.spans:
        outer = parent_of(span, collector.spans)
        kind, path = span.name.split()[0], attributes_of(span)["ziggurat.path"]
        if outer is None:
            assert (kind, outer_path(path, paths)) == ("invoke_agent", None)
        else:
            assert attributes_of(outer)["ziggurat.path"] == outer_path(path, paths)
            assert outer.name.split()[0] == ("execute_tool" if kind == "invoke_agent" else "invoke_agent")
    assert collector.started == len(collector.spans)


async def test_a_replay_makes_no_spans(collector: Collector) -> None:
    agent = random_agent(Random(3), 2, collector.telemetry()).with_store("memory:")
    await agent.run("Go.", run_id="r")
    before = len(collector.spans)
    assert before
    await agent.replay("r")
    assert len(collector.spans) == before


@pytest.mark.parametrize("seed", range(amount(15, 200)))
async def test_a_cancelled_run_ends_every_span(
    seed: int, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    task = asyncio.ensure_future(random_agent(Random(seed), 2, collector.telemetry()).run("Go."))
    for _ in range(Random(seed).randint(2, 60)):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert collector.started == len(collector.spans)
    assert "detach" not in caplog.text


async def test_the_function_of_a_tool_sees_the_span_of_its_call(collector: Collector) -> None:
    tracer = collector.tracers.get_tracer("the user's")

    @tool
    def search() -> str:
        """Search, in a thread."""
        with tracer.start_as_current_span("query"):
            return "nothing"

    agent = Agent(ScriptedModel(tool_call("search"), "No."), tools=[search], middleware=[collector.telemetry()])

    with tracer.start_as_current_span("request"):
        await agent.run("Go.")
    parents = {span.name: outer.name for span in collector.spans if (outer := parent_of(span, collector.spans))}
    assert parents["query"] == "execute_tool search"
    assert parents["invoke_agent agent"] == "request"


async def test_a_failure_is_named_and_a_pause_is_none(collector: Collector, tmp_path: Path) -> None:
    model = ScriptedModel(tool_call("fail"), tool_call("look"), "Nothing.")
    agent = Agent(
        model,
        tools=[fail, look],
        approvals=Approvals("look"),
        middleware=[collector.telemetry()],
        store=f"sqlite:///{tmp_path}/runs.db",
    )
    paused_run = await agent.run("Go.", run_id="one")
    failed, paused = collector.span("execute_tool fail"), collector.span("invoke_agent agent")
    assert (failed.status.status_code, attributes_of(failed)["error.type"]) == (StatusCode.ERROR, "ToolError")
    assert (paused.status.status_code, attributes_of(paused)["ziggurat.suspended"]) == (StatusCode.UNSET, True)
    assert "execute_tool look" not in {span.name for span in collector.spans}
    before = len(collector.spans)

    (item,) = paused_run.pending
    run = await agent.resume("one", {item.id: Approve()})
    assert run.text == "Nothing."
    names = [span.name for span in collector.spans[before:]]
    assert names == ["execute_tool look", "chat scripted", "invoke_agent agent"], "what was recorded makes no span"
    assert {attributes_of(span)["ziggurat.run.id"] for span in collector.spans} == {"one"}


SECRET = 'correct "horse" battery'


async def test_content_is_opt_in_and_masked_as_the_record_is(collector: Collector) -> None:
    @tool
    def unlock(phrase: str) -> dict[str, str]:
        """Unlock."""
        return {"phrase": SECRET}

    async def run(*, content: bool) -> str:
        model = ScriptedModel(tool_call("unlock", phrase=SECRET), f"It is {SECRET}.")
        middleware = [collector.telemetry(content=content), Redaction(SECRET)]
        agent = Agent(model, instructions=f"Never say {SECRET}.", tools=[unlock], middleware=middleware)
        before = len(collector.spans)
        await agent.run(f"Try {SECRET}.")
        return json.dumps([attributes_of(span) for span in collector.spans[before:]])

    assert "Try" not in await run(content=False)
    written = await run(content=True)
    assert "Try" in written
    assert "horse" not in written


async def test_content_has_the_form_of_the_conventions(collector: Collector) -> None:
    reply = assistant(Thinking("Hm."), Text("One moment."), ToolCall("c1", "look", '{"place": "there"}'))
    agent = Agent(
        ScriptedModel(ModelResponse(reply, "tool_calls"), "Nothing."),
        instructions="Be brief.",
        tools=[look],
        middleware=[collector.telemetry(content=True)],
    )
    await agent.run(user("See.", Image(b"1234"), File(url="https://example.org/a.pdf")))
    last = [attributes_of(span) for span in collector.spans if span.name == "chat scripted"][-1]
    assert json.loads(last["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
    question, call, result = json.loads(last["gen_ai.input.messages"])
    picture = {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "MTIzNA=="}
    assert question["parts"][1] == picture
    assert question["parts"][2]["uri"] == "https://example.org/a.pdf"
    assert call["parts"] == [
        {"type": "reasoning", "content": "Hm."},
        {"type": "text", "content": "One moment."},
        {"type": "tool_call", "id": "c1", "name": "look", "arguments": {"place": "there"}},
    ]
    response = {"type": "tool_call_response", "id": "c1", "response": "nothing there"}
    assert result == {"role": "tool", "parts": [response]}
    (answer,) = json.loads(last["gen_ai.output.messages"])
    expected = {"role": "assistant", "parts": [{"type": "text", "content": "Nothing."}], "finish_reason": "stop"}
    assert answer == expected
    (definition,) = json.loads(last["gen_ai.tool.definitions"])
    assert (definition["type"], definition["name"]) == ("function", "look")


@pytest.mark.parametrize("conventions", CONVENTIONS)
async def test_names_are_those_of_the_version(conventions: ConventionVersion, collector: Collector) -> None:
    names = CONVENTIONS[conventions]
    usage = Usage(input=10, output=4, cache_read=3, cache_write=2, reasoning=1, requests=1)
    replies = [
        ModelResponse(assistant(tool_call("look")), "tool_calls", usage),
        ModelResponse(assistant("No."), "stop", usage),
    ]
    model = ScriptedModel(*replies, name="anthropic:claude-opus-4-5")
    agent = Agent(model, tools=[look], middleware=[collector.telemetry(conventions=conventions)])
    await agent.run("Go.")
    assert attributes_of(collector.spans[0])[names.cache_write] == 2
    assert attributes_of(collector.spans[0])["gen_ai.provider.name"] == "anthropic"
    durations = {names.model_duration, names.tool_duration, names.agent_duration}
    counts = {names.agent_model_calls, names.agent_tool_calls}
    assert set(collector.metrics) == {name for name in (durations | counts | set(names.tokens.values())) if name}
    sums = [point for name in set(names.tokens.values()) for point in collector.metrics[name].data_points]
    total = sum(point.sum if hasattr(point, "sum") else point.value for point in sums)
    assert total == 2 * (14 if len(set(names.tokens.values())) == 1 else 20)


async def test_a_receiver_reads_what_is_exported(collector: Collector) -> None:
    received: list[ExportTraceServiceRequest] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(server.serve_forever, 0.01)
        exporter = OTLPSpanExporter(f"http://127.0.0.1:{server.server_port}/v1/traces")
        collector.tracers.add_span_processor(SimpleSpanProcessor(exporter))
        await Agent(ScriptedModel("Hello."), middleware=[collector.telemetry(content=True)]).run("Hi.")
        server.shutdown()
        serving.result()
    scopes = [scope for each in received for resource in each.resource_spans for scope in resource.scope_spans]
    spans = [span for scope in scopes for span in scope.spans]
    assert [span.name for span in spans] == ["chat scripted", "invoke_agent agent"]
    assert spans[0].parent_span_id == spans[1].span_id
