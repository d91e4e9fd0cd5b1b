"""For any script, the folded deltas equal the messages, and listening changes nothing."""

import asyncio
from collections import Counter
from typing import Any

from hypothesis import given, settings, strategies as st

from tests.agents.support import Folded, assert_sendable, elsewhere, said, streamed, timeless, turns
from tests.samples import amount, sample
from ziggurat import Agent, Image, ModelRequest, Usage, stack
from ziggurat.errors import ModelError
from ziggurat.events import ThinkingDelta
from ziggurat.layers.retry import retry
from ziggurat.messages import Thinking, assistant, stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import Pause, ScriptedModel, ScriptedReply, assert_no_leaks

Script = list[list[ScriptedReply]]
"""The replies to the tries of each step; the last one also answers all further tries."""

ATTEMPTS = 3

_names = st.sampled_from(["echo", "slow", "broken", "helper", "unknown"])
_texts = st.text("ab \n", max_size=4)


@st.composite
def _calls(draw: st.DrawFn) -> Any:
    name = draw(_names)
    if name == "helper":
        return tool_call(name, input=draw(st.sampled_from(["x", "y"])))
    return tool_call(name, text=draw(_texts))


_thoughts = st.one_of(
    st.builds(ThinkingDelta, _texts),
    st.builds(ThinkingDelta, _texts, st.sampled_from(["signed", None])),
    st.builds(lambda block: ThinkingDelta(redacted=block), st.sampled_from(["xx", "yy"])),
)
_pieces = st.lists(
    st.one_of(_texts, _thoughts, st.just(Pause()), st.just(Image(b"x")), st.builds(Usage, st.just(3), st.just(2))),
    max_size=5,
)
_transient = st.sampled_from([ConnectionError("gone"), ModelError("busy", transient=True)])
_final = st.sampled_from([ValueError("broken"), ModelError("no")])


@st.composite
def _whole(draw: st.DrawFn, calls: list[Any]) -> ScriptedReply:
    """Draw a reply, whole or in pieces."""
    pieces = [*draw(_pieces), *draw(st.permutations(calls))]
    if draw(st.booleans()) and calls:
        numbered = [tool_call(call.name, id=f"n{at}", **call.parsed()) for at, call in enumerate(calls)]
        return assistant(draw(_texts), Thinking(draw(_texts), "signed"), *numbered)
    return [*pieces, draw(st.text("xyz", min_size=1, max_size=3) | _thoughts)]


@st.composite
def _failing(draw: st.DrawFn) -> ScriptedReply:
    """Draw a reply that fails before, between or after its pieces."""
    pieces: list[Any] = [*draw(_pieces), *draw(st.lists(_calls(), max_size=2))]
    at = draw(st.integers(0, len(pieces)))
    return [*pieces[:at], draw(_transient), *pieces[at:]]


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Draw a script of any length that ends, or fails permanently."""
    script: Script = []
    for _ in range(draw(st.integers(0, 3))):
        tries = draw(st.lists(_failing(), max_size=ATTEMPTS))
        calls = draw(st.lists(_calls(), min_size=1, max_size=3))
        script.append([*tries, draw(_whole(calls))])
    tries = draw(st.lists(_failing(), max_size=ATTEMPTS))
    end: Any = draw(st.one_of(_whole([]), _final, st.builds(lambda error: ["a", error], _final)))
    return [*script, [*tries, end]]


def _model(script: Script) -> ScriptedModel:
    asked: Counter[int] = Counter()

    def reply(request: ModelRequest) -> ScriptedReply:
        step = sum(message.role == "assistant" for message in request.messages)
        asked[step] += 1
        return script[step][min(asked[step], len(script[step])) - 1]

    return ScriptedModel(always=reply)


async def echo(text: str) -> str:
    """Echo."""
    return text


async def slow(text: str) -> str:
    """Echo, after a while."""
    await turns(2)
    return text


async def broken(text: str) -> str:
    """Fail."""
    raise RuntimeError(text)


def _agent(script: Script, store: InMemoryStore | None = None) -> Agent:
    helper = Agent(
        ScriptedModel(always=["nes", Pause(), "ted", ThinkingDelta("hm")]),
        name="helper",
    )
    model = stack(_model(script), retry(attempts=ATTEMPTS, base=0.0))
    return Agent(model, tools=[echo, slow, broken, helper], store=store)


@settings(max_examples=amount(50, 300))
@given(scripts(), st.integers(1, 4))
async def test_streamed_equals_plain_and_what_is_heard_folds_to_what_is_kept(script: Script, buffer: int) -> None:
    plain = await _agent(script).run("go")
    heard = Folded()
    await _agent(script).run("go", listeners=[heard])
    async with assert_no_leaks():
        run, read = await streamed(_agent(script), "go", buffer=buffer)
    assert timeless(plain) == timeless(run)
    assert isinstance(run.stop, (stops.Completed, stops.Failed))
    assert_sendable(run.messages)
    assert read.own("agent/") == said(run)
    assert heard.own("agent/") == said(run)
    if any(message.role == "tool" and message.tool_results[0].name == "helper" for message in run.messages):
        assert "nested" in [message.text for message in read.messages()]
    assert [type(event) for event in read.events][-1].__name__ == "AgentEnded"


@settings(max_examples=amount(8, 50))
@given(scripts(), st.integers(1, 3))
async def test_a_stream_that_is_left_at_any_event_leaks_nothing_and_can_go_on(script: Script, buffer: int) -> None:
    async def left(after: int) -> InMemoryStore:
        store = InMemoryStore()
        async with assert_no_leaks():
            async with _agent(script, store).stream("go", run_id="r", buffer=buffer) as events:
                for _ in range(after):
                    await anext(events)
            assert asyncio.all_tasks() == {asyncio.current_task()}
        return store

    plain, heard = await streamed(_agent(script), "go")
    for after in sample(range(1, len(heard.events)), 4):
        store = elsewhere(await left(after), "r")
        again = Folded()
        run = await _agent(script, store).resume("r", listeners=[again])
        assert_sendable(run.messages)
        assert again.own("agent/") == said(run)
        assert (run.messages, run.stop, run._output) == (plain.messages, plain.stop, plain._output)
