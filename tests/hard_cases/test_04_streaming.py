"""Streaming: no text leaks, no tail is lost, no voices mix, nothing locks, and listening changes nothing."""

import asyncio
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.support import Folded, assert_sendable, elsewhere, said, streamed, timeless, turns
from tests.hard_cases.support import written
from tests.samples import sample
from tests.stores.places import new_store
from ziggurat import Agent, AgentRun, Context, Middleware, ModelRequest, ModelResponse, stack, tool
from ziggurat.agents import Environment
from ziggurat.core.path import is_beneath
from ziggurat.events import AgentEnded, Delta, Dropped, ModelEnded, TextDelta, ToolDelta, ToolEnded
from ziggurat.layers import fallback, hedge, retry
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.messages.message import PartDelta
from ziggurat.testing import HandClock, Pause, ScriptedModel, ScriptedReply, assert_no_leaks

SECRET = "sk-12345"


class _Redacting:
    """Holds text back while it might become the secret."""

    def __init__(self) -> None:
        self.held = ""

    def push(self, delta: PartDelta) -> Iterable[PartDelta]:
        if not isinstance(delta, TextDelta):
            rest, self.held = self.held, ""
            return [TextDelta(rest), delta] if rest else [delta]
        self.held = (self.held + delta.text).replace(SECRET, "[redacted]")
        keep = next((n for n in range(len(SECRET), 0, -1) if self.held.endswith(SECRET[:n])), 0)
        shown, self.held = self.held[: len(self.held) - keep], self.held[len(self.held) - keep :]
        return [TextDelta(shown)] if shown else []

    def flush(self) -> Iterable[PartDelta]:
        return [TextDelta(self.held)] if self.held else []

    def reset(self) -> None:
        self.held = ""


class Redact(Middleware):
    """Takes a secret out of what models say."""

    def deltas(self, ctx: Context) -> _Redacting:
        return _Redacting()


class Shouting(Middleware):
    """Changes each piece, and the whole."""

    async def on_model_delta(self, delta: PartDelta, ctx: Context) -> PartDelta | None:
        return TextDelta(delta.text.upper()) if isinstance(delta, TextDelta) else None

    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse:
        return replace(response, message=assistant(*response.message.parts, "!"))


def _chunks(text: str, size: int) -> list[Any]:
    return [text[at : at + size] for at in range(0, len(text), size)]


async def _equal(make: Any, prompt: str = "go") -> tuple[AgentRun, Folded]:
    """Run plain, streamed and overheard; assert that all three are one; return the run and what was heard."""
    plain = await make().run(prompt)
    overheard = Folded()
    other = await make().run(prompt, listeners=[overheard])
    run, heard = await streamed(make(), prompt, buffer=1)
    assert timeless(plain) == timeless(other) == timeless(run)
    assert overheard.messages() == heard.messages()
    assert heard.own("agent/") == said(run)
    assert_sendable(run.messages)
    return run, heard


@pytest.mark.parametrize("size", sample(range(1, 12), 5))
async def test_a_secret_over_the_borders_of_chunks_never_shows_and_the_tail_is_not_lost(size: int) -> None:
    text = f"the key {SECRET} and {SECRET}{SECRET}, almost sk-1234"
    store = new_store()

    def agent() -> Agent:
        return Agent(ScriptedModel(_chunks(text, size)), middleware=[Redact()], store=store)

    run, heard = await _equal(agent)
    assert run.text == "the key [redacted] and [redacted][redacted], almost sk-1234"
    for event in heard.events:
        assert SECRET not in repr(event)
    shown = "".join(event.delta.text for event in heard.events if isinstance(event, Delta))  # type: ignore[union-attr]
    assert shown == run.text
    kept = await written(store)
    assert b"the key" in kept
    assert SECRET.encode() not in kept


async def test_a_secret_is_taken_out_of_a_reply_that_came_whole_too() -> None:
    async def whole(request: ModelRequest, ctx: Context) -> ModelResponse:
        return ModelResponse(assistant(f"the key {SECRET}", tool_call("x")) if len(request.messages) == 1 else
                             assistant(f"{SECRET} was it"))  # fmt: skip

    run, _ = await _equal(lambda: Agent(whole, middleware=[Redact()]))
    assert [message.text for message in said(run)] == ["the key [redacted]", "[redacted] was it"]


