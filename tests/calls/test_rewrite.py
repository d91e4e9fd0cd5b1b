"""Rewriting a conversation during a run: what is asked, kept, recorded and refused."""

from typing import Any

import pytest

from tests.agents.support import assert_sendable, elsewhere, streamed, texts, timeless
from ziggurat import Agent, Context, Message, Middleware, ModelRequest, Text, Usage, stack
from ziggurat.calls.model_call import ask_model
from ziggurat.errors import ContextOverflow, ModelError, ServiceError
from ziggurat.events import Compacted
from ziggurat.layers import retry
from ziggurat.messages import Rewrite, RewriteRequest, stops, tool_call
from ziggurat.messages.overflow import overflow_of
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


def echo(text: str) -> str:
    return text


def note(text: str) -> Message:
    return Message("user", (Text(text),), None, "runtime")


class Shorten(Middleware):
    """Replaces all messages after the first with a note, when its condition holds."""

    def __init__(self, at: int | None = None, overflow: bool = False) -> None:
        self.at = at
        self.overflow = overflow
        self.seen: list[RewriteRequest] = []

    async def rewrite(self, request: RewriteRequest, ctx: Context) -> Rewrite | None:
        self.seen.append(request)
        due = len(request.messages) == self.at or (self.overflow and request.overflow is not None)
        return Rewrite(1, len(request.messages), (note(f"[{len(request.messages) - 1} messages]"),)) if due else None


def script(calls: int = 3) -> ScriptedModel:
    return ScriptedModel(*(tool_call("echo", text=f"t{number}") for number in range(calls)), "done")


def test_a_rewriting_stays_and_history_keeps_what_was_said() -> None:
    model, shorten = script(), Shorten(at=5)
    run = Agent(model, tools=[echo], middleware=[shorten]).run_sync("go")
    assert texts(model.calls[2].messages) == ["go", "[4 messages]"]
    assert texts(model.calls[3].messages) == ["go", "[4 messages]", "", ""]
    assert texts(run.messages) == ["go", "[4 messages]", "", "", "done"]
    plain = Agent(script(), tools=[echo]).run_sync("go")
    assert run.history == plain.messages
    assert (run.text, run.trace(), run.observations) == ("done", plain.trace(), ("t0", "t1", "t2"))
    assert run.past is not None
    (rewriting,) = run.past.rewritings
    assert (rewriting.start, rewriting.end, rewriting.by) == (1, 5, "Shorten")
    assert rewriting.replaced
    assert_sendable(run.messages)


def test_two_rewritings_keep_one_history() -> None:
    class Often(Middleware):
        async def rewrite(self, request: RewriteRequest, ctx: Context) -> Rewrite | None:
            end = len(request.messages) - 2
            return Rewrite(1, end, (note("..."),)) if end >= 5 else None

    run = Agent(script(9), tools=[echo], middleware=[Often()]).run_sync("go")
    assert run.history == Agent(script(9), tools=[echo]).run_sync("go").messages
    assert run.past is not None
    assert len(run.past.rewritings) > 1
    assert len(run.messages) < 9
    assert_sendable(run.messages)


def test_the_next_run_goes_on_with_what_is_left() -> None:
    agent = Agent(ScriptedModel(tool_call("echo", text="a"), "done", "again"), tools=[echo], middleware=[Shorten(at=3)])
    first = agent.run_sync("go")
    second = agent.run_sync("more", history=first.messages)
    assert texts(second.messages) == ["go", "[2 messages]", "done", "more", "again"]
    assert second.start == 4
    assert second.past is None


def test_figures_are_those_of_the_provider_where_there_are_any() -> None:
    shorten = Shorten()
    model = ScriptedModel(
        tool_call("echo", text="x" * 400), "done", usage=Usage(input=1000, output=50, requests=1), window=8000
    )
    Agent(model, tools=[echo], middleware=[shorten], instructions="Be brief. " * 40).run_sync("go")
    first, second = shorten.seen
    assert first.fixed > 100
    assert first.tokens - first.fixed < 20
    assert (first.window, first.turns, first.overflow, first.tries) == (8000, 1, None, 0)
    assert 1050 + 100 <= second.tokens <= 1050 + 120  # the result arrived later


def test_an_overflow_is_answered_by_a_rewriting() -> None:
    model = ScriptedModel(tool_call("echo", text="a"), ContextOverflow("too long"), "done")
    run = Agent(stack(model, retry(attempts=3)), tools=[echo], middleware=[Shorten(overflow=True)]).run_sync("go")
    assert (run.text, run.stop, run.steps) == ("done", stops.Completed(), 2)
    assert texts(model.last.messages) == ["go", "[2 messages]"]
    assert len(run.history) == 4


def test_nobody_who_helps_leaves_the_error() -> None:
    model = ScriptedModel(ContextOverflow("too long"))
    run = Agent(model, middleware=[Shorten()]).run_sync("go")
    assert run.stop == stops.Failed("too long", "ContextOverflow")


