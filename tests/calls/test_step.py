"""Steps: recorded at their place, answered from the record, with effects, layers and a context."""

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from msgspec import Struct

from tests.hard_cases.support import through_json
from tests.samples import sample
from tests.stores.places import PLACES, new_store
from tests.wrong import wrong
from ziggurat import AgentRun, ConfigurationError, Context, Event, ToolError
from ziggurat.agents import Answer, runs_of
from ziggurat.calls.step import Arguments
from ziggurat.errors import JournalMismatch, NotRepeatable
from ziggurat.events import Diverged
from ziggurat.flows import Flow, ask, flow, gather, step
from ziggurat.journal.entries import Result
from ziggurat.layers import retry, timeout
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore


class Page(Struct):
    url: str
    links: list[str]


@dataclass
class Order:
    total: int


def again(flow: Flow[Any, Any], run: AgentRun, **options: Any) -> AgentRun:
    """Resume a run as another process would."""
    other = flow.with_store(through_json(flow.store, run.id))
    return asyncio.run(other.resume(run.id, **options))


class Calls(list[str]):
    """Notes what was called, and fails where it is told to."""

    def __init__(self) -> None:
        self.failing: set[str] = set()

    def note(self, what: str) -> None:
        self.append(what)
        if what in self.failing:
            raise ValueError(f"{what} is down")


def test_each_type_of_result_comes_back_as_itself() -> None:
    @step
    async def page(url: str) -> Page:
        return Page(url, [url])

    @step
    async def pages(*urls: str) -> dict[str, Page]:
        return {url: Page(url, []) for url in urls}

    @step
    async def order(total: int) -> Order | None:
        return Order(total) if total else None

    @step
    async def nothing() -> None:
        return None

    seen: list[list[object]] = []

    @flow(store=InMemoryStore())
    async def everything() -> int:
        results = [await page("a"), await pages("a", "b"), await order(3), await order(0), await nothing()]  # type: ignore[func-returns-value]
        seen.append(results)
        if len(seen) == 1:
            raise ValueError("the first time")
        return len(results)

    run = everything.run_sync()
    assert isinstance(run.stop, stops.Failed)
    assert again(everything, run).output == 5
    assert seen[0] == seen[1]


def test_a_failure_is_raised_again_and_the_one_that_ended_the_run_is_made_again() -> None:
    calls = Calls()

    @step
    async def act(what: str) -> str:
        calls.note(what)
        return what

    @flow(store=InMemoryStore())
    async def saga() -> str:
        try:
            await act("charge")
        except Exception as error:
            await act("refund")
            return f"refunded after {error}"
        return "charged"

    calls.failing = {"charge", "refund"}
    run = saga.run_sync()
    assert (run.error or "").startswith("ValueError: refund is down")
    calls.failing = set()
    resumed = again(saga, run)
    assert resumed.output == "refunded after charge is down"
    assert calls == ["charge", "refund", "refund"]


@pytest.mark.parametrize("place", sample(["by reference", *PLACES], 2), indirect=True)
def test_a_step_that_acts_once_only_is_not_repeated_when_its_outcome_is_unknown(place: str) -> None:
    calls = Calls()

    @step(effect="once", layers=[retry(attempts=3, base=0)])
    async def pay(total: int) -> str:
        calls.note("pay")
        if len(calls) == 1:
            raise ConnectionResetError("the connection was lost")
        return "paid"

    async def shop() -> str:
        try:
            return await pay(3)
        except NotRepeatable as error:
            return f"unknown: {error.kind}"

    first = flow(store=new_store())(shop).run_sync()
    assert first.output == "unknown: interrupted"
    assert calls == ["pay"]


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ValueError("no account"), "no account .*not run again"),
        (ToolError("closed"), "^closed .*not run again"),
        (ConnectionResetError("cut"), "unknown.*ConnectionResetError: cut"),
    ],
)
@pytest.mark.parametrize("place", sample(PLACES, 1), indirect=True)
async def test_the_failure_of_a_step_that_acts_once_is_kept(place: str, raised: Exception, told: str) -> None:
    calls: list[int] = []

    @step(effect="once")
    async def pay() -> str:
        calls.append(1)
        raise raised

    async def shop() -> str:
        return await pay()

    made = flow(store=new_store())(shop)
    run = await made.run()
    assert isinstance(run.stop, stops.Failed)
    for _ in range(2):
        run = await made.resume(run.id)
        assert isinstance(run.stop, stops.Failed)
        assert re.search(told, run.stop.error)
    assert calls == [1]


