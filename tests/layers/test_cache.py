import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from ziggurat import (
    Agent,
    ConfigurationError,
    Context,
    Event,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Service,
    Usage,
    stack,
    tool,
    user,
)
from ziggurat.core import CLOCK, root
from ziggurat.errors import ModelError, Suspend
from ziggurat.events import CacheHit
from ziggurat.layers import CACHE_POLICY, CacheStore, DedupeStore
from ziggurat.layers.cache import Cached, CachePolicy, cache, dedupe
from ziggurat.layers.retry import retry
from ziggurat.messages import Model, ToolSpec, Transcript, assistant, tool_call
from ziggurat.messages.model import OutputSchema
from ziggurat.stops import Completed
from ziggurat.testing import HandClock, ScriptedModel, fail_on

Q = TypeVar("Q")
R = TypeVar("R")


def counting() -> tuple[Service[object, str], list[object]]:
    asked: list[object] = []

    async def service(request: object, ctx: Context) -> str:
        asked.append(request)
        return f"answer {len(asked)}"

    return service, asked


async def ask(service: Service[Q, R], *requests: Q, ctx: Context | None = None) -> list[R]:
    return [await service(request, ctx or root()) for request in requests]


async def test_equal_requests_are_asked_once() -> None:
    service, asked = counting()
    cached = stack(service, cache(store=CacheStore()))
    answers = await ask(cached, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1}, "a")
    assert answers == ["answer 1", "answer 1", "answer 2", "answer 3"]
    assert asked == [{"a": 1, "b": 2}, {"a": 1}, "a"]


async def test_a_hit_is_an_event() -> None:
    heard: list[Event] = []
    service, _ = counting()
    cached = stack(service, cache(store=CacheStore(), key=str))
    await ask(cached, "q", "q", ctx=root().heard_by(heard.append))
    assert heard == [CacheHit("run", "q")]


def test_services_may_share_a_store_layered_or_not() -> None:
    async def other(request: object, ctx: Context) -> str:
        return "other"

    service, _ = counting()
    shared = cache(store=CacheStore())
    assert asyncio.run(ask(stack(service, shared, retry()), "q")) == ["answer 1"]
    assert asyncio.run(ask(stack(other, shared, retry()), "q")) == ["other"]
    assert asyncio.run(ask(stack(service, shared), "q")) == ["answer 1"]


USAGE = Usage(10, 5, requests=1)
ASKED = ModelRequest(Transcript.of(user("hello"), assistant(tool_call("look", id="1", a=1, b=2))), "Be brief.")
SPEC = ToolSpec("look", "Look.", {"type": "object", "properties": {}})


def model_that_counts() -> tuple[Model, list[ModelRequest]]:
    asked: list[ModelRequest] = []

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        asked.append(request)
        return ModelResponse(assistant(f"answer {len(asked)}"), usage=USAGE)

    return model, asked


@pytest.mark.parametrize(
    "changes",
    [
        {"messages": Transcript.of(user("hello!"))}, {"messages": Transcript.of()}, {"instructions": "Be long."},
        {"instructions": None}, {"tools": (SPEC,)}, {"settings": ModelSettings(temperature=0)},
        {"settings": ModelSettings(extra={"user": "b"})}, {"output": OutputSchema("answer", {"type": "object"})},
    ],
)  # fmt: skip
async def test_all_that_bears_on_a_models_answer_is_in_the_key(changes: dict[str, Any]) -> None:
    model, asked = model_that_counts()
    store = CacheStore()
    cached = stack(model, cache(store=store))
    await ask(cached, ASKED, replace(ASKED, **changes), ASKED)
    assert len(asked) == 2
    assert [len(key.rpartition(":")[2]) for key in store] == [64, 64]


async def test_the_order_of_keys_is_not_in_the_key() -> None:
    one = ModelSettings(extra={"a": {"x": 1, "y": 2}, "b": 3})
    other = ModelSettings(extra={"b": 3, "a": {"y": 2, "x": 1}})
    model, asked = model_that_counts()
    await ask(stack(model, cache(store=CacheStore())), replace(ASKED, settings=one), replace(ASKED, settings=other))
    assert len(asked) == 1


async def test_an_answer_given_again_costs_nothing() -> None:
    model, _ = model_that_counts()
    first, again = await ask(stack(model, cache(store=CacheStore())), ASKED, ASKED)
    assert (first.message, first.usage) == (again.message, USAGE)
    assert again.usage == Usage()


async def test_a_hit_skips_the_retry_and_costs_a_run_nothing() -> None:
    model = ScriptedModel(ModelError("gone", kind="overloaded"), "hello", usage=USAGE)
    agent = Agent(stack(model, cache(store=CacheStore()), retry(attempts=2, base=0)))
    usages = [(await agent.run("?")).usage for _ in range(2)]
    assert usages == [Usage(10, 5, requests=2), Usage()]  # with the try that failed
    assert len(model.calls) == 2


