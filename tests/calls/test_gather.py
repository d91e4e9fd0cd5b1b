"""Gather and its relatives: order, limit, failures, what is recorded, parts that wait for a person."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.calls.test_step import again
from tests.hard_cases.support import ByTurn
from tests.wrong import wrong
from ziggurat import Agent, Approve, ConfigurationError, ToolCall, tool
from ziggurat.flows import Flow, first, flow, gather, quorum, settled, step
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore


class Turnstile:
    """Lets parts end in an order that the test chooses, and notes what happens."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.gates: dict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.ended: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    async def wait(self, name: str) -> str:
        self.said.append(f"start {name}")
        try:
            await self.gates[name].wait()
        except asyncio.CancelledError:
            self.said.append(f"cancel {name}")
            raise
        self.said.append(f"end {name}")
        self.ended[name].set()
        if name.startswith("bad"):
            raise ValueError(name)
        return name

    async def open(self, *names: str) -> str:
        for name in names:
            self.gates[name].set()
            await self.ended[name].wait()
        return "opened"


def in_flow(body: Callable[[], Coroutine[Any, Any, Any]], store: Any = None) -> Flow[None, Any]:
    async def trial() -> Any:
        return await body()

    return flow(store=store)(trial)


def test_results_come_in_the_order_of_the_parts_and_parts_start_in_order_within_the_limit() -> None:
    gates = Turnstile()

    async def body() -> Any:
        results = await gather(gather(*(gates.wait(name) for name in "abc"), limit=2), gates.open("b", "a", "c"))
        return list(results[0])

    assert in_flow(body).run_sync().output == ["a", "b", "c"]
    assert [each for each in gates.said if each.startswith("start")] == ["start a", "start b", "start c"]
    assert gates.said.index("end b") < gates.said.index("start c")


def test_the_first_failure_is_raised_as_it_is_and_the_others_are_cancelled() -> None:
    gates = Turnstile()

    async def body() -> Any:
        with pytest.raises(ValueError, match="bad") as raised:
            await gather(gates.wait("a"), gates.wait("bad"), gates.open("bad"), gates.wait("c"))
        return type(raised.value).__name__

    assert in_flow(body).run_sync().output == "ValueError"
    assert gates.said[-2:] == ["cancel a", "cancel c"]


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        (lambda *parts: first(*parts), "b"),
        (lambda *parts: quorum(2, *parts), [None, "b", "opened"]),
        (lambda *parts: settled(*parts), None),
    ],
    ids=["first", "quorum", "settled"],
)
def test_when_a_group_ends_and_what_it_returns(group: Any, expected: Any) -> None:
    gates = Turnstile()

    async def body() -> Any:
        if expected is None:
            results = await settled(gates.wait("a"), gates.wait("bad"), gates.open("a", "bad"))
            return [str(each) for each in results]
        outcome = await group(gates.wait("a"), gates.wait("b"), gates.open("b"))
        return list(outcome) if isinstance(outcome, tuple) else outcome

    assert in_flow(body).run_sync().output == (expected or ["a", "bad", "opened"])
    assert ("cancel a" in gates.said) == (expected is not None)


def test_when_all_parts_of_first_fail_the_error_of_the_first_names_the_others() -> None:
    async def fail(text: str) -> str:
        raise ValueError(text)

    async def body() -> Any:
        with pytest.raises(ValueError, match="one") as raised:
            await first(fail("one"), fail("two"))
        return raised.value.__notes__

    assert in_flow(body).run_sync().output == ["part 2 failed, too: ValueError: two"]


def test_who_was_first_is_not_decided_again() -> None:
    made: list[str] = []
    gates = Turnstile()

    @step
    async def slow(name: str) -> str:
        made.append(name)
        return await gates.wait(name)

    async def body() -> Any:
        winner = (
            await first(slow("a"), slow("b"), gates.open("b"))
            if not made
            else await first(slow("a"), slow("b"), gates.open("a"))
        )
        if len(made) == 2:
            made.append("end")
            raise ValueError("the process ends")
        return winner

    trial = in_flow(body, InMemoryStore())
    run = trial.run_sync()
    assert again(trial, run).output == "b"
    assert made == ["a", "b", "end"]


def test_if_a_part_waits_for_a_person_the_others_finish_and_are_kept() -> None:
    paid: list[str] = []
    made: list[str] = []

    @tool(approval=True, effect="once")
    def pay(to: str) -> str:
        paid.append(to)
        return f"paid {to}"

    @step
    async def note(what: str) -> str:
        await asyncio.sleep(0)
        made.append(what)
        return what

    async def ask_clerk(name: str) -> str:
        clerk = Agent(ByTurn(ToolCall("1", "pay", f'{{"to":"{name}"}}'), f"Done for {name}."), tools=[pay])
        return (await clerk.run(f"Pay {name}")).text

    async def body() -> Any:
        return list(await gather(ask_clerk("Ada"), note("one"), ask_clerk("Bob"), note("two"), limit=2))

    trial = in_flow(body, InMemoryStore())
    run = trial.run_sync()
    assert isinstance(run.stop, stops.Suspended)
    assert [item.path for item in run.pending] == [
        "trial/gather/1/agent/step-1/tool-1:pay",
        "trial/gather/3/agent/step-1/tool-1:pay",
    ]
    assert made == ["one", "two"]
    done = again(trial, run, decisions={item.id: Approve() for item in run.pending})
    assert done.output == ["Done for Ada.", "one", "Done for Bob.", "two"]
    assert (sorted(paid), made) == (["Ada", "Bob"], ["one", "two"])


async def test_outside_of_a_run_parts_run_together() -> None:
    async def double(number: int) -> int:
        return 2 * number

    assert await gather(*(double(number) for number in range(3))) == (0, 2, 4)


async def test_what_is_no_coroutine_is_refused_and_nothing_is_started() -> None:
    async def one() -> None: ...

    with pytest.raises(ConfigurationError, match=r"gather\(\) takes coroutines"):
        await gather(one(), wrong(3))
    with pytest.raises(ConfigurationError, match=r"gather\(\*parts\)"):
        await gather(wrong([one(), one()]))
    with pytest.raises(ConfigurationError, match="quorum of 2"):
        await quorum(2, one())


async def test_no_parts_give_no_results() -> None:
    assert await gather() == ()
