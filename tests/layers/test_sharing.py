"""Objects that layers share, used by several event loops at once and by calls beneath calls: nothing hangs."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.samples import pairs
from ziggurat import Agent, AgentRequest, AgentRun, Context, stack, tool, user
from ziggurat.core import root
from ziggurat.core.context import RUN_ID
from ziggurat.errors import LimitExceeded, ModelError
from ziggurat.layers import Bulkhead, CacheStore, CircuitBreaker, DedupeStore, Gate, RateLimiter, RetryBudget
from ziggurat.layers.cache import cache, dedupe
from ziggurat.layers.circuit_breaker import circuit_breaker
from ziggurat.layers.concurrency_limit import backpressure, concurrency_limit
from ziggurat.layers.rate_limiter import rate_limit
from ziggurat.layers.retry import retry
from ziggurat.messages import stops, tool_call
from ziggurat.middleware import everywhere
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.timeout(30)

THREADS, CALLS = 4, 60


def in_threads(work: Callable[[int], Coroutine[Any, Any, None]]) -> None:
    """Run the same work in several threads, each with an event loop of its own."""
    failed: list[BaseException] = []

    def run(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    if failed:
        raise failed[0]


class Counting:
    """A service that counts how many of its calls run at the same time, over all threads."""

    def __init__(self, *, fails: bool = False) -> None:
        self.lock = threading.Lock()
        self.now = self.most = self.calls = 0
        self.fails = fails

    async def __call__(self, request: object, ctx: Context) -> object:
        with self.lock:
            self.calls += 1
            self.now += 1
            self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        with self.lock:
            self.now -= 1
        if self.fails:
            raise ModelError("down", kind="server")
        return request


def test_a_bulkhead_holds_its_limit_over_all_event_loops() -> None:
    bulkhead, counting = Bulkhead(3), Counting()
    service = stack(counting, concurrency_limit(bulkhead=bulkhead))

    async def work(number: int) -> None:
        context = root().within(RUN_ID, f"r-{number}")
        await asyncio.gather(*[service(each, context.at(str(each))) for each in range(CALLS)])

    in_threads(work)
    assert (counting.calls, counting.most <= 3) == (THREADS * CALLS, True)
    assert (bulkhead.running, bulkhead.waiting) == (0, 0)


def test_a_rate_limiter_holds_its_limit_over_all_event_loops() -> None:
    limiter, counting = RateLimiter(requests=5, seconds=0.02, max_wait=20), Counting()
    service = stack(counting, rate_limit(limiter=limiter))

    async def work(number: int) -> None:
        await asyncio.gather(*[service(each, root()) for each in range(10)])

    in_threads(work)
    assert counting.calls == THREADS * 10
    assert limiter.waiting == 0


def test_an_event_loop_that_is_closed_takes_neither_slots_nor_turns_with_it() -> None:
    bulkhead, limiter = Bulkhead(1), RateLimiter(requests=1, seconds=0.01)

    async def hang(request: object, ctx: Context) -> object:
        return await asyncio.get_running_loop().create_future()

    def abandoned(service: Any) -> None:
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(service(number, root())) for number in range(2)]
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    async def answer(request: object, ctx: Context) -> object:
        return request

    abandoned(stack(hang, rate_limit(limiter=limiter)))
    assert asyncio.run(stack(answer, rate_limit(limiter=limiter))("x", root())) == "x"
    assert bulkhead.take("another call")
    abandoned(stack(hang, concurrency_limit(bulkhead=bulkhead)))
    bulkhead.release("another call")
    assert asyncio.run(stack(answer, concurrency_limit(bulkhead=bulkhead))("x", root())) == "x"
    assert (bulkhead.running, bulkhead.waiting) == (0, 0)


def test_a_gate_counts_over_all_event_loops() -> None:
    gate, counting, refused = Gate(3), Counting(), [0] * THREADS
    service = stack(counting, backpressure(gate=gate))

    async def work(number: int) -> None:
        ends = await asyncio.gather(*[service(each, root()) for each in range(CALLS)], return_exceptions=True)
        refused[number] = sum(isinstance(end, LimitExceeded) for end in ends)

    in_threads(work)
    assert counting.most <= 3
    assert counting.calls + sum(refused) == THREADS * CALLS
    assert gate.depth == 0


@pytest.mark.parametrize("fails", [False, True])
def test_breakers_budgets_caches_and_dedupe_work_over_all_event_loops(fails: bool) -> None:
    counting = Counting(fails=fails)
    breaker = CircuitBreaker(failure_rate=0.9, minimum_calls=20, open_seconds=0.001, permits=3)
    service = stack(
        counting,
        cache(store=CacheStore(5), key=str),
        dedupe(store=DedupeStore(seconds=0.01), key=str),
        retry(attempts=2, base=0, budget=RetryBudget(seconds=0.01)),
        circuit_breaker(breaker=breaker),
    )

    async def work(number: int) -> None:
        asked = [service(f"q-{each % 20}", root()) for each in range(CALLS)]
        ends = await asyncio.gather(*asked, return_exceptions=True)
        for each, end in enumerate(ends):
            assert end == f"q-{each % 20}" if not fails else isinstance(end, ModelError | LimitExceeded)

    in_threads(work)


TREES: st.SearchStrategy[list[Any]] = st.recursive(
    st.just([]), lambda below: st.lists(below, max_size=3), max_leaves=12
)


class Tree:
    """A service that makes the calls of a tree, all through the same layer, and does something at each of its nodes."""

    def __init__(self, bulkhead: Bulkhead, *, together: bool) -> None:
        self.service = stack(self, concurrency_limit(bulkhead=bulkhead))
        self.together = together
        self.busy = self.most = self.calls = 0

    async def __call__(self, request: Any, ctx: Context) -> int:
        await self.work()
        below = [(each, ctx.under("call")) for each in request]
        if self.together:
            counts = await asyncio.gather(*[self.service(each, at) for each, at in below])
        else:
            counts = [await self.service(each, at) for each, at in below]
        await self.work()
        return 1 + sum(counts)

    async def work(self) -> None:
        self.calls += 1
        self.busy += 1
        self.most = max(self.most, self.busy)
        try:
            await asyncio.sleep(0)
        finally:
            self.busy -= 1


def size(tree: Any) -> int:
    return 1 + sum(map(size, tree))


@given(st.lists(TREES, max_size=4), st.integers(1, 3), st.booleans(), st.integers(0, 40))
def test_calls_beneath_calls_share_a_bulkhead_and_all_end(
    trees: list[Any], limit: int, together: bool, cancelled_after: int
) -> None:
    bulkhead = Bulkhead(limit)
    tree = Tree(bulkhead, together=together)

    async def main() -> None:
        contexts = [root(f"tree-{number}").within(RUN_ID, f"r-{number}") for number in range(len(trees))]
        tasks = [
            asyncio.create_task(tree.service(each, context)) for each, context in zip(trees, contexts, strict=True)
        ]
        for _ in range(cancelled_after):
            await asyncio.sleep(0)
        if tasks and cancelled_after:
            tasks[0].cancel()
        async with asyncio.timeout(2):
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for number, (each, end) in enumerate(zip(trees, ends, strict=True)):
            assert end == size(each) or (number == 0 and isinstance(end, asyncio.CancelledError))

    asyncio.run(main())
    assert tree.most <= limit
    assert (bulkhead.running, bulkhead.waiting, bulkhead._inside, bulkhead._blocked) == (0, 0, set(), {})


@pytest.mark.parametrize("limit", [1, 2])
async def test_the_same_bulkhead_may_be_around_a_call_twice(limit: int) -> None:
    bulkhead = Bulkhead(limit)

    async def answer(request: object, ctx: Context) -> object:
        return request

    async def outer(request: object, ctx: Context) -> object:
        return await stack(answer, concurrency_limit(bulkhead=bulkhead))(request, ctx.under("below"))

    twice = stack(outer, concurrency_limit(bulkhead=bulkhead), concurrency_limit(bulkhead=bulkhead))
    contexts = [root(str(each)).within(RUN_ID, "r") for each in range(5)]
    async with asyncio.timeout(5):
        assert await asyncio.gather(*[twice(each, ctx) for each, ctx in enumerate(contexts)]) == [0, 1, 2, 3, 4]
    assert (bulkhead.running, bulkhead._inside, bulkhead._borrowed) == (0, set(), set())


@pytest.mark.parametrize("limit", [1, 2])
async def test_agents_and_their_tools_share_a_bulkhead(limit: int) -> None:
    bulkhead = Bulkhead(limit)

    @tool
    async def look(text: str) -> str:
        await asyncio.sleep(0)
        return "found"

    calls = [tool_call("look", id="1", text="a"), tool_call("look", id="2", text="b")]
    inner = Agent(ScriptedModel(calls, "in", calls, "in"), tools=[look], name="inner")
    asked = [tool_call("inner", id="1", input="a"), tool_call("inner", id="2", input="b")]
    around = everywhere(
        model=[concurrency_limit(bulkhead=bulkhead)],
        tool=[concurrency_limit(bulkhead=bulkhead)],
        agent=[concurrency_limit(bulkhead=bulkhead)],
    )
    agent = Agent(ScriptedModel(asked, "end"), tools=[inner], middleware=[around])
    async with asyncio.timeout(5):
        run = await agent.run("x")
    assert (run.stop, run.text) == (stops.Completed(), "end")
    assert (bulkhead.running, bulkhead.waiting) == (0, 0)


HELD: dict[str, Callable[[], Any]] = {
    "bulkhead": lambda: concurrency_limit(bulkhead=Bulkhead(1)),
    "bulkhead without a queue": lambda: concurrency_limit(bulkhead=Bulkhead(1, queue=0)),
    "dedupe": lambda: dedupe(store=DedupeStore(), key=lambda request: "the same"),
    "half-open breaker": lambda: circuit_breaker(breaker=half_open()),
}
"""Layers that let one call pass until it ends."""


def half_open() -> CircuitBreaker:
    """Return a breaker whose next call is its only trial."""
    breaker = CircuitBreaker(consecutive=1, open_seconds=1e-9)

    async def fail(request: object, ctx: Context) -> object:
        raise ModelError("down", kind="server")

    with pytest.raises(ModelError):
        asyncio.run(stack(fail, circuit_breaker(breaker=breaker))("x", root()))
    return breaker


def plainly(ctx: Context) -> Context:
    return ctx.under("below")


def alone(ctx: Context) -> Context:
    return root()


@pytest.mark.parametrize("context", [plainly, alone])
@pytest.mark.parametrize("held", HELD)
def test_a_call_beneath_the_one_that_holds_it_is_made_also_outside_of_runs(
    held: str, context: Callable[[Context], Context]
) -> None:
    around = HELD[held]()

    async def service(request: int, ctx: Context) -> str:
        return "end" if request == 0 else await layered(request - 1, context(ctx))

    layered = stack(service, around)
    twice = stack(layered, around)

    async def main() -> str:
        async with asyncio.timeout(5):
            return await twice(2, root())

    assert asyncio.run(main()) == "end"


@pytest.mark.parametrize(
    ("held", "how", "detached"), pairs(HELD, ["run", "run_sync", "start", "called"], [False, True])
)
def test_an_agent_that_a_tool_runs_is_beneath_the_tool(held: str, how: str, detached: bool) -> None:
    around = HELD[held]()
    helper = Agent(stack(ScriptedModel(always="helped"), around), name="helper")

    @tool(name="ask")
    async def ask() -> str:
        if how == "called":
            return (await helper(AgentRequest((user("q"),)), root())).text
        if how == "start":
            return (await helper.start("q", detached=detached).result()).text
        return (await helper.run("q", detached=detached)).text

    @tool(name="ask")
    def ask_in_thread() -> str:
        return helper.run_sync("q", detached=detached).text

    asking = stack(ask_in_thread if how == "run_sync" else ask, around)
    agent = Agent(ScriptedModel(tool_call("ask"), "end"), tools=[asking])

    async def main() -> AgentRun:
        async with asyncio.timeout(5):
            return await agent.run("x")

    run = asyncio.run(main())
    assert (run.text, run.observations) == ("end", ("helped",))


def test_a_trial_is_judged_by_its_own_end_and_not_by_calls_beneath_it() -> None:
    breaker = half_open()

    async def below(request: str, ctx: Context) -> str:
        return request

    async def trial(request: str, ctx: Context) -> str:
        await stack(below, circuit_breaker(breaker=breaker))(request, ctx.under("below"))
        assert breaker.state() == "half_open"
        raise ModelError("down", kind="server")

    with pytest.raises(ModelError):
        asyncio.run(stack(trial, circuit_breaker(breaker=breaker))("x", root()))
    assert breaker.state() == "open"


async def test_a_call_that_is_not_beneath_it_waits_for_the_slot_of_a_call_at_the_same_path() -> None:
    bulkhead, counting = Bulkhead(1), Counting()
    service = stack(counting, concurrency_limit(bulkhead=bulkhead))
    await asyncio.gather(service("a", root()), service("b", root().under("below")))
    assert (counting.calls, counting.most) == (2, 1)


@pytest.mark.parametrize("length", [1, 2, 3, 4])
async def test_calls_that_wait_for_each_other_in_a_circle_are_made(length: int) -> None:
    """Each call of a circle asks the next one what another caller is asking at the same time."""
    store = DedupeStore()
    services: list[Any] = []
    made: list[int] = []

    def member(number: int) -> Any:
        async def answer(request: int, ctx: Context) -> str:
            made.append(number)
            await asyncio.sleep(0)
            if request == 0:
                return "end"
            return str(await services[(number + 1) % length](request - 1, ctx.under("next")))

        return stack(answer, dedupe(store=store, key=lambda request: f"service-{number}"))

    services.extend(map(member, range(length)))
    contexts = [root("first").within(RUN_ID, f"r-{number}") for number in range(length)]
    async with asyncio.timeout(5):
        asked = [service(length + 1, at) for service, at in zip(services, contexts, strict=True)]
        assert list(await asyncio.gather(*asked)) == ["end"] * length
    assert store.in_progress == 0


async def test_agents_that_ask_each_other_through_dedupe_do_not_wait_for_ever() -> None:
    store = DedupeStore()
    agents: dict[str, Any] = {}

    def asking(other: str) -> Any:
        @tool(name="ask")
        async def ask() -> str:
            await asyncio.sleep(0)
            return str((await agents[other].run("the question")).text)

        return ask

    def key_for(name: str) -> Callable[[AgentRequest], str]:
        return lambda request: f"{name}: {request.messages[-1].text}"

    for name, other in (("a", "b"), ("b", "a")):
        model = ScriptedModel(rules=[(lambda request: len(request.messages) > 1, "end")], always=tool_call("ask"))
        agent = Agent(model, tools=[asking(other)], name=name)
        agents[name] = agent.layered(dedupe(store=store, key=key_for(name)))
    async with asyncio.timeout(5):
        runs = await asyncio.gather(agents["a"].run("the question"), agents["b"].run("the question"))
    for run in runs:
        assert run.stop in (stops.Completed(), stops.BudgetExceeded("depth", 8, 9))