def test_a_retry_makes_a_step_again_as_one_recorded_call() -> None:
    tries: list[str] = []

    @step(layers=[retry(attempts=3, base=0, when=lambda error: True), timeout(seconds=60)], context=True)
    async def fetch(ctx: Context, url: str) -> str:
        tries.append(ctx.idempotency_key.partition(":")[2])
        if len(tries) < 3:
            raise ConnectionError("down")
        return url

    @flow
    async def once() -> str:
        return await fetch("a")

    run = once.run_sync()
    assert run.output == "a"
    assert tries == ["once/fetch"] * 3
    assert run.steps == 1


async def test_steps_within_a_step_are_part_of_it() -> None:
    calls = Calls()

    @step
    async def inner(number: int) -> int:
        calls.note(f"inner {number}")
        return number

    @step
    async def outer() -> int:
        return await inner(1) + await inner(2)

    @flow(store=InMemoryStore())
    async def nested() -> int:
        return await outer()

    run = await nested.run(run_id="r")
    assert run.output == 3
    record = (await nested.record("r")).decode()
    assert "nested/outer" in record
    assert "inner" not in record


async def test_outside_of_a_run_a_step_is_a_function() -> None:
    @step(layers=[timeout(seconds=60)], context=True)
    async def double(ctx: Context, number: int) -> int:
        """Double a number."""
        return 2 * number

    assert await double(4) == 8
    assert double.__doc__ == "Double a number."
    assert repr(double) == "step(double)"


def test_what_has_changed_on_resume_is_found_with_its_place() -> None:
    asked, fails = ["a", "b"], [True]

    @step
    async def fetch(url: str) -> str:
        return url

    @flow(store=InMemoryStore())
    async def reader() -> list[str]:
        pages = [await fetch(url) for url in asked]
        if fails:
            raise ValueError("stop here")
        return pages

    run = reader.run_sync()
    fails.clear()
    asked[:] = ["a", "c"]
    with pytest.raises(JournalMismatch, match=r"^reader/fetch#2: .*fetch\('c'\)"):
        again(reader, run)
    asked[:] = ["a"]
    seen: list[Event] = []
    assert again(reader, run, listeners=[seen.append]).output == ["a"]
    (missing,) = [event for event in seen if isinstance(event, Diverged)]
    assert (missing.path, missing.what, missing.asked) == ("reader/fetch#2", "call", "(not made)")


def test_how_arguments_are_passed_makes_no_difference() -> None:
    @step
    async def fetch(url: str, retries: int = 3, *, fast: bool = False) -> None: ...

    def fingerprint(*args: Any, **kwargs: Any) -> str:
        return Arguments(fetch, args, kwargs).fingerprint()

    prints = {fingerprint("a"), fingerprint("a", 3), fingerprint(retries=3, url="a"), fingerprint("a", fast=False)}
    assert len(prints) == 1
    assert fingerprint("b") not in prints


@step
async def _use(connection: object) -> None:
    raise AssertionError


@step(effect="once")
async def _pay() -> None: ...


@step
async def _outer() -> None:
    await _pay()


@step
async def _count() -> int:
    return wrong("three")  # type: ignore[no-any-return]


async def _two() -> None:
    await _count()
    await _count()


MISUSED: dict[str, Callable[[], Any]] = {
    "an argument of the step _use": lambda: _use(object()),
    "once only": _outer,
    "trial/_count": _count,
    r"gather\(\)": lambda: asyncio.gather(_two(), _two()),
    "would depend on timing": lambda: asyncio.gather(_outer(), _outer()),
}


@pytest.mark.parametrize("told", MISUSED)
async def test_a_misused_step_is_named(told: str) -> None:
    @flow(store=InMemoryStore(shared=InMemoryStore()))
    async def trial() -> None:
        await MISUSED[told]()

    with pytest.raises(ConfigurationError, match=told):
        await trial.run()


@step
async def fetch(value: int) -> int:
    return value


@step
async def hands_on(value: int) -> Any:
    return fetch(value)


@step
async def hands_on_typed(value: int) -> int:
    return fetch(value)  # type: ignore[return-value]


