"""Sending to a run costs the same however long the run is, and a run that is not driven stays due for what was sent."""

import asyncio
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import PLACES, QUEUES, Place, opening, stores
from ziggurat import Agent, ConfigurationError, tool
from ziggurat.agents import Answer, runs_of
from ziggurat.core.event import warn_once
from ziggurat.flows import Flow, ask, event, first, flow, gather, send, sleep, step
from ziggurat.journal import Row, Store
from ziggurat.messages import tool_call
from ziggurat.middleware import Redaction
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

PLACES_AND_HERE = ["by reference", *PLACES]


class CountingLogs(InMemoryStore):
    """Counts the rows that are read."""

    count = 0

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        rows = await super().read(log, after, limit)
        self.count += len(rows)
        return rows


def test_to_send_reads_as_much_of_a_long_run_as_of_a_short_one() -> None:
    @step
    async def note(number: int) -> int:
        return number

    async def rows_read(steps: int) -> int:
        store = CountingLogs()

        @flow(store=store)
        async def waiting() -> None:
            for number in range(steps):
                await note(number)
            await gather(event("paid", int), event("packed", str))

        await waiting.run(run_id="r")
        store.count = 0
        assert await waiting.send("r", "paid", 1)
        assert await waiting.send("r", "unknown", "x")
        with pytest.raises(ConfigurationError, match="does not fit"):
            await waiting.send("r", "packed", 1)
        return store.count

    assert asyncio.run(rows_read(2)) == asyncio.run(rows_read(500))


@pytest.mark.parametrize("new_store", sample(["by reference", *QUEUES], 2), indirect=True)
async def test_a_run_stays_due_for_what_was_sent_when_a_part_of_it_is_decided(new_store: Place) -> None:
    def order() -> Flow[None, str]:
        @flow(name="order", store=new_store())
        async def order() -> str:
            agreed, signed, total = await gather(ask("Agreed?", bool), ask("Signed?", bool), event("paid", int))
            return f"{agreed} {signed} {total}"

        return order

    run = await order().run(run_id="r")
    agreed, signed = (item for item in run.pending if item.stage == "question")
    await order().send("r", "paid", 30)
    await order().decide("r", {agreed.id: Answer(True)})
    recovered = (await order().recover()).runs
    assert [item.id for item in recovered["r"].pending] == [signed.id], "the event was taken"
    assert not (await order().recover()).runs
    await order().decide("r", {signed.id: Answer(False)})
    assert (await order().recover()).runs["r"].output == "True False 30"


@pytest.mark.parametrize(
    ("waited", "sent", "warned"),
    [("paid", "payed", True), ("paid", "paid", False), ("paid", "shipped", False), ("day-1", "day-2", False)],
)
async def test_an_event_with_nearly_the_name_that_is_waited_for_is_warned_of(
    waited: str, sent: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()

    @flow(store="memory:")
    async def order() -> int:
        return await event(waited, int)

    await order.run(run_id="r")
    assert await order.send("r", sent, 1)
    assert await order.send("r", sent, 1)
    assert [waited in record.message for record in caplog.records] == [True] * warned


@pytest.mark.parametrize("nested", [False, True])
async def test_what_lost_in_a_group_waits_no_more(nested: bool) -> None:
    store = InMemoryStore()

    async def cancelled() -> Any:
        return await (gather(event("cancelled", int), sleep(days=1)) if nested else event("cancelled", int))

    @flow(store=store)
    async def order() -> str:
        paid = await first(event("paid", int), cancelled())
        return f"{paid} {await ask('Pack it?')}"

    run = await order.run(run_id="r")
    assert len(run.pending) == 2 + nested
    await order.send("r", "paid", 30)
    run = await order.resume("r")
    assert [item.stage for item in run.pending] == ["question"]
    assert (await order.pending())["r"] == run.pending
    ended = (await runs_of(store).read("r")).ended
    assert ended is not None
    assert (ended.due, len(ended.waits or ())) == (None, 1)
    assert await order.send("r", "cancelled", "no number"), "nothing waits for it that it could not fit"
    await order.decide("r", {run.pending[0].id: Answer("yes")})
    assert (await order.resume("r")).output == "30 yes"


@pytest.mark.parametrize("kind", sample(PLACES_AND_HERE, 2))
@pytest.mark.parametrize("verb", ["inject", "redirect"])
def test_messages_are_stored_as_they_may_be_recorded(verb: str, kind: str, tmp_path: Path) -> None:
    @tool(approval=True)
    async def pay(to: str) -> str:
        return "paid"

    async def check(store: Store) -> None:
        model = ScriptedModel(tool_call("pay", to="bob"), "done")
        agent = Agent(model, tools=[pay], middleware=[Redaction("hunter2x")], store=store)
        await agent.run("go", run_id="r")
        attached = agent.attach("r")
        await (attached.inject if verb == "inject" else attached.redirect)("it is hunter2x")
        assert [b"it is [REDACTED]" in item.data for item in await runs_of(store).inbox("r")] == [True]

    with opening(kind, tmp_path) as place:
        asyncio.run(check(place()))


@pytest.mark.parametrize("kind", PLACES)
async def test_names_and_keys_are_told_apart_in_every_store(kind: str, tmp_path: Path) -> None:
    texts = ["a", "b", "a b", "b c", "c", "\0", "\n", "k" * 5_000, "".join(map(chr, range(32, 4_000)))]
    async with stores(kind, tmp_path, 1) as (store,):

        @flow(store=store)
        async def waiting() -> None:
            await event("never")

        await waiting.run(run_id="r")
        for name, key in sample(product(texts, texts), 40):
            assert [await send("r", name, key=key, store=store) for _ in range(2)] == [True, False], (name, key)


async def test_half_a_surrogate_pair_is_refused_where_it_is_sent() -> None:
    store = InMemoryStore()

    @flow(store=store)
    async def waiting() -> str:
        return await event("paid", str)

    await waiting.run(run_id="r")
    for value in ("pay \ud800", ["\udfff"], {"\ud83d": 1}):
        with pytest.raises(ConfigurationError, match="JSON"):
            await send("r", "paid", value, store=store)
    assert await send("r", "paid", "\U0001f600", store=store)
    assert (await waiting.resume("r")).output == "\U0001f600"