async def test_a_secret_that_a_failed_try_began_and_the_next_one_ends_does_not_show_or_stick() -> None:
    def agent() -> Agent:
        model = ScriptedModel([f"x {SECRET[:4]}", ConnectionError("gone")], [f"{SECRET[4:]} is ", SECRET, " well"])
        return Agent(stack(model, retry(attempts=2, base=0.0)), middleware=[Redact()])

    run, heard = await _equal(agent)
    assert run.text == f"{SECRET[4:]} is [redacted] well"
    assert sum(isinstance(event, Dropped) for event in heard.events) == 1


@pytest.mark.parametrize("at", range(5))
async def test_a_retry_in_mid_stream_leaves_one_voice(at: int) -> None:
    words: list[Any] = ["one ", Pause(), "two ", tool_call("look", what="x")]

    def agent() -> Agent:
        broken: ScriptedReply = [*words[:at], ConnectionError("gone"), *words[at:]]
        model = ScriptedModel(broken, broken, words, ["all ", "seen"])
        return Agent(stack(model, retry(attempts=3, base=0.0)), tools=[look])

    async def look(what: str) -> str:
        """Look."""
        return what

    run, heard = await _equal(agent)
    assert [message.text for message in said(run)] == ["one two ", "all seen"]
    assert len([event for event in heard.events if isinstance(event, ModelEnded)]) == 2
    assert run.model_calls == 4  # with the two tries that failed


async def test_what_hooks_change_after_it_was_said_is_said_again() -> None:
    run, heard = await _equal(lambda: Agent(ScriptedModel(["sh", "out"]), middleware=[Shouting()]))
    assert run.text == "SHOUT!"
    assert any(isinstance(event, Dropped) for event in heard.events)


async def test_only_the_voice_of_the_answer_stays_of_several() -> None:
    def fallen() -> Agent:
        first = ScriptedModel(["fir", ConnectionError("gone")], name="a")
        return Agent(fallback(first, ScriptedModel(["sec", "ond"], name="b")))

    run, heard = await _equal(fallen)
    assert run.text == "second"
    assert [path for path in {event.path for event in heard.events if isinstance(event, Delta)} if "alt-2" in path]

    def hedged() -> Agent:
        slow = ScriptedModel(["slow ", *[Pause()] * 20, "never"], name="a")
        return Agent(hedge(slow, ScriptedModel(["quick ", Pause(), "one"], name="b"), delay=0.0))

    run, heard = await _equal(hedged)
    assert run.text == "quick one"
    assert any(isinstance(event, Dropped) and event.path.endswith("alt-1") for event in heard.events)


def _two() -> Agent:
    def helper(name: str) -> Agent:
        @tool
        async def tell() -> Any:
            """Tell piece by piece."""
            for piece in "abc":
                await asyncio.sleep(0)
                yield f"{name}-{piece} "

        words = [each for _ in range(5) for each in (f"{name} ", Pause())]
        model = ScriptedModel([*words[:4], tool_call("tell")], [*words[:3], ConnectionError("gone")], words, name=name)
        return Agent(stack(model, retry(attempts=2, base=0.0)), tools=[tell], name=name)

    return Agent(
        ScriptedModel([tool_call("left", input="go", id="c0"), tool_call("right", input="go", id="c1")], "both"),
        tools=[helper("left"), helper("right")],
    )


async def test_two_agents_in_parallel_do_not_mix() -> None:
    run, heard = await _equal(_two)
    assert run.text == "both"
    for number, name in enumerate(("left", "right"), 1):
        place = f"agent/step-1/tool-{number}:{name}"
        assert [message.text for message in heard.messages(place)] == [f"{name} " * 2, f"{name} " * 5]
        ended = [event for event in heard.events if isinstance(event, AgentEnded) and is_beneath(event.path, place)]
        assert [message.text for message in said(ended[0].run)] == [f"{name} " * 2, f"{name} " * 5]
        told = "".join(event.text for event in heard.events if isinstance(event, ToolDelta) and name in event.path)
        assert told == f"{name}-a {name}-b {name}-c "
        results = [event.result.text for event in heard.events if isinstance(event, ToolEnded) and "tell" in event.path]
        assert told in results
    paths = [event.path for event in heard.events if isinstance(event, Delta)]
    sides = [name for path in paths for name in ("left", "right") if name in path]
    assert sides != sorted(sides)  # they did speak at once


