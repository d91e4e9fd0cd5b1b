"""Tests of the real demo model, and of a small GGUF file, installed by `make test` or `tests.weights`."""

import asyncio
import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.samples import LONG
from ziggurat import Event, ModelRequest, ModelSettings, user
from ziggurat.core import root
from ziggurat.errors import ContextOverflow, ModelError
from ziggurat.events import Delta, Fold
from ziggurat.messages import ToolSpec, Transcript
from ziggurat.messages.model import OutputSchema
from ziggurat.models.local.demo import EmbeddedModel
from ziggurat.models.local.engine import ChatTemplate, Engine, engine_for
from ziggurat.models.local.minilm import MiniLm, cosine
from ziggurat.models.local.templated import TemplatedModel, text_of
from ziggurat.providers import local

nightly = pytest.mark.skipif(not LONG, reason="takes long: ZIGGURAT_LONG")
pytestmark = [pytest.mark.local, pytest.mark.timeout(900)]  # one slow processor takes its time

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "local_requests.py"
WEATHER = ToolSpec(
    "weather", "Forecast.", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
)
ENDLESS = ModelSettings(max_tokens=400, extra={"ignore_eos": True})


@pytest.fixture(scope="module")
def demo() -> EmbeddedModel:
    return EmbeddedModel()


@pytest.fixture(scope="module")
def model() -> TemplatedModel:
    return local("smollm")