FORGOTTEN: dict[str, Callable[[int], Any]] = {
    "result": lambda value: fetch(value),
    "argument": lambda value: fetch(fetch(value)),  # type: ignore[arg-type]
    "result of a step": hands_on,
    "typed result of a step": hands_on_typed,
}


@pytest.mark.filterwarnings("ignore:coroutine 'fetch'")
@pytest.mark.parametrize("place", FORGOTTEN)
async def test_a_step_that_is_not_awaited_is_named(place: str) -> None:
    @flow(store=InMemoryStore())
    async def forgets(value: int) -> int:
        made = FORGOTTEN[place](value)
        result: int = made if place == "result" else await made
        return result

    with pytest.raises(ConfigurationError, match=r"write await fetch\(\.\.\.\)"):
        await forgets.run(1)


def test_the_warning_of_python_names_the_step() -> None:
    for each in (fetch, fetch.named("other")):
        with pytest.warns(RuntimeWarning, match=rf"'{each.name}' was never awaited"):
            del [each(1)][0]


async def test_gather_gives_each_part_a_place_of_its_own() -> None:
    @step
    async def fetch(url: str) -> str:
        return url

    async def two(name: str) -> str:
        return await fetch(name) + await fetch(name * 2)

    @flow(store=InMemoryStore())
    async def crawl() -> tuple[str, ...]:
        return await gather(two("a"), fetch("b"), two("c"), limit=2)

    run = await crawl.run(run_id="r")
    assert run.output == ("aaa", "b", "ccc")
    entries = (await runs_of(crawl.store).read("r")).entries
    places = {entry.path for entry in entries if isinstance(entry, Result)}
    fetched = ("1/fetch", "1/fetch#2", "2/fetch", "3/fetch", "3/fetch#2")
    assert places == {"crawl", *(f"crawl/gather/{each}" for each in fetched)}


def test_what_a_function_has_to_be_to_be_a_step() -> None:
    def sync() -> None: ...

    async def bare():  # type: ignore[no-untyped-def]
        ...

    async def model() -> None: ...

    async def late(number: int, ctx: Context) -> None: ...

    with pytest.raises(ConfigurationError, match="step late"):
        step(late)
    for function, text in ((sync, "write async def sync"), (bare, "return annotation"), (model, "other than 'model'")):
        with pytest.raises(ConfigurationError, match=text):
            step(wrong(function))
    with pytest.raises(ConfigurationError, match="identifier"):
        step(name="a b")(wrong(model))


@pytest.mark.parametrize("effects", ["refuse", "recorded", "live"])
async def test_a_fork_treats_steps_as_it_treats_tools(effects: Any) -> None:
    calls = Calls()

    @step(effect="none")
    async def look(what: str) -> str:
        calls.note(what)
        return what

    @step
    async def send(what: str) -> str:
        calls.note(f"send {what}")
        return f"sent {what}"

    @flow(store=InMemoryStore())
    async def mail(what: str) -> str:
        first = await look(what)
        try:
            return await send(first)
        except ToolError as error:
            return str(error)

    run = await mail.run("hello")
    forked = await mail.fork(run.id, at=2, effects=effects)
    assert "refused" in forked.output if effects == "refuse" else forked.output == "sent hello"
    assert calls == ["hello", "send hello", *(["send hello"] if effects == "live" else [])]
    other = await mail.fork(run.id, at=1, prompt="bye", effects="live")
    assert other.output == "sent bye"


@pytest.mark.parametrize("place", sample(PLACES, 1), indirect=True)
@pytest.mark.parametrize("changed", [int, date, list[str]])
async def test_a_result_of_a_changed_type_is_named_and_the_run_still_waits(changed: Any, place: str) -> None:
    def order(returns: Any) -> Flow[None, str]:
        async def work() -> Any:
            return "done"

        work.__annotations__["return"] = returns
        made = step(work)

        @flow(name="order", store=new_store())
        async def order() -> str:
            return f"{await made()} {await ask('Pack it?')}"

        return order

    (item,) = (await order(str).run(run_id="r")).pending
    with pytest.raises(JournalMismatch, match="order/work"):
        await order(changed).resume("r", {item.id: Answer("yes")})
    assert (await order(str).resume("r")).pending == (item,)
    assert (await order(str).resume("r", {item.id: Answer("yes")})).output == "done yes"
