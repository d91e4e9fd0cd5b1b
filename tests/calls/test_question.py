"""Questions: asked, answered once, checked at the door, used again; in flows, in tools, at the terminal."""

import re
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from msgspec import Struct
from pydantic import AfterValidator

from tests.calls.test_step import again
from tests.hard_cases.support import ByTurn
from tests.samples import sample
from tests.stores.places import PLACES, new_store, reopened
from tests.wrong import wrong
from ziggurat import Agent, Approve, ConfigurationError, Denied, Deny, ToolCall, tool
from ziggurat.agents import Answer, Environment
from ziggurat.cli.approve import ask_decisions
from ziggurat.errors import AlreadyDecided
from ziggurat.flows import ask, event, flow, gather, sleep, step
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock


class Address(Struct):
    city: str
    number: int


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (bool, True, True),
        (str, "Ur", "Ur"),
        (int, 3, 3),
        (float, 3, 3.0),
        (Literal["a", "b"], "b", "b"),
        (list[int], [1, 2], [1, 2]),
        (Address, {"city": "Ur", "number": 3}, Address("Ur", 3)),
        (tuple[int, str], (1, "a"), (1, "a")),
        (dict[int, str], {1: "a"}, {1: "a"}),
    ],
    ids=["bool", "str", "int", "float", "literal", "list", "struct", "tuple", "numbers as keys"],
)
def test_an_answer_comes_as_the_type_that_was_asked_for(kind: Any, value: object, expected: object) -> None:
    seen: list[object] = []

    @flow(store=InMemoryStore())
    async def asking() -> None:
        seen.append(await ask("What?", kind))

    run = asking.run_sync()
    assert isinstance(run.stop, stops.Suspended)
    (item,) = run.pending
    assert (item.stage, item.reason, item.path) == ("question", "What?", "asking/ask")
    for unfit in (wrong(None), object, {"city": 3}, "c" if kind is not str else 3):
        with pytest.raises(ConfigurationError, match="What"):
            again(asking, run, decisions={item.id: Answer(unfit) if unfit is not object else Approve()})
    assert isinstance(again(asking, run, decisions={item.id: Answer(value)}).stop, stops.Completed)
    assert seen == [expected]


@pytest.mark.parametrize("place", ["by reference", *sample(PLACES, 1)], indirect=True)
async def test_questions_are_answered_without_driving_and_each_once(place: str) -> None:
    made: list[str] = []

    @step
    async def note(what: str) -> str:
        made.append(what)
        return what

    async def trip() -> list[str]:
        where = await ask("Where to?", choices=["Ur", "Uruk"])
        when, who = await gather(ask("When?", int), ask("Who?"))
        return [await note(where), str(when), who]

    store = new_store()
    first = flow(store=store)(trip)
    run = await first.run(run_id="t")
    with pytest.raises(ConfigurationError, match="Uruk"):
        await first.attach("t").decide({run.pending[0].id: Answer("Eridu")})
    run = await first.resume("t", {run.pending[0].id: Answer("Ur")})
    when, who = run.pending
    other = flow(store=store if place == "by reference" else reopened(store))(trip)
    await other.attach("t").decide({when.id: Answer(3)})
    await other.attach("t").decide({when.id: Answer(3)})
    with pytest.raises(AlreadyDecided):
        await other.attach("t").decide({when.id: Answer(4)})
    assert {item.reason for items in (await other.pending()).values() for item in items} == {"Who?"}
    await other.attach("t").decide({who.id: Answer("Ada")})
    assert made == []
    run = await other.resume("t")
    assert (run.output, made) == (["Ur", "3", "Ada"], ["Ur"])
    if place != "by reference":
        assert (await other.replay("t")).output == run.output


async def test_nobody_answers_in_time() -> None:
    clock = HandClock()

    @flow(store=InMemoryStore())
    async def waiting() -> list[str]:
        first = await ask("Ship?", bool, expires=60, default=False)
        try:
            await ask("Sure?", bool, expires=60)
        except Denied as error:
            return [str(first), str(error).partition(":")[0]]
        return []

    environment = Environment(clock=clock)
    run = await waiting.run(run_id="w", environment=environment)
    for _ in range(2):
        assert isinstance((await waiting.resume("w", environment=environment)).stop, stops.Suspended)
        await clock.advance(61)
        run = await waiting.resume("w", environment=environment)
    assert run.output == ["False", "expired"]


def test_a_refused_question_raises_denied() -> None:
    @flow(store=InMemoryStore())
    async def asking() -> str:
        try:
            return await ask("Why?")
        except Denied as error:
            return f"no: {error}"

    run = asking.run_sync()
    assert again(asking, run, decisions={run.pending[0].id: Deny("none of your business")}).output == (
        "no: none of your business"
    )


