"""Compaction in a run: when it happens, its result, its usage, its record, and its limits."""

from typing import Any

import pytest

from tests.agents.compaction.support import compacted, rewrite_request
from tests.agents.support import assert_sendable, elsewhere, texts, timeless
from tests.stores.records import journal_of
from ziggurat import Agent, Budget, ConfigurationError, Context, Event, Message, ToolCall, Usage, stack, user
from ziggurat.agents.compaction.middleware import Trigger
from ziggurat.compaction import (
    Compaction,
    Drop,
    Excerpt,
    Mask,
    Recent,
    Summary,
    at_fraction,
    over_messages,
    over_tokens,
    over_turns,
)
from ziggurat.errors import ContextOverflow
from ziggurat.events import Compacted, Warned
from ziggurat.layers.retry import retry
from ziggurat.messages import assistant, stops, system, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


def search(text: str) -> str:
    """Search."""
    return f"found {text} " * 200


def searching(calls: int, *end: Any, **options: Any) -> ScriptedModel:
    return ScriptedModel(*(tool_call("search", text=f"t{number}") for number in range(calls)), *end, **options)


def compacting(**options: Any) -> Compaction:
    return Compaction(over_messages(6), keep=Recent(messages=2), **options)


def test_the_order_is_system_then_summary_then_recent() -> None:
    model = ScriptedModel("done")
    chat = [system("s"), user("1"), assistant("a"), user("2"), assistant("b"), user("3"), assistant("c")]
    summary = Summary(model=ScriptedModel("in short"))
    Agent(model, middleware=[Compaction(over_turns(3), keep=Recent(turns=2), reduce=summary)]).run_sync(
        "4", history=chat
    )
    assert texts(model.last.messages) == ["s", "[Summary of 4 earlier messages]\nin short", "3", "c", "4"]


def test_results_are_masked_before_anything_is_dropped() -> None:
    run = Agent(
        searching(5, "done"), tools=[search], middleware=[Compaction(over_tokens(1600), keep=Recent(messages=2))]
    ).run_sync("go")
    assert run.past is not None
    assert run.past.rewritings[0].by == "Mask"
    assert [message.role for message in run.messages] == [message.role for message in run.history]
    assert run.observations == tuple(f"found t{number} " * 200 for number in range(5))
    assert len(run.messages[2].tool_results[0].text) < 100


def test_a_long_run_stays_below_the_window() -> None:
    model = searching(60, "done", window=2000)
    run = Agent(model, tools=[search], middleware=[Compaction()], max_steps=99).run_sync("go")
    assert run.stop == stops.Completed()
    assert max(request.messages.size() for request in model.calls) // 4 < 2000
    assert (run.tool_calls, len(run.history)) == (60, 122)
    assert all(texts(request.messages)[0] == "go" for request in model.calls)
    assert run.past is not None
    assert len(run.past.rewritings) < 30  # each makes room for some steps


def test_a_window_can_be_given() -> None:
    model = searching(20, "done")
    Agent(model, tools=[search], middleware=[Compaction(window=2000)]).run_sync("go")
    assert max(request.messages.size() for request in model.calls) // 4 < 2000


def test_what_the_model_has_not_seen_is_left_alone() -> None:
    model = searching(3, "done")
    Agent(model, tools=[search], middleware=[Compaction(over_tokens(20), keep=Recent(messages=1))]).run_sync("go")
    for request in model.calls[1:]:
        assert request.messages[-1].tool_results[0].text.startswith("found")


def test_an_overflow_is_answered_with_less_each_time() -> None:
    model = searching(6, *[ContextOverflow("too long")] * 3, "done")
    compaction = Compaction(keep=Recent(messages=8), reduce=Drop())
    run = Agent(stack(model, retry(attempts=2)), tools=[search], middleware=[compaction]).run_sync("go")
    assert run.text == "done"
    sizes = [request.messages.size() for request in model.calls[6:]]
    assert sizes == sorted(set(sizes), reverse=True)
    assert len(run.history) == 14
    assert_sendable(run.messages)


def test_an_overflow_that_does_not_end_ends_the_run() -> None:
    model = searching(3, *[ContextOverflow("too long")] * 30)
    run = Agent(model, tools=[search], middleware=[Compaction(tries=2, reduce=Drop())]).run_sync("go")
    assert isinstance(run.stop, stops.Failed)
    assert run.stop.kind == "ContextOverflow"
    assert len(model.calls) <= 6
    assert_sendable(run.messages)


def test_a_question_too_long_by_itself_is_a_clear_error() -> None:
    run = Agent(ScriptedModel(always=ContextOverflow("8192 at most")), middleware=[Compaction()]).run_sync("x" * 9000)
    assert run.stop == stops.Failed(
        "the conversation is too long (8192 at most) and cannot be made shorter", "ContextOverflow"
    )


