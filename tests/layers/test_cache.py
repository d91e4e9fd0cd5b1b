import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ziggurat.core.clock import CLOCK
from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError, Suspend
from ziggurat.core.event import CacheHit, Event
from ziggurat.core.layer import stack
from ziggurat.layers.cache import Cached, CacheStore, cache
from ziggurat.layers.retry import retry
from ziggurat.testing.clock import HandClock
from ziggurat.testing.faults import fail_on


def counting():
    asked: list[object] = []

    async def service(request: object, ctx: Context) -> str:
        asked.append(request)
        return f"answer {len(asked)}"

    return service, asked


async def ask(service, *requests, ctx=None):
    return [await service(request, ctx or root()) for request in requests]


def test_equal_requests_are_asked_once():
    service, asked = counting()
    cached = stack(service, cache(store=CacheStore()))
    answers = asyncio.run(ask(cached, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, "a"))
    assert answers == ["answer 1", "answer 1", "answer 2", "answer 3"]
    assert asked == [{"a": 1, "b": 2}, {"a": 1}, "a"]


def test_a_hit_is_an_event():
    heard: list[Event] = []
    service, _ = counting()
    cached = stack(service, cache(store=CacheStore(), key=str))
    asyncio.run(ask(cached, "q", "q", ctx=root().heard_by(heard.append)))
    assert heard == [CacheHit("run", "q")]


def test_services_may_share_a_store_layered_or_not():
    async def other(request: object, ctx: Context) -> str:
        return "other"

    service, _ = counting()
    shared = cache(store=CacheStore())
    assert asyncio.run(ask(stack(service, shared, retry()), "q")) == ["answer 1"]
    assert asyncio.run(ask(stack(other, shared, retry()), "q")) == ["other"]
    assert asyncio.run(ask(stack(service, shared), "q")) == ["answer 1"]


def test_answers_grow_old():
    clock = HandClock()
    service, _ = counting()
    cached = stack(service, cache(store=CacheStore(), seconds=10))

    async def main():
        ctx = root().within(CLOCK, clock)
        first = await ask(cached, "q", "q", ctx=ctx)
        await clock.advance(9.5)
        first += await ask(cached, "q", ctx=ctx)
        await clock.advance(0.5)
        return first + await ask(cached, "q", "q", ctx=ctx)

    assert asyncio.run(main()) == ["answer 1", "answer 1", "answer 1", "answer 2", "answer 2"]


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, lambda: Suspend(())])
def test_what_goes_wrong_is_never_kept(error):
    service, _ = counting()
    store = CacheStore()
    cached = stack(fail_on(service, 1, error=error), cache(store=store))

    async def main():
        with pytest.raises(type(error())):
            await cached("q", root())
        assert not store
        return await ask(cached, "q", "q")

    assert asyncio.run(main()) == ["answer 1", "answer 1"]


def test_a_plain_dict_is_a_store_too():
    service, _ = counting()
    store: dict[str, Cached] = {}
    asyncio.run(ask(stack(service, cache(store=store, key=str)), "q"))
    assert store == {"q": Cached("answer 1")}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=80), st.integers(1, 5))
def test_the_store_forgets_what_was_not_used_for_longest(steps, size):
    store, model = CacheStore(size), []
    for is_write, number in steps:
        key = str(number)
        if is_write:
            store[key] = Cached(number)
            model = [each for each in model if each != key] + [key]
            model = model[-size:]
        else:
            found = store.get(key)
            assert (found is not None) == (key in model)
            if found is not None:
                model = [each for each in model if each != key] + [key]
        assert list(store) == model
    assert {key: cached.value for key, cached in store.items()} == {key: int(key) for key in model}


def test_a_request_without_a_fingerprint_says_what_to_do():
    service, _ = counting()
    with pytest.raises(ConfigurationError, match=r"give cache\(key=\.\.\.\)"):
        asyncio.run(ask(stack(service, cache(store=CacheStore())), object()))


@pytest.mark.parametrize("settings", [{"store": None}, {"store": {}, "key": "q"}, {"store": {}, "seconds": 0}])
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ConfigurationError, match=list(settings)[-1]):
        cache(**settings)


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_a_store_holds_something(size):
    with pytest.raises(ConfigurationError, match="size"):
        CacheStore(size)