async def test_a_tool_asks_in_the_middle_of_an_agent() -> None:
    booked: list[str] = []

    @tool
    async def book(city: str) -> str:
        name = await ask(f"In whose name, in {city}?")
        booked.append(name)
        return f"booked for {name}"

    agent = Agent(ByTurn(ToolCall("1", "book", '{"city":"Ur"}'), "Done."), tools=[book], store=InMemoryStore())
    run = await agent.run("Book")
    (item,) = run.pending
    assert (item.reason, item.path) == ("In whose name, in Ur?", "agent/step-1/tool-1:book/ask")
    done = await agent.resume(run.id, {item.id: Answer("Ada")})
    assert (done.text, booked) == ("Done.", ["Ada"])


@pytest.mark.parametrize("wait", [lambda: ask("Why?"), lambda: sleep(days=1), lambda: event("paid", str)])
async def test_nothing_waits_outside_of_a_run_and_in_a_step(wait: Callable[[], Awaitable[Any]]) -> None:
    @step
    async def waiting() -> str:
        return str(await wait())

    @flow
    async def outer() -> str:
        return await waiting()

    with pytest.raises(ConfigurationError, match="outer/waiting"):
        await outer.run()
    with pytest.raises(ConfigurationError, match="here is none"):
        await wait()


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("it is odd")
    return number


@pytest.mark.parametrize("place", sample(["by reference", *PLACES], 1), indirect=True)
@pytest.mark.parametrize(
    ("kind", "unfit", "value", "told"),
    [
        (date, "tomorrow", date(2026, 1, 31), "2026-01-31"),
        (datetime, "soon", datetime(2026, 1, 31, tzinfo=UTC), "date and time"),
        (time, "noon", time(18, 30), "a time"),
        (timedelta, "a day", timedelta(days=1), "a duration"),
        (UUID, "mine", UUID(int=7), "UUID"),
        (Decimal, "much", Decimal("1.50"), "decimal"),
        (str, object(), "a", "JSON"),
        (Annotated[int, AfterValidator(_even)], 3, 4, "it is odd"),  # which no schema can say
    ],
    ids=["date", "datetime", "time", "timedelta", "UUID", "Decimal", "str", "validator"],
)
async def test_an_unfit_answer_leaves_the_question_open(
    place: str, kind: Any, unfit: object, value: object, told: str
) -> None:
    seen: list[object] = []

    async def asking() -> None:
        seen.append(await ask("What?", kind))

    store = new_store()
    run = await flow(store=store)(asking).run(run_id="q")
    (item,) = run.pending
    other = flow(store=store if place == "by reference" else reopened(store))(asking)
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        await other.resume("q", {item.id: Answer(unfit)})
    assert [each.id for each in (await other.pending())["q"]] == [item.id]
    run = await other.resume("q", {item.id: Answer(value)})
    assert (run.stop, seen) == (stops.Completed(), [value])
    await other.attach("q").decide({item.id: Answer(value)})  # in the same way, which is harmless


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"choices": [1, 2]}, "choice 1"),
        ({"answer": int, "choices": ["a"]}, "choice 'a'"),
        ({"choices": []}, "no choices"),
        ({"answer": date, "default": "soon"}, "default"),
        ({"default": object()}, "default"),
    ],
)
def test_choices_and_defaults_are_of_the_type_of_the_answer(arguments: dict[str, Any], told: str) -> None:
    @flow(store=InMemoryStore())
    async def asking() -> str:
        return str(await wrong(ask)("Which?", **arguments))

    with pytest.raises(ConfigurationError, match=re.escape(told)):
        asking.run_sync()


async def test_a_person_at_the_terminal_is_shown_what_fits_and_may_say_yes_or_no() -> None:
    @flow(store=InMemoryStore())
    async def asking() -> tuple[bool, bool, bool, Address]:
        return await ask("Go?", bool), await ask("And?", bool), await ask("Or?", bool), await ask("Where?", Address)

    run = await asking.run()
    typed = iter(["perhaps", "Yes", "n", "true", '{"number": 3}', '{"city": "Ur", "number": 3}'])
    said: list[str] = []
    while run.pending:
        run = await asking.resume(run.id, ask_decisions(asking, run, lambda _: next(typed), said.append))
    assert run.output == (True, False, True, Address("Ur", 3))
    assert said[:2] == ["Go?", "  true or false"]
    assert "city, number" in said[-2]
    assert "city: missing" in said[-1]


async def test_a_person_at_the_terminal_is_asked_until_the_answer_fits() -> None:
    @flow(store=InMemoryStore())
    async def asking() -> list[str]:
        return [str(await ask("How many?", int)), await ask("Which?", choices=["a", "b"]), await ask("Who?")]

    run = await asking.run()
    typed = iter(["many", "3", "c", "b", "Ada", ""])
    said: list[str] = []
    while run.pending:
        run = await asking.resume(run.id, ask_decisions(asking, run, lambda _: next(typed), said.append))
    assert run.output == ["3", "b", "Ada"]
    assert said == [
        "How many?",
        "it is of the type integer, got 'many'",
        "Which?",
        "  one of: a, b",
        "it is one of 'a', 'b', got 'c'",
        "Who?",
    ]
