"""Flows: typed functions with all verbs of an agent; the agents in them; what can be no flow."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.hard_cases.support import ByTurn, through_json
from tests.wrong import wrong
from ziggurat import Agent, Approve, Budget, ConfigurationError, Context, Event, Key, ToolCall, tool, user
from ziggurat.cli.main import main
from ziggurat.errors import JournalMismatch, RunExists
from ziggurat.events import AgentEnded, Delta
from ziggurat.flows import Flow, ask, flow, step
from ziggurat.layers.retry import retry
from ziggurat.messages import decode_run, encode_run, stops
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


class Order(Struct):
    customer: str
    total: int


class Receipt(Struct):
    text: str
    total: int


@step
async def charge(customer: str, total: int) -> str:
    return f"{customer} paid {total}"


@flow(store="memory:")
async def order(order: Order) -> Receipt:
    """Take an order."""
    return Receipt(await charge(order.customer, order.total), order.total)


RECEIPT = Receipt("Ada paid 3", 3)


def test_it_takes_its_input_as_a_value_as_json_and_as_a_message() -> None:
    inputs: tuple[Any, ...] = (Order("Ada", 3), '{"customer": "Ada", "total": 3}', user('{"customer":"Ada","total":3}'))
    for given in inputs:
        run = order.run_sync(given)
        assert run.output == RECEIPT
        assert run.text == '{"text":"Ada paid 3","total":3}'


@pytest.mark.parametrize("given", [3, "{", '{"customer": "Ada"}', Receipt("a", 3), None])
def test_an_input_that_does_not_fit_is_refused_at_the_door(given: object) -> None:
    with pytest.raises(ConfigurationError, match="order"):
        order.run_sync(wrong(given))


def test_a_flow_without_input_says_so() -> None:
    @flow
    async def nothing() -> str:
        return "done"

    assert nothing.run_sync().output == nothing.run_sync(wrong("null")).output == "done"
    for given in ("go", 5):
        with pytest.raises(ConfigurationError, match="no input"):
            nothing.run_sync(wrong(given))


def test_the_same_id_and_input_are_the_same_run() -> None:
    first = order.run_sync(Order("Ada", 3), run_id="o-1")
    assert order.run_sync(Order("Ada", 3), run_id="o-1").output == first.output == RECEIPT
    with pytest.raises(RunExists):
        order.run_sync(Order("Ada", 4), run_id="o-1")


async def test_a_flow_without_input() -> None:
    @flow(store="memory:")
    async def report() -> list[int]:
        return [1, 2]

    assert (await report.run(run_id="monday")).output == [1, 2]
    assert (await report.run(run_id="monday")).output == [1, 2]
    assert (await report.resume("monday")).output == [1, 2]


def test_text_goes_in_and_out_as_it_is() -> None:
    @flow
    async def echo(ctx: Context, text: str) -> str:
        return f"{ctx.path}: {text}"

    run = echo.run_sync('"quoted"')
    assert run.output == run.text == 'echo: "quoted"'


async def test_the_agents_in_it_are_found_by_a_replay() -> None:
    helper = Agent(ScriptedModel("four"), name="helper")

    @flow(store="memory:")
    async def ask_helper(question: str) -> str:
        return (await helper.run(question)).text

    run = await ask_helper.run("2 + 2?", run_id="r-1")
    assert (await ask_helper.replay("r-1")).output == run.output == "four"


def test_its_replay_makes_nothing_and_finds_what_has_changed() -> None:
    made: list[str] = []

    @step
    async def act(what: str) -> str:
        made.append(what)
        return what

    def version(*acts: str) -> Flow[None, list[str]]:
        @flow(store=store)
        async def acting() -> list[str]:
            return [await act(what) for what in acts]

        return acting

    store = InMemoryStore()
    run = version("a", "b").run_sync()
    assert asyncio.run(version("a", "b").replay(run.id)).output == ["a", "b"]
    assert made == ["a", "b"]
    for changed, place in ((("a", "c"), "acting/act#2"), (("a",), "acting/act#2"), (("a", "b", "c"), "acting/act#3")):
        with pytest.raises(JournalMismatch, match=place):
            asyncio.run(version(*changed).replay(run.id))


async def test_agents_in_it_share_its_record_budget_and_approvals() -> None:
    paid: list[str] = []

    @tool(approval=True, effect="once")
    def pay(to: str) -> str:
        paid.append(to)
        return f"paid {to}"

    clerk = ByTurn(ToolCall("1", "pay", '{"to":"Ada"}'), "Done.")
    checker = ByTurn("Checked.")

    @flow(store=InMemoryStore(), budget=Budget(tool_calls=2))
    async def settle(name: str) -> list[str]:
        bought = await Agent(clerk, tools=[pay], name="clerk").run(f"Pay {name}")
        checked = await Agent(checker, name="checker").run(bought.text)
        return [bought.text, await charge(name, 3), checked.text]

    run = await settle.run("Ada")
    assert isinstance(run.stop, stops.Suspended)
    assert [item.call.name for item in run.pending] == ["pay"]
    store = through_json(settle.store, run.id)
    again: Flow[str, list[str]] = Flow(settle.inner, settle._takes, name="settle", store=store)
    done = await again.resume(run.id, {item.id: Approve() for item in run.pending})
    assert done.output == ["Done.", "Ada paid 3", "Checked."]
    assert (paid, done.model_calls, done.tool_calls, done.usage.input) == (["Ada"], 3, 1, 30)


async def test_its_events_are_streamed_and_fold_to_its_output() -> None:
    events: list[Event] = []
    async with order.stream(Order("Ada", 3)) as stream:
        async for event in stream:
            events.append(event)
    assert stream.response.output == RECEIPT
    assert isinstance(events[-1], AgentEnded)
    assert "".join(event.delta.text for event in events if isinstance(event, Delta) and hasattr(event.delta, "text"))


def test_it_is_a_tool_and_a_part_of_another_flow() -> None:
    asked = ScriptedModel(ToolCall("1", "order", '{"customer":"Ada","total":3}'), "Done.")
    agent = Agent(asked, tools=[order])
    assert agent.tools.specs[0].description == "Take an order."
    run = agent.run_sync("Order")
    assert run.messages[2].tool_results[0].text == '{"text":"Ada paid 3","total":3}'

    @flow
    async def twice() -> list[Receipt]:
        return [(await order.run(Order("Ada", number))).output for number in (1, 2)]

    assert [each.total for each in twice.run_sync().output] == [1, 2]


def test_it_keeps_a_session() -> None:
    store = InMemoryStore()

    @flow(store=store)
    async def echo(text: str) -> str:
        return text.upper()

    echo.run_sync("one", session="s")
    run = echo.run_sync("two", session="s")
    assert [message.text for message in run.messages] == ["one", "ONE", "two", "TWO"]


def test_layers_around_it_and_dependencies_in_it() -> None:
    db = Key[dict[str, int]]("db")
    tries: list[int] = []

    @flow
    async def count(ctx: Context, name: str) -> int:
        tries.append(1)
        if len(tries) < 2:
            raise ConnectionError("down")
        number: int = ctx.scope[db][name]
        return number

    robust = count.layered(retry(attempts=2, base=0, when=lambda error: True))
    assert robust.run_sync("a", deps={db: {"a": 7}}).output == 7


def test_it_is_shown_with_its_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"

    @flow(name="order", store=url)
    async def ordered(order: Order) -> str:
        return await charge(order.customer, order.total)

    ordered.run_sync(Order("Ada", 3), run_id="o-1")
    assert main(["show", "o-1", "--store", url]) == 0
    assert 'charge: "Ada paid 3"' in capsys.readouterr().out


def test_what_a_function_has_to_be_to_be_a_flow() -> None:
    def sync() -> None: ...

    async def bare():  # type: ignore[no-untyped-def]
        ...

    async def two(a: int, b: int) -> None: ...

    async def untyped(a) -> None:  # type: ignore[no-untyped-def]
        ...

    for function, text in (
        (sync, "async function"),
        (bare, "return annotation"),
        (two, "takes one input, got a, b"),
        (untyped, "needs an annotation"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            flow(wrong(function))


class Till:
    def __init__(self) -> None:
        self.total = 3

    async def pay(self, price: int) -> int:
        self.total += price
        return self.total


async def test_of_a_method_without_its_object_no_flow_or_step_is_made() -> None:
    for make in (flow, step, flow(name="till"), step(name="till")):
        with pytest.raises(ConfigurationError, match="method"):
            make(wrong(Till.pay))
    till = Till()
    pay = step(till.pay)

    @flow
    async def twice(price: int) -> int:
        return await pay(price) + await pay(price)

    assert (await twice.run(1)).output == 9
    assert (await flow(till.pay).run(2)).output == 7


def test_a_result_that_is_not_as_annotated_is_refused() -> None:
    @flow
    async def count() -> int:
        return wrong("three")  # type: ignore[no-any-return]

    with pytest.raises(ConfigurationError, match="three"):
        count.run_sync()


def test_a_flow_with_another_input_than_text_or_an_object_is_no_tool() -> None:
    @flow
    async def double(number: int) -> int:
        return 2 * number

    assert double.run_sync(4).output == 8
    with pytest.raises(ConfigurationError, match="double"):
        double.as_tool()


@pytest.mark.parametrize("stop", ["Failed", "Suspended", "Cancelled"])
async def test_a_flow_that_stops_on_the_way_has_counted_its_steps(stop: str) -> None:
    started = asyncio.Event()

    @step
    async def first() -> int:
        return 1

    @step
    async def second() -> int:
        if stop == "Failed":
            raise ValueError("broken")
        if stop == "Cancelled":
            started.set()
            await asyncio.Event().wait()
        return 2

    @flow(store="memory:")
    async def work() -> int:
        total = await first() + await second()
        return total if await ask("go on?", bool) else 0

    handle = work.start(run_id="r")
    if stop == "Cancelled":
        await started.wait()
        await handle.cancel()
    run = await handle.result()
    assert stops.status_of(run.stop) == stop
    assert run.steps == (3 if stop == "Suspended" else 2)
    assert (await work.run(run_id="r")).steps == (await work.replay("r")).steps == run.steps


async def test_an_output_that_json_does_not_have_is_read_back() -> None:
    @flow(store="memory:")
    async def height(of: str) -> float:
        return float("inf")

    for run in (await height.run("Ur", run_id="r"), await height.run("Ur", run_id="r"), await height.replay("r")):
        assert (run.output, decode_run(encode_run(run), float).output) == (float("inf"), float("inf"))


class Point(Struct):
    x: int


@pytest.mark.parametrize(("returned", "why"), [("seven", "integer, got 'seven'"), (object(), "written as JSON")])
@pytest.mark.parametrize("annotation", [int, list[int], Point])
async def test_what_does_not_fit_the_type_of_a_flow_is_said_once(returned: Any, why: str, annotation: Any) -> None:
    async def made() -> Any:
        return {int: returned, Point: Point(returned)}.get(annotation, [returned])

    async def taking(value: Any) -> str:
        return "taken"

    made.__annotations__["return"] = taking.__annotations__["value"] = annotation
    value = await made()
    calls: list[Callable[[], Any]] = (
        [flow(made).run] if isinstance(value, str) else [flow(made).run, partial(flow(taking).run, value)]
    )
    for call in calls:  # a text would be read as JSON
        with pytest.raises(ConfigurationError) as caught:
            await call()
        assert str(caught.value).count(why) == 1
        assert ("recorded" in str(caught.value)) == (why == "written as JSON")
