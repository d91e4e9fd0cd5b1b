"""A wait is compared with its record: an answer or an event is used only for what was asked or awaited."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.samples import pairs, rows
from tests.stores.places import STORES, new_store
from ziggurat.agents import Answer
from ziggurat.errors import ConfigurationError, JournalMismatch
from ziggurat.flows import Flow, ask, event, first, flow, gather, quorum

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
        await waiting.attach("r").send(item.reason.split("'")[1], value)
    else:
        await waiting.attach("r").decide({item.id: Answer(value)})
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
@pytest.mark.parametrize(("waits", "place"), rows(OTHER, STORES), indirect=["place"])
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
@pytest.mark.parametrize(("waits", "place"), rows(OTHER, STORES), indirect=["place"])
async def test_another_wait_is_asked_anew_while_nobody_has_decided(waits: tuple[Wait, Wait, object]) -> None:
    before, after, value = waits
    (old,) = (await _waiting(before).run(run_id="r")).pending
    (new,) = (await _waiting(after).resume("r")).pending
    assert new.id != old.id
    assert (await _waiting(after).attach("r").status()).pending == (new,)
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


GROUPS: dict[str, Callable[..., Any]] = {
    "gather": gather,
    "first": first,
    "quorum": lambda *parts: quorum(1, *parts),
    "two of them": lambda *parts: quorum(2, *parts, ask("Third?")),
}


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("waits", "group", "place"), pairs(OTHER, GROUPS, STORES), indirect=["place"])
async def test_a_member_of_a_group_is_compared_wherever_it_stands(waits: tuple[Wait, Wait, object], group: str) -> None:
    before, after, value = waits

    def beside(wait: Wait, *, behind: bool) -> Wait:
        return lambda: GROUPS[group](*((ask("Beside?"), wait()) if behind else (wait(), ask("Beside?"))))

    for behind in (False, True):
        name, at = f"r-{behind}", int(behind)
        old, new = _waiting(beside(before, behind=behind)), _waiting(beside(after, behind=behind))
        other = _waiting(beside(before, behind=not behind))
        item = (await old.run(run_id=name)).pending[at]
        if item.stage == "event":
            await old.attach(name).send(item.reason.split("'")[1], value)
        else:
            await old.attach(name).decide({item.id: Answer(value)})
        run = await old.resume(name)
        record = await old.record(name)
        for changed in (new,) if item.stage == "event" else (new, other):
            with pytest.raises(JournalMismatch, match=r"^waiting/\w+/[12]/"):
                await changed.resume(name)
            assert await old.record(name) == record
        assert (await old.resume(name)).pending == run.pending


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("group", "place"), rows(GROUPS, STORES), indirect=["place"])
async def test_a_wait_that_the_code_does_not_come_to_any_more_is_withdrawn(group: str) -> None:
    old, new = _waiting(lambda: GROUPS[group](ask("A?"), ask("B?"))), _waiting(lambda: event("paid", int))
    gone = (await old.run(run_id="r")).pending
    (item,) = (await new.resume("r")).pending
    assert (await new.attach("r").status()).pending == (item,)
    for each in gone:
        with pytest.raises(ConfigurationError, match="waits for a decision"):
            await new.attach("r").decide({each.id: Answer("yes")})
    assert (await old.resume("r")).pending == gone, "back to the code as it was"
    assert (await old.attach("r").status()).pending == gone
