"""The bus: who receives what, what a slow subscriber misses, requests with a deadline, and its figures."""

import asyncio
import random

import pytest

from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.runtime import Broadcast, Bus, BusClosed, Lagged, Role, Specific
from ziggurat.runtime.bus import Address, BusMessage, Subscription
from ziggurat.testing import run_until_idle


async def drained(subscription: Subscription) -> list[object]:
    """Return what a subscriber of a closed bus gets."""
    return [each.content if isinstance(each, BusMessage) else each async for each in subscription]


async def test_a_message_is_for_all_for_one_or_for_a_role() -> None:
    bus = Bus()
    ann, ben, cem = bus.subscribe("ann"), bus.subscribe("ben", role="critic"), bus.subscribe("cem", role="critic")
    ann.send("all")
    ann.send("ben", Specific("ben"))
    ben.send("critics", Role("critic"))
    cem.send("nobody", Specific("dan"))
    cem.send("no role", Role("judge"))
    statistics = bus.statistics
    assert (statistics.total_sent, statistics.dead_letters) == (5, 2)
    assert (statistics.subscribers, statistics.roles) == (("ann", "ben", "cem"), ("critic",))
    bus.close()
    assert await drained(ann) == ["all"]  # the sender included
    assert await drained(ben) == ["all", "ben", "critics"]
    assert await drained(cem) == ["all", "critics"]
    with pytest.raises(BusClosed):
        await ann.receive()
    for closed in (lambda: ann.send("x"), lambda: bus.subscribe("dan")):
        with pytest.raises(BusClosed):
            closed()


async def test_the_sender_is_who_sends_and_a_name_belongs_to_one() -> None:
    bus = Bus()
    ann = bus.subscribe("ann")
    with pytest.raises(ConfigurationError, match="subscriber named 'ann'"):
        bus.subscribe("ann")
    assert ann.send({"sender": "ben"}).sender == "ann"
    with ann:
        pass
    assert bus.subscribe("ann", role="x").send("late").id == 2


async def test_only_what_is_sent_after_subscribing_is_received() -> None:
    bus = Bus()
    ann = bus.subscribe("ann")
    ann.send(1)
    ben = bus.subscribe("ben")
    ann.send(2)
    bus.close()
    assert await drained(ben) == [2]


async def test_a_slow_subscriber_gets_to_know_how_many_it_has_missed() -> None:
    bus = Bus(capacity=3)
    ann = bus.subscribe("ann")
    for number in range(5):
        ann.send(number)
    assert await ann.receive() == Lagged(2)
    assert [wrong(await ann.receive()).content for _ in range(3)] == [2, 3, 4]
    assert bus.statistics.lagged == {"ann": 2}
    waiting = asyncio.ensure_future(ann.receive())
    await asyncio.sleep(0)
    with pytest.raises(ConfigurationError, match="two tasks"):
        await ann.receive()
    ann.send(5)
    assert wrong(await waiting).content == 5


@pytest.mark.parametrize("seed", range(5))
async def test_no_message_is_lost_silently(seed: int) -> None:
    chance = random.Random(seed)
    bus = Bus(capacity=chance.randrange(1, 50))
    members = [bus.subscribe(str(number), role=str(number % 2)) for number in range(4)]
    received = [0] * 4

    async def read(number: int) -> None:
        async for each in members[number]:
            received[number] += each.count if isinstance(each, Lagged) else 1
            if chance.random() < 0.3:
                await asyncio.sleep(0)

    readers = [asyncio.ensure_future(read(number)) for number in range(4)]
    expected = [0] * 4
    for _ in range(2_000):
        addresses: list[Address] = [Broadcast(), Specific(str(chance.randrange(4))), Role(str(chance.randrange(2)))]
        to = chance.choice(addresses)
        chance.choice(members).send("x", to)
        for number in range(4):
            fits = isinstance(to, Broadcast) or to in (Specific(str(number)), Role(str(number % 2)))
            expected[number] += fits
        if chance.random() < 0.1:
            await asyncio.sleep(0)
    bus.close()
    await asyncio.gather(*readers)
    assert received == expected


async def test_a_reply_goes_to_the_sender_alone_and_names_the_message() -> None:
    bus = Bus()
    ann, ben = bus.subscribe("ann"), bus.subscribe("ben")
    sent = ann.send(21, Specific("ben"))
    reply = ben.reply(sent, 42)
    assert (reply.to, reply.reply_to, await ann.receive()) == (Specific("ann"), sent.id, reply)


async def test_a_subscription_that_has_ended_is_over_and_leaves_its_name_free() -> None:
    bus = Bus()
    ann, old = bus.subscribe("ann"), bus.subscribe("worker", role="w")
    waiting = asyncio.ensure_future(old.receive())
    await run_until_idle()
    old.leave()
    with pytest.raises(BusClosed):
        await waiting
    new = bus.subscribe("worker", role="w")
    with pytest.raises(BusClosed):
        old.send("in its name", Specific("ann"))
    old.leave()  # as the end of its block does
    ann.send("by name", Specific("worker"))
    ann.send("by role", Role("w"))
    bus.close()
    assert await drained(new) == ["by name", "by role"]


@pytest.mark.parametrize("name", ["ann\u200b", "ann ", "\tann", "ann\u202e", "an\u00a0n", "ann\n"])
def test_a_name_that_looks_like_another_is_refused(name: str) -> None:
    bus = Bus()
    bus.subscribe("ann")
    with pytest.raises(ConfigurationError, match="hidden"):
        bus.subscribe(name)
    bus.subscribe("Zoë 2")