@pytest.fixture(scope="module")
def scores() -> ModuleType:
    spec = importlib.util.spec_from_file_location("local_requests", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _request(text: str, **fields: Any) -> ModelRequest:
    return ModelRequest(Transcript.of(user(text)), **fields)


async def test_arithmetic_from_a_seed(demo: EmbeddedModel, scores: ModuleType) -> None:
    outcomes = await scores.arithmetic(demo, 7)
    wrong = [(question, answer) for question, right, answer in outcomes if not right]
    assert len(outcomes) == 36
    assert len(wrong) <= 3, wrong


@nightly
async def test_requests_over_the_tools_of_eight_domains(demo: EmbeddedModel, scores: ModuleType) -> None:
    counts = await scores.requests(demo, kinds=("development",))
    (right, asked), (declined, none) = counts["development en"], counts["development none"]
    assert (asked, none) == (80, 58)
    assert right >= 52, counts
    assert declined >= 0.85 * none, counts


async def test_what_listeners_hear_is_the_message(model: TemplatedModel) -> None:
    fold, deltas = Fold(), []

    def hear(event: Event) -> None:
        if isinstance(event, Delta):
            fold.push(event.delta)
            deltas.append(event.delta)

    request = _request("Why is the sky blue?", settings=ModelSettings(max_tokens=12))
    heard = await model(request, root().heard_by(hear))
    assert fold.message() == heard.message
    assert len(deltas) > 5
    assert heard.finish == "length"
    assert heard.usage.output == 12
    assert (await model(request, root())).message == heard.message


@nightly
async def test_the_event_loop_is_free_and_slots_run_together(model: TemplatedModel) -> None:
    ticks = 0
    begun: set[str] = set()
    whole: list[str] = []

    async def ask(name: str) -> None:
        body = {"messages": [{"role": "user", "content": name}], "max_tokens": 400, "ignore_eos": True}
        stream: AsyncGenerator[Any, None] = model.engine.stream(body)
        async for _ in stream:
            begun.add(name)
            if len(begun) == 3:
                break
        else:
            whole.append(name)  # before all had begun
        await stream.aclose()

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await asyncio.gather(*(ask(name) for name in ("one", "two", "three")))
    ticking.cancel()
    assert ticks > 50
    assert (begun, whole) == ({"one", "two", "three"}, [])


@nightly
async def test_cancellation_stops_the_generation(model: TemplatedModel) -> None:
    heard = asyncio.Event()

    def hear(event: Event) -> None:
        heard.set()

    tasks = [
        asyncio.create_task(model(_request("Tell me a story.", settings=ENDLESS), root().heard_by(hear)))
        for _ in range(model.engine.slots)
    ]
    await heard.wait()
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in ended)
    # All slots were taken, so a reply that comes shows that they are free again.
    pieces = 0
    async for _ in model.engine.stream({"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 3}):
        pieces += 1
    assert pieces > 0


class Counted(Engine):
    """An engine that counts the tokens that llama.cpp generates, and says when a reply has ended."""

    def load(self) -> Any:
        server = super().load()
        self.tokens = 0
        self.ended = threading.Event()

        def count(body: Any, take: Callable[[Any], bool]) -> Any:
            def counting(chunk: Any) -> bool:
                self.tokens += bool(text_of(chunk)[1])
                return take(chunk)

            try:
                return server.handle_chat_completions(body, counting)
            finally:
                self.ended.set()

        return SimpleNamespace(handle_chat_completions=count)


@nightly
@pytest.mark.parametrize("read", [1, 2, 7])
async def test_leaving_a_stream_stops_it_within_a_token(model: TemplatedModel, read: int) -> None:
    engine = Counted(model.engine.path, slots=1, context=512)
    body = {"messages": [{"role": "user", "content": "One, two,"}], "max_tokens": 400, "ignore_eos": True}
    stream: AsyncGenerator[Any, None] = engine.stream(body)
    seen = 0
    async for chunk in stream:
        seen += bool(text_of(chunk)[1])
        if seen == read:
            break
    await stream.aclose()
    generated = engine.tokens
    await asyncio.to_thread(engine.ended.wait, 600)
    assert engine.tokens - generated <= 1


@nightly
async def test_refusals_are_errors_of_ours(model: TemplatedModel) -> None:
    with pytest.raises(ContextOverflow, match="8192") as failed:
        await model(_request("word " * 9000), root())
    assert not failed.value.transient
    with pytest.raises(ModelError, match=r"refused|failed"):
        await model(_request("Hi", settings=ModelSettings(extra={"messages": "x"})), root())


async def test_structured_output_is_copied_from_the_request(demo: EmbeddedModel) -> None:
    properties = {"people": {"type": "integer"}, "size": {"enum": ["big", "small"]}}
    schema = OutputSchema("city", {"type": "object", "properties": properties, "required": ["people", "size"]})
    reply = await demo(_request("In the big city of Lagos live 15000000 people.", output=schema), root())
    assert json.loads(reply.text) == {"people": 15_000_000, "size": "big"}
    refused = await demo(_request("The sky was grey that day.", output=schema), root())
    assert refused.finish == "refusal"


@nightly
async def test_any_gguf_file_calls_tools_under_their_schemas(model: TemplatedModel) -> None:
    settings = ModelSettings(tool_choice="required", max_tokens=60)
    reply = await model(_request("Rain in Paris?", tools=(WEATHER,), settings=settings), root())
    assert reply.tool_calls[0].name == "weather"
    assert isinstance(reply.tool_calls[0].parsed()["city"], str)


@nightly
async def test_what_the_template_of_a_file_can_express(model: TemplatedModel) -> None:
    assert await model.engine.template() == ChatTemplate(system=True, tools=False, calls=False, thinking="never")


@nightly
async def test_the_prefix_of_a_conversation_is_read_once(model: TemplatedModel) -> None:
    settings = ModelSettings(max_tokens=4)
    messages, known = [user("The stock has these colours: red, green, blue, white, black. " * 4)], 0
    for question in ("Which is the first?", "Which is the last?", "How many are there?"):
        messages.append(user(question))
        reply = await model(ModelRequest(Transcript.of(*messages), settings=settings), root())
        assert reply.usage.cache_read is not None
        assert reply.usage.cache_read >= known - 16  # the end of the last prompt may be another
        assert reply.usage.input is not None
        known = reply.usage.input
        messages.append(reply.message)
    assert known > 80


def test_a_broken_gguf_file_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(ModelError, match=r"cannot load .*broken\.gguf"):
        engine_for(tmp_path / "broken.gguf").load()


@nightly
def test_no_port_is_opened() -> None:
    code = (
        "import os, sys\n"
        "from ziggurat.models.local.templated import local\n"
        "server = local('smollm').engine.load()\n"
        "links = [f'/proc/self/fd/{fd}' for fd in os.listdir('/proc/self/fd')]\n"
        "inodes = {os.readlink(link) for link in links if os.path.islink(link)}\n"
        "rows = [line.split() for name in ('tcp', 'tcp6') for line in list(open(f'/proc/self/net/{name}'))[1:]]\n"
        "mine = [row for row in rows if row[3] == '0A' and f'socket:[{row[9]}]' in inodes]\n"
        "sys.exit(len(mine))\n"
    )
    if not Path("/proc/self/net/tcp").exists():
        pytest.skip("only Linux tells which sockets a process listens on")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_the_embedder() -> None:
    near, same, far = MiniLm().embed_now(["A cat sits.", "A kitten is sitting.", "Shares fell sharply."])
    assert len(near) == 384
    assert sum(value * value for value in near) == pytest.approx(1.0, abs=1e-5)
    assert cosine(near, same) > 0.6 > cosine(near, far)