async def test_a_slow_reader_slows_the_run_and_is_charged_to_no_timeout() -> None:
    clock = HandClock()
    produced: list[str] = []
    ahead = 0

    def words() -> Any:
        for number in range(20):
            produced.append(f"{number} ")
            yield f"{number} "

    class Counting:
        async def __call__(self, request: ModelRequest, ctx: Context) -> ModelResponse:
            for word in words():
                await ctx.emit(Delta(ctx.path, TextDelta(word)))
            return ModelResponse(assistant("".join(produced)))

    agent = Agent(Counting(), timeout=5)
    heard: list[str] = []
    async with agent.stream("go", environment=Environment(clock=clock), buffer=3) as events:
        async for event in events:
            await clock.advance(10)  # each single wait is longer than the run may take
            if isinstance(event, Delta) and isinstance(event.delta, TextDelta):
                heard.append(event.delta.text)
                ahead = max(ahead, len(produced) - len(heard))
    went = events.response
    assert went.stop == stops.Completed()
    assert "".join(heard) == went.text
    assert ahead <= 4


async def test_the_time_a_model_takes_is_charged_while_a_reader_reads() -> None:
    agent = Agent(ScriptedModel(["a", Pause(6), "b"]), timeout=5)
    async with agent.stream("go", environment=Environment(clock=HandClock(auto=True)), buffer=1) as events:
        async for _ in events:
            pass
    assert events.response.stop == stops.TimedOut(5)


@pytest.mark.parametrize(("read", "buffer"), sample(product(range(1, 12), [1, 2, 64]), 10))
async def test_a_reader_that_leaves_with_a_full_buffer_while_the_run_emits_in_finally(read: int, buffer: int) -> None:
    cleaned: list[str] = []

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        if request.messages[-1].role == "tool":
            return ModelResponse(assistant("done"))
        try:
            for number in range(10):
                await ctx.emit(Delta(ctx.path, TextDelta(f"{number} ")))
            return ModelResponse(assistant("".join(f"{number} " for number in range(10)), tool_call("busy")))
        finally:
            for _ in range(10):
                await ctx.emit(Delta(ctx.path, TextDelta("late")))
            cleaned.append("model")

    async def busy(ctx: Context) -> str:
        """Be busy."""
        try:
            for _ in range(5):
                await ctx.emit(ToolDelta(ctx.path, "busy", "x"))
                await asyncio.sleep(0)
            return "was busy"
        finally:
            for _ in range(10):
                await ctx.emit(ToolDelta(ctx.path, "busy", "late"))
            cleaned.append("tool")

    store = new_store()
    await Agent(ScriptedModel("done"), store=store).run("go", run_id="before")  # its store is open from here on
    async with assert_no_leaks():
        async with Agent(model, tools=[busy], store=store).stream("go", run_id="r", buffer=buffer) as events:
            for _ in range(read):
                await anext(events)
            await turns(20)  # the run meets the full buffer
        assert len(asyncio.all_tasks()) == 1
    run = await Agent(model, tools=[busy], store=elsewhere(store, "r")).resume("r")
    assert run.text == "done"
    assert_sendable(run.messages)
    assert "model" in cleaned
    assert cleaned.count("tool") in (1, 2)


async def test_many_streams_at_once_keep_to_themselves() -> None:
    async def one(number: int) -> None:
        model = ScriptedModel([f"{number}", *[each for n in range(5) for each in (Pause(), f" {number}.{n}")]])
        run, heard = await streamed(Agent(model), "go", buffer=1 + number % 3)
        assert heard.own("agent/") == said(run)
        assert run.text == f"{number}" + "".join(f" {number}.{n}" for n in range(5))

    await asyncio.gather(*[one(number) for number in range(50)])


async def test_a_run_that_fails_in_mid_stream_drops_what_it_said_and_the_stop_says_why() -> None:
    run, heard = await _equal(lambda: Agent(ScriptedModel(["half", ValueError("broken")])))
    assert run.stop == stops.Failed("broken", "ValueError")
    assert heard.messages() == []
    assert isinstance(heard.events[-1], AgentEnded)