def test_a_result_too_long_by_itself_is_masked() -> None:
    model = searching(1, ContextOverflow("too long"), "done")
    run = Agent(model, tools=[search], middleware=[Compaction()]).run_sync("go")
    assert run.text == "done"
    assert model.last.messages[-1].tool_results[0].text.startswith("[what search returned")


async def test_a_summariser_that_fails_is_passed_over() -> None:
    heard: list[Event] = []
    summary = Summary(model=ScriptedModel(always=ConnectionError("gone")))
    agent = Agent(searching(4, "done"), tools=[search], middleware=[compacting(reduce=[summary, Drop()])])
    run = await agent.run("go", listeners=[heard.append])
    assert run.past is not None
    assert run.past.rewritings[0].by == "Drop"
    assert "Summary failed: ConnectionError: gone" in run.past.rewritings[0].fault
    assert [event.text for event in heard if isinstance(event, Warned)]


def test_when_nothing_helps_the_model_is_asked_as_it_was() -> None:
    summary = Summary(model=ScriptedModel(always=ConnectionError("gone")))
    run = Agent(searching(4, "done"), tools=[search], middleware=[compacting(reduce=summary)]).run_sync("go")
    assert (run.text, run.past) == ("done", None)
    model = searching(1, ContextOverflow("too long"))
    run = Agent(model, tools=[search], middleware=[compacting(reduce=summary)]).run_sync("go")
    assert isinstance(run.stop, stops.Failed)
    assert "too long" in run.stop.error
    assert "gone" in run.stop.error


async def test_it_counts_in_budgets_and_has_a_path_of_its_own() -> None:
    store = InMemoryStore()
    usage = Usage(input=100, output=10, requests=1)
    summariser = ScriptedModel(always="in short", usage=usage)
    agent = Agent(
        searching(4, "done", usage=usage),
        tools=[search],
        middleware=[compacting(reduce=Summary(model=summariser))],
        budget=Budget(requests=50),
        store=store,
    )
    run = await agent.run("go", run_id="r")
    assert len(summariser.calls) == 1
    assert (run.model_calls, run.usage.requests) == (6, 6)
    paths = [entry.path for entry in journal_of(store, "r").entries]
    assert "agent/step-4/rewrite-1/Summary/model" in paths

    class Refusing(ScriptedModel):
        pass

    again = Agent(
        Refusing(always=ConnectionError("never")),
        tools=[search],
        middleware=[compacting(reduce=Summary(model=Refusing(always=ConnectionError("never"))))],
        budget=Budget(requests=50),
        store=elsewhere(store, "r"),
    )
    assert timeless(await again.resume("r")) == timeless(run)


async def test_a_run_that_was_broken_off_goes_on_with_the_same_conversation() -> None:
    store = InMemoryStore()
    summariser = ScriptedModel(always="in short")
    middleware = [compacting(reduce=Summary(model=summariser))]
    model = searching(5, ConnectionError("gone"), "done")
    first = await Agent(model, tools=[search], middleware=middleware, store=store).run("go", run_id="r")
    asked = len(summariser.calls)
    run = await Agent(model, tools=[search], middleware=middleware, store=elsewhere(store, "r")).resume("r")
    assert run.text == "done"
    assert len(summariser.calls) == asked
    assert list(run.messages)[: len(first.messages)] == list(first.messages)
    assert list(run.history)[: len(first.history)] == list(first.history)


async def test_nested_agents_are_compacted_too() -> None:
    heard: list[Event] = []
    inner = Agent(searching(6, "found"), tools=[search], name="inner")
    outer = Agent(ScriptedModel(tool_call("inner", input="x"), "done"), tools=[inner], middleware=[compacting()])
    await outer.run("go", listeners=[heard.append])
    (first, *_) = [event for event in heard if isinstance(event, Compacted)]
    assert first.path == "agent/step-1/tool-1:inner/inner/step-4/rewrite-1"
    assert (first.by, first.start) == ("Mask > Drop", 1)


@pytest.mark.parametrize("tools", [False, True])
@pytest.mark.parametrize("when", [over_messages(10), over_turns(5), over_tokens(100_000) | over_messages(10)])
async def test_reducers_are_applied_until_the_trigger_is_satisfied(tools: bool, when: Trigger) -> None:
    history = [each for n in range(30) for each in (user(f"question {n}, please?"), assistant(f"answer number {n}."))]
    model = searching(20, "done") if tools else ScriptedModel("done")
    agent = Agent(model, tools=[search], max_steps=30, middleware=[Compaction(when)])
    await agent.run("And now?", history=history)
    turns = sum(message.role == "user" and message.origin is None for message in model.last.messages)
    assert turns <= 6
    assert len(model.last.messages) <= 14 or repr(when) == "over_turns(5)"