@pytest.mark.parametrize(
    ("policy", "answers"),
    [
        (None, ["answer 1", "answer 1", "answer 1"]),
        ("use", ["answer 1", "answer 1", "answer 1"]),
        ("refresh", ["answer 1", "answer 2", "answer 2"]),
        ("bypass", ["answer 1", "answer 2", "answer 1"]),
    ],
)
async def test_one_call_may_say_otherwise_than_its_run(policy: CachePolicy | None, answers: list[str]) -> None:
    service, _ = counting()
    cached = stack(service, cache(store=CacheStore()))
    run = root().within(CACHE_POLICY, "use")
    one = run if policy is None else run.within(CACHE_POLICY, policy)
    assert [await cached("q", ctx) for ctx in (run, one, run)] == answers


async def test_a_run_says_what_its_caches_do() -> None:
    model, _ = model_that_counts()
    agent = Agent(stack(model, cache(store=CacheStore())))
    policies: list[CachePolicy] = ["use", "use", "refresh", "use"]
    texts = [(await agent.run("?", deps={CACHE_POLICY: policy})).text for policy in policies]
    assert texts == ["answer 1", "answer 1", "answer 2", "answer 2"]


async def test_a_policy_that_is_none_is_refused() -> None:
    wrong: Any = "never"
    service, _ = counting()
    with pytest.raises(ConfigurationError, match="'use'"):
        await ask(stack(service, cache(store=CacheStore())), "q", ctx=root().within(CACHE_POLICY, wrong))


async def test_calls_of_a_tool_are_told_apart_by_name_and_arguments_alone() -> None:
    runs: list[int] = []

    @tool
    async def square(number: int, times: int = 1) -> int:
        runs.append(number)
        return number * number * times

    def asking(call: str, **arguments: Any) -> ScriptedModel:
        return ScriptedModel(tool_call("square", id=call, **arguments), "done")

    store = CacheStore()
    tools = [stack(square, cache(store=store))]
    for model in (asking("a", number=3, times=2), asking("b", times=2, number=3), asking("c", number=4)):
        run = await Agent(model, tools=tools).run("?")
        assert run.stop == Completed()
    assert runs == [3, 4]


async def test_answers_grow_old() -> None:
    clock = HandClock()
    service, _ = counting()
    cached = stack(service, cache(store=CacheStore(), seconds=10))
    ctx = root().within(CLOCK, clock)
    first = await ask(cached, "q", "q", ctx=ctx)
    await clock.advance(9.5)
    first += await ask(cached, "q", ctx=ctx)
    await clock.advance(0.5)
    assert first + await ask(cached, "q", "q", ctx=ctx) == ["answer 1", "answer 1", "answer 1", "answer 2", "answer 2"]


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, lambda: Suspend(())])
async def test_what_goes_wrong_is_never_kept(error: Callable[[], BaseException]) -> None:
    service, _ = counting()
    store = CacheStore()
    cached = stack(fail_on(service, 1, error=error), cache(store=store))
    with pytest.raises(type(error())):
        await cached("q", root())
    assert not store
    assert await ask(cached, "q", "q") == ["answer 1", "answer 1"]


async def test_a_plain_dict_is_a_store_too() -> None:
    service, _ = counting()
    store: dict[str, Cached] = {}
    await ask(stack(service, cache(store=store, key=str)), "q")
    assert store == {"q": Cached("answer 1")}


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), max_size=80), st.integers(1, 5))
def test_the_store_forgets_what_was_not_used_for_longest(steps: list[tuple[bool, int]], size: int) -> None:
    store, model = CacheStore(size), list[str]()
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


async def test_a_request_without_a_fingerprint_says_what_to_do() -> None:
    service, _ = counting()
    with pytest.raises(ConfigurationError, match=r"give cache\(key=\.\.\.\)"):
        await ask(stack(service, cache(store=CacheStore())), object())


@pytest.mark.parametrize("settings", [{"store": None}, {"store": {}, "key": "q"}, {"store": {}, "seconds": 0}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=list(settings)[-1]):
        cache(**settings)


@pytest.mark.parametrize("size", [0, -1, 1.5])
def test_a_store_holds_something(size: Any) -> None:
    with pytest.raises(ConfigurationError, match="size"):
        CacheStore(size)


@pytest.mark.parametrize("key", [3, None, ["x"]])
async def test_a_key_that_is_no_text_is_named(key: Any) -> None:
    for made in (cache(store={}, key=lambda request: key), dedupe(store=DedupeStore(), key=lambda request: key)):
        with pytest.raises(ConfigurationError, match=r"the function of (cache|dedupe)\(key=...\) returns text, got"):
            await stack(_echo, made)("x", root())


async def _echo(request: str, ctx: Context) -> str:
    return request