def test_a_rewriting_that_makes_nothing_shorter_ends_the_run() -> None:
    class Longer(Middleware):
        async def rewrite(self, request: RewriteRequest, ctx: Context) -> Rewrite | None:
            return Rewrite(0, 0, (note("and more"),)) if request.overflow else None

    run = Agent(ScriptedModel(always=ContextOverflow("too long")), middleware=[Longer()]).run_sync("go")
    assert isinstance(run.stop, stops.Failed)
    assert "made no shorter: too long" in run.stop.error
    assert len(run.messages) == 2


class Summarised(Middleware):
    """Calls a model at its own path."""

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model

    async def rewrite(self, request: RewriteRequest, ctx: Context) -> Rewrite | None:
        if len(request.messages) != 3:
            return None
        answer = await ask_model(self.model, ModelRequest(request.messages), ctx.under("model"))
        return Rewrite(1, 3, (note(answer.text),))


@pytest.mark.parametrize("fails", [False, True])
async def test_a_resumed_run_has_the_same_conversation_and_does_not_ask_again(fails: bool) -> None:
    store = InMemoryStore()
    summariser = ScriptedModel("a summary", usage=Usage(input=7, output=3, requests=1))
    ends: list[Any] = [ConnectionError("gone")] if fails else []
    used = Usage(input=1, output=1, requests=1)
    model = ScriptedModel(tool_call("echo", text="a"), tool_call("echo", text="b"), *ends, "done", usage=used)
    agent = Agent(model, tools=[echo], middleware=[Summarised(summariser)], store=store)
    first = await agent.run("go", run_id="r")
    fresh = elsewhere(store, "r")
    again = Agent(model, tools=[echo], middleware=[Summarised(summariser)], store=fresh)
    second = await again.resume("r")
    assert len(summariser.calls) == 1
    assert texts(second.messages) == ["go", "a summary", "", "", "done"]
    assert (second.usage.requests, second.model_calls) == ((5, 5) if fails else (4, 4))
    assert (second.usage.estimated, second.usage.total > 16) == (fails, fails)
    assert len(second.history) == 6
    if not fails:
        assert timeless(first) == timeless(second)


async def test_an_overflow_on_record_is_not_met_again() -> None:
    store = InMemoryStore()
    model = ScriptedModel(tool_call("echo", text="a"), ContextOverflow("long"), ConnectionError("gone"), "done")
    shorten = Shorten(overflow=True)
    await Agent(model, tools=[echo], middleware=[shorten], store=store).run("go", run_id="r")
    again = Agent(model, tools=[echo], middleware=[shorten], store=elsewhere(store, "r"))
    run = await again.resume("r")
    assert texts(run.messages) == ["go", "[2 messages]", "done"]


async def test_it_is_told_of_and_streamed_alike() -> None:
    plain = await Agent(script(), tools=[echo], middleware=[Shorten(at=5)]).run("go")
    run, heard = await streamed(Agent(script(), tools=[echo], middleware=[Shorten(at=5)]), "go")
    assert timeless(run) == timeless(plain)
    (told,) = [event for event in heard.events if isinstance(event, Compacted)]
    assert told == Compacted("agent/step-3/rewrite-1", "Shorten", 1, 5, 5, 2, False)


def test_it_is_inherited() -> None:
    shorten = Shorten()
    inner = Agent(script(1), tools=[echo], name="inner")
    Agent(ScriptedModel(tool_call("inner", input="x"), "done"), tools=[inner], middleware=[shorten]).run_sync("go")
    assert [texts(request.messages)[0] for request in shorten.seen] == ["go", "x", "x", "go"]


def _chained(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ContextOverflow("x"), "x"),
        (ModelError("This model's maximum context length is 8192 tokens"), "maximum"),
        (ServiceError("code context_length_exceeded"), "context_length"),
        (_chained(ServiceError("all failed"), ContextOverflow("deep")), "deep"),
        (ExceptionGroup("two", [ValueError("a"), ContextOverflow("b")]), "b"),
        (ModelError("token limit per minute", kind="rate_limited"), None),
        (ModelError("reached the maximum context length", kind="server"), None),
        (ValueError("maximum context length"), "maximum"),
        (ValueError("the maximum length"), None),
        (ServiceError("no"), None),
    ],
)
def test_an_overflow_is_known(error: Exception, told: str | None) -> None:
    found = overflow_of(error)
    assert (found is None) if told is None else (found is not None and told in found)


def test_a_rewriting_of_nothing_at_all_is_recorded_and_changes_nothing() -> None:
    class Tried(Middleware):
        async def rewrite(self, request: RewriteRequest, ctx: Context) -> Rewrite | None:
            return Rewrite(fault="the summariser failed")

    run = Agent(script(1), tools=[echo], middleware=[Tried()]).run_sync("go")
    assert run.past is None
    assert len(run.messages) == 4