def test_reducers_may_be_plain_functions() -> None:
    async def shout(excerpt: Excerpt, ctx: Context) -> tuple[Message, ...]:
        return (user("!"),)

    run = Agent(searching(4, "done"), tools=[search], middleware=[compacting(reduce=shout)]).run_sync("go")
    assert run.past is not None
    assert run.past.rewritings[0].by == "shout"


def test_a_reducer_returns_messages() -> None:
    async def shout(excerpt: Excerpt, ctx: Context) -> Any:
        return "!"

    with pytest.raises(ConfigurationError, match=r"shout.*'!'"):
        Agent(searching(4, "done"), tools=[search], middleware=[compacting(reduce=shout)]).run_sync("go")


def test_no_trigger_no_work() -> None:
    run = Agent(searching(4, "done"), tools=[search], middleware=[Compaction(at_fraction(0.5))]).run_sync("go")
    assert run.past is None
    assert run.history is run.messages


ORPHANED = [user("q"), assistant(ToolCall("a", "search"), ToolCall("b", "search")), user("?"), assistant("x" * 999)]


@pytest.mark.parametrize(("orphans", "calls", "results"), [("answer", 2, 2), ("drop", 0, 0), ("keep", 2, 0)])
def test_orphans(orphans: Any, calls: int, results: int) -> None:
    compaction = Compaction(over_messages(1), keep=Recent(messages=1), reduce=Mask(min_tokens=1), orphans=orphans)
    _, messages = compacted(ORPHANED, compaction)
    assert sum(len(message.tool_calls) for message in messages) == calls
    assert sum(len(message.tool_results) for message in messages) == results


def test_orphans_can_be_refused() -> None:
    with pytest.raises(ConfigurationError, match="calls without a result"):
        compacted(ORPHANED, Compaction(over_messages(1), orphans="refuse"))


def test_settings_are_checked() -> None:
    mistakes: dict[str, list[Any]] = {
        "when": [0.8], "reduce": [[], [3]], "keep": [3], "tries": [0], "window": [0], "orphans": ["lose"]
    }  # fmt: skip
    for setting, values in mistakes.items():
        for value in values:
            with pytest.raises(ConfigurationError, match=setting):
                Compaction(**{setting: value})


TALK = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]


def test_a_trigger_is_due() -> None:
    cases: list[tuple[Trigger, int, int | None, bool]] = [
        (at_fraction(0.8), 799, 1000, False),
        (at_fraction(0.8), 800, 1000, True),  # a fraction triggers when it is reached
        (at_fraction(0.8), 10**9, None, False),
        (over_tokens(800), 800, None, False),
        (over_tokens(800), 801, None, True),  # a number triggers when it is exceeded
        (over_turns(3), 0, None, False),
        (over_turns(2), 0, None, True),
        (over_messages(5), 0, None, False),
        (over_messages(4), 0, None, True),
        (over_tokens(800) | over_turns(2), 0, None, True),
        (over_tokens(800) & over_turns(2), 0, None, False),
        (over_tokens(800) & over_turns(2), 801, None, True),
    ]
    for trigger, tokens, window, due in cases:
        assert trigger.due(rewrite_request(TALK, tokens=tokens, window=window)) is due, trigger


def test_limits_are_the_least_of_one_or_the_other_and_the_most_of_both() -> None:
    view = rewrite_request(TALK, window=1000)
    assert at_fraction(0.5).limit(view) == 500
    assert (at_fraction(0.5) | over_tokens(400) | over_turns(1)).limit(view) == 400
    assert (at_fraction(0.5) & over_tokens(400)).limit(view) == 500
    assert over_turns(1).limit(view) is None
    assert at_fraction(0.5).limit(rewrite_request(TALK)) is None


def test_a_trigger_reads_as_it_was_written() -> None:
    assert (
        repr(at_fraction(0.8) | over_tokens(9) & over_turns(3)) == "at_fraction(0.8) | (over_tokens(9) & over_turns(3))"
    )
    assert repr(over_messages(7)) == "over_messages(7)"


def test_numbers_of_triggers_are_checked() -> None:
    for number in (0, -1, True, 1.5):
        for make in (over_tokens, over_turns, over_messages):
            with pytest.raises(ConfigurationError, match="whole number"):
                make(number)  # type: ignore[arg-type]
        if number is not True:
            with pytest.raises(ConfigurationError, match="fraction"):
                at_fraction(number)
