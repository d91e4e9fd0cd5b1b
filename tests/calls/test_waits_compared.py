"""A wait is compared with its record: an answer or an event is used only for what was asked or awaited."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.samples import pairs
from tests.stores.places import STORES, new_store
from ziggurat.agents import Answer
from ziggurat.errors import JournalMismatch
from ziggurat.flows import Flow, ask, event, flow

Wait = Callable[[], Awaitable[Any]]

SAME: list[tuple[Wait, Wait, object]] = [
    (lambda: ask("Ship?", bool), lambda: ask("Ship?", bool, default=False, expires=60.0), True),
    (lambda: ask("Ship?", bool, expires=50.0), lambda: ask("Ship?", bool), True),
    (lambda: ask("It is 10:00. Ship?", bool, key="ship"), lambda: ask("It is 11:00. Ship?", bool, key="ship"), True),
    (lambda: event("paid", int, timeout=50.0), lambda: event("paid", int, default=0, timeout=60.0), 7),
]
OTHER: list[tuple[Wait, Wait, object]] = [
    (lambda: ask("Delete staging?", bool), lambda: ask("Delete production?", bool), True),
    (lambda: ask("How many?", bool), lambda: ask("How many?", int), True),
    (lambda: ask("Which?", choices=["a", "b"]), lambda: ask("Which?", choices=["b", "a"]), "a"),
    (lambda: ask("Ship?", bool, key="staging"), lambda: ask("Ship?", bool, key="production"), True),
    (lambda: ask("Ship?", bool), lambda: ask("Ship?", bool, key="ship"), True),
    (lambda: event("billing", str), lambda: event("shipping", str), "Ur"),
    (lambda: event("paid", int), lambda: event("paid", str), 7),
]


def _waiting(wait: Wait) -> Flow[None, list[Any]]:
    @flow(name="waiting", store=new_store())
    async def waiting() -> list[Any]:
        return [await wait(), await ask("Go on?")]

    return waiting


async def _settle(waiting: Flow[None, list[Any]], value: object, *, drive: bool = True) -> None:
    (item,) = (await waiting.resume("r")).pending
    if item.stage == "event":
        await waiting.send("r", item.reason.split("'")[1], value)
    else:
        await waiting.decide("r", {item.id: Answer(value)})
    if drive:
        await waiting.resume("r")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("waits", "settled", "place"), pairs(SAME, [True, False], STORES), indirect=["place"])
async def test_the_same_wait_is_over_with_what_is_on_record(waits: tuple[Wait, Wait, object], settled: bool) -> None:
    before, after, value = waits
    await _waiting(before).run(run_id="r")
    if settled:
        await _settle(_waiting(before), value)
    else:
        (item,) = (await _waiting(before).resume("r")).pending
        assert (await _waiting(after).resume("r")).pending == (item,), "nobody is asked twice"
        await _settle(_waiting(after), value)
    (last,) = (await _waiting(after).resume("r")).pending
    assert (await _waiting(after).resume("r", {last.id: Answer("yes")})).output == [value, "yes"]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("waits", "place"), pairs(OTHER, STORES), indirect=["place"])
async def test_another_wait_is_refused_once_it_is_settled(waits: tuple[Wait, Wait, object]) -> None:
    before, after, value = waits
    await _waiting(before).run(run_id="r")
    await _settle(_waiting(before), value)
    (last,) = (await _waiting(before).resume("r")).pending
    record = await _waiting(before).record("r")
    verbs: list[Wait] = [
        lambda: _waiting(after).resume("r"),
        lambda: _waiting(after).resume("r", {last.id: Answer("yes")}),
        lambda: _waiting(after).replay("r"),
    ]
    for verb in verbs:
        with pytest.raises(JournalMismatch, match="waiting/"):
            await verb()
    assert await _waiting(before).record("r") == record
    assert (await _waiting(before).resume("r", {last.id: Answer("yes")})).output == [value, "yes"]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("waits", "place"), pairs(OTHER, STORES), indirect=["place"])
async def test_another_wait_is_asked_anew_while_nobody_has_decided(waits: tuple[Wait, Wait, object]) -> None:
    before, after, value = waits
    (old,) = (await _waiting(before).run(run_id="r")).pending
    (new,) = (await _waiting(after).resume("r")).pending
    assert new.id != old.id
    assert (await _waiting(after).pending())["r"] == (new,)
    with pytest.raises(JournalMismatch):
        await _waiting(before).replay("r")
    (again,) = (await _waiting(before).resume("r")).pending  # back to the first code
    assert again.call == old.call
    await _settle(_waiting(before), value)
    assert [item.reason for item in (await _waiting(before).resume("r")).pending] == ["Go on?"]


async def test_an_answer_to_a_question_is_not_given_to_another() -> None:
    store = new_store()

    def asking(question: str) -> Flow[None, bool]:
        @flow(name="asking", store=store)
        async def asking() -> bool:
            return await ask(question, bool)

        return asking

    (item,) = (await asking("Delete staging?").run(run_id="r")).pending
    with pytest.raises(JournalMismatch):
        await asking("Delete production?").resume("r", {item.id: Answer(True)})
    (again,) = (await asking("Delete production?").resume("r")).pending
    assert again.id != item.id, "the answer was not recorded"
    assert (await asking("Delete production?").resume("r", {again.id: Answer(False)})).output is False
