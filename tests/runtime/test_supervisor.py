"""The supervisor beside its specification: strategies, restart types, ends and shutdowns, and a model of its states."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import product
from typing import Any, Literal

import pytest

from tests.samples import SEED, amount
from ziggurat import ConfigurationError
from ziggurat.core import root
from ziggurat.errors import ServiceError
from ziggurat.events import ChildEnded, ChildStarted
from ziggurat.runtime import Child, ChildNotStarted, RestartsExceeded, Shutdown, Supervisor
from ziggurat.runtime.supervisor import Restart, Strategy
from ziggurat.testing import HandClock, run_until_idle

STRATEGIES: tuple[Strategy, ...] = ("one_for_one", "one_for_all", "rest_for_one", "dynamic")
RESTARTS: tuple[Restart, ...] = ("always", "on_failure", "never")
Exit = Literal["return", "shutdown", "error", "exit", "cancel"]
FAILURES: tuple[Exit, ...] = ("error", "exit", "cancel")
EXITS: tuple[Exit, ...] = ("return", "shutdown", *FAILURES)


class World:
    """Children that end when they are told to, and a log of their starts and ends."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.orders: dict[str, asyncio.Future[Exit]] = {}

    def child(self, name: str, **options: Any) -> Child:
        async def work() -> None:
            self.log.append(f"+{name}")
            self.orders[name] = order = asyncio.get_running_loop().create_future()
            try:
                how = await order
            finally:
                self.log.append(f"-{name}")
            match how:
                case "shutdown":
                    raise Shutdown
                case "error":
                    raise ValueError(name)
                case "exit":
                    raise SystemExit(1)
                case "cancel":
                    raise asyncio.CancelledError

        return Child(name, work, **options)

    async def end(self, name: str, how: Exit) -> None:
        self.orders[name].set_result(how)
        await run_until_idle()

    def taken(self) -> str:
        """Return what has happened since the last call."""
        log, self.log = " ".join(self.log), []
        return log


def stubborn(release: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def work() -> None:
        for _ in range(3):  # not for ever, so that a test that fails can end
            with suppress(asyncio.CancelledError):
                await release.wait()
                return

    return work


async def running(supervisor: Supervisor) -> "asyncio.Task[None]":
    task = asyncio.create_task(supervisor.run())
    await run_until_idle()
    return task


async def ended(supervisor: Supervisor, task: "asyncio.Task[None]") -> None:
    supervisor.shutdown()
    await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("restart", RESTARTS)
async def test_every_end_restarts_what_the_strategy_says(strategy: Strategy, restart: Restart) -> None:
    for how, shutdown in product(EXITS, (0, 5, None)):
        world, clock = World(), HandClock()
        options: dict[str, Any] = {"shutdown": shutdown}
        children = [
            world.child("a", **options),
            world.child("b", restart=restart, **options),
            world.child("c", **options),
        ]
        supervisor = Supervisor(children, strategy=strategy, max_restarts=1, clock=clock)
        task = await running(supervisor)
        assert world.taken() == "+a +b +c"
        await world.end("b", how)
        again = restart == "always" or (restart == "on_failure" and how in FAILURES)
        group = {"one_for_all": "-b -c -a +a +b +c", "rest_for_one": "-b -c +b +c"}.get(strategy, "-b +b")
        assert world.taken() == (group if again else "-b")
        assert supervisor.statistics.total_restarts == again
        await ended(supervisor, task)
        rest = "-c -b -a" if again else "-c -a"
        assert world.taken() == rest
        assert supervisor.statistics.leaked == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_child_that_ignores_its_cancellation_is_left_behind(strategy: Strategy) -> None:
    for restart, shutdown in product(RESTARTS, (0, 5, None)):
        world, clock, release = World(), HandClock(), asyncio.Event()
        children = [world.child("a"), Child("b", stubborn(release), restart, shutdown)]
        supervisor = Supervisor(children, strategy=strategy, clock=clock)
        task = await running(supervisor)
        supervisor.shutdown()
        await clock.advance(0)
        assert task.done() == (shutdown == 0)
        await clock.advance(5)
        assert task.done() == (shutdown is not None)
        assert supervisor.statistics.leaked == (shutdown is not None)
        release.set()
        await task
        await run_until_idle()
        assert supervisor.statistics.leaked == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("limit", [0, 1, 3])
async def test_one_restart_more_than_is_allowed_ends_the_supervisor(limit: int) -> None:
    world, clock = World(), HandClock()
    supervisor = Supervisor([world.child("a"), world.child("b")], max_restarts=limit, period=5, clock=clock)
    task = await running(supervisor)
    for _ in range(limit):
        await world.end("b", "error")
        assert not task.done()
    await clock.advance(5)  # still within the period
    world.taken()
    await world.end("b", "error")
    with pytest.raises(RestartsExceeded) as raised:
        await task
    assert isinstance(raised.value.__cause__, ValueError)
    assert world.taken() == "-b -a"


async def test_restarts_before_the_period_do_not_count() -> None:
    world, clock = World(), HandClock()
    supervisor = Supervisor([world.child("a")], max_restarts=1, period=5, clock=clock)
    task = await running(supervisor)
    for _ in range(5):
        await world.end("a", "error")
        await clock.advance(5.001)
    assert supervisor.statistics.total_restarts == 5
    await ended(supervisor, task)


async def test_restarts_multiply_over_three_levels() -> None:
    """The limits (1, 1, 1) allow 2 * 2 * 2 starts, then everything ends."""
    starts = 0

    async def crash() -> None:
        nonlocal starts
        starts += 1
        raise ValueError("again")

    low = Supervisor([Child("crash", crash)], name="low")
    middle = Supervisor([Child("low", low)], name="middle")
    high = Supervisor([Child("middle", middle)], name="high")
    with pytest.raises(RestartsExceeded):
        await high.run()
    assert starts == 8
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_a_child_that_does_not_start_stops_those_before_it(failing: int) -> None:
    world = World()

    async def broken(ready: Callable[[], None]) -> None:
        raise ValueError("no disk")

    children = [world.child(str(number)) for number in range(3)]
    children[failing] = Child("broken", broken, signals=True)
    with pytest.raises(ChildNotStarted, match="no disk"):
        await Supervisor(children).run()
    before = range(failing)
    assert world.taken() == " ".join([*(f"+{n}" for n in before), *(f"-{n}" for n in reversed(before))]) or not failing


async def test_children_start_one_after_the_other_when_they_are_ready() -> None:
    order, gate = [], asyncio.Event()

    async def slow(ready: Callable[[], None]) -> None:
        order.append("slow")
        await gate.wait()
        ready()
        await asyncio.Event().wait()

    async def quick() -> None:
        order.append("quick")
        await asyncio.Event().wait()

    supervisor = Supervisor([Child("slow", slow, signals=True), Child("quick", quick)])
    task = await running(supervisor)
    assert order == ["slow"]
    gate.set()
    await run_until_idle()
    assert order == ["slow", "quick"]
    await ended(supervisor, task)


async def test_a_restart_that_fails_is_tried_again_and_counts() -> None:
    tries = 0

    async def flaky(ready: Callable[[], None]) -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            ready()
        raise ValueError("no")

    with pytest.raises(RestartsExceeded):
        await Supervisor([Child("flaky", flaky, signals=True)], max_restarts=3).run()
    assert tries == 4


async def test_a_delay_before_a_restart_leaves_commands_possible() -> None:
    world, clock = World(), HandClock()
    supervisor = Supervisor([world.child("a"), world.child("b")], max_restarts=9, backoff=lambda n: 2.0**n, clock=clock)
    task = await running(supervisor)
    world.taken()
    await world.end("a", "error")
    assert [each.state for each in supervisor.statistics.children] == ["waiting", "running"]
    await supervisor.stop("b")
    await clock.advance(1.9)
    assert world.taken() == "-a -b"
    await clock.advance(0.1)
    assert world.taken() == "+a"
    await world.end("a", "error")
    await supervisor.stop("a")  # while it waits for its restart
    await clock.advance(100)
    assert world.taken() == "-a"
    await ended(supervisor, task)


@pytest.mark.parametrize(("kind", "ends"), [("any_significant", 1), ("all_significant", 2)])
async def test_significant_children_end_the_supervisor(kind: Any, ends: int) -> None:
    world = World()
    options = {"significant": True, "restart": "never"}
    children = [world.child("a", **options), world.child("b", **options), world.child("c")]
    supervisor = Supervisor(children, auto_shutdown=kind)
    task = await running(supervisor)
    for number, name in enumerate("ab"[:ends], 1):
        assert not task.done()
        await world.end(name, "error")
        assert task.done() == (number == ends)
    await task
    with pytest.raises(ConfigurationError, match="significant"):
        Supervisor([world.child("a", significant=True)], auto_shutdown=kind)


async def test_a_child_with_a_limit_of_its_own_fails_alone() -> None:
    world = World()
    supervisor = Supervisor(
        [world.child("a", max_restarts=2), world.child("b")], strategy="one_for_all", max_restarts=99
    )
    task = await running(supervisor)
    for _ in range(3):
        await world.end("a", "error")
    assert [(each.state, each.restarts) for each in supervisor.statistics.children] == [("failed", 2), ("running", 0)]
    await world.end("b", "error")  # what has failed is not started again with others
    assert [each.state for each in supervisor.statistics.children] == ["failed", "running"]
    await ended(supervisor, task)


async def test_events_name_the_child_and_its_error() -> None:
    events: list[Any] = []
    world = World()
    supervisor = Supervisor([world.child("a")], name="pool")
    task = asyncio.create_task(supervisor.run(ctx=root("app").heard_by(events.append)))
    await run_until_idle()
    await world.end("a", "error")
    await ended(supervisor, task)
    path = "app/pool/a"
    assert events == [
        ChildStarted(path, "a", 0),
        ChildEnded(path, "a", events[1].error),
        ChildStarted(path, "a", 1),
        ChildEnded(path, "a", "", stopped=True),
    ]
    assert "ValueError" in events[1].error


async def test_a_block_has_its_children_and_is_cancelled_when_the_supervisor_gives_up() -> None:
    world = World()
    async with Supervisor([world.child("a")]) as supervisor:
        assert world.taken() == "+a"
        await supervisor.add(world.child("b"))
        assert repr(supervisor) == "Supervisor(a, b)"
    assert world.taken() == "+b -b -a"
    with pytest.raises(RestartsExceeded):
        async with Supervisor([world.child("a")], max_restarts=0):
            world.orders["a"].set_result("error")
            await asyncio.Event().wait()
    current = asyncio.current_task()
    assert current is not None
    assert not current.cancelling()
    with pytest.raises(KeyError):
        async with Supervisor([world.child("a")]):
            raise KeyError
    assert asyncio.all_tasks() == {current}


@pytest.mark.parametrize("turns", range(12))
async def test_a_supervisor_that_is_cancelled_at_any_turn_leaves_no_orphan(turns: int) -> None:
    world = World()
    inner = Supervisor([world.child("x"), world.child("y")], name="inner")
    supervisor = Supervisor([world.child("a"), Child("inner", inner), world.child("b")], strategy="one_for_all")
    task = asyncio.create_task(supervisor.run())
    for turn in range(turns):
        await asyncio.sleep(0)
        if turn == 6 and "a" in world.orders:
            world.orders["a"].set_result("error")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_child_that_is_being_added_ends_with_the_supervisor() -> None:
    async def never_ready(ready: Callable[[], None]) -> None:
        await asyncio.Event().wait()

    supervisor = Supervisor()
    task = await running(supervisor)
    adding = asyncio.create_task(supervisor.add(Child("slow", never_ready, signals=True)))
    await run_until_idle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises((asyncio.CancelledError, ServiceError)):
        await adding
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_error_of_the_block_names_that_of_the_supervisor() -> None:
    world = World()
    with pytest.raises(KeyError) as raised:
        async with Supervisor([world.child("a")], max_restarts=0):
            world.orders["a"].set_result("error")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise KeyError from None
    assert "supervisor" in raised.value.__notes__[0]


async def test_commands_need_a_known_child_and_a_running_supervisor() -> None:
    world = World()
    supervisor = Supervisor([world.child("a")])
    with pytest.raises(ConfigurationError, match="not running"):
        await supervisor.stop("a")
    with pytest.raises(ConfigurationError, match="'a'"):
        Supervisor([world.child("a"), world.child("a")])
    async with supervisor:
        with pytest.raises(ConfigurationError, match="running already"):
            await supervisor.run()
        with pytest.raises(ConfigurationError, match="'b'"):
            await supervisor.remove("b")
        with pytest.raises(ConfigurationError, match="'a'"):
            await supervisor.add(world.child("a"))


# -- a model of the states -------------------------------------------------------------------------------------------


class Model:
    """The specification: the states of the children, and who is started when one of them ends."""

    def __init__(self, strategy: str, limit: int, period: float) -> None:
        self.strategy, self.limit, self.period = strategy, limit, period
        self.up: dict[str, bool] = {}
        self.kinds: dict[str, str] = {}
        self.times: list[float] = []
        self.over = False

    def ended(self, name: str, how: Exit, now: float) -> list[str]:
        """Return the names of those that are started then, in order."""
        kind = self.kinds[name]
        if kind == "never" or (kind == "on_failure" and how not in FAILURES):
            self.up[name] = False
            return []
        self.times = [time for time in self.times if now - time <= self.period] + [now]
        if len(self.times) > self.limit:
            self.over = True
            return []
        names = list(self.up)
        first = {"one_for_all": 0, "rest_for_one": names.index(name)}.get(self.strategy)
        group = [name] if first is None else [each for each in names[first:] if self.up[each]]
        for each in group:
            self.up[each] = self.kinds[each] != "never"
        return [each for each in group if self.up[each]]


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_random_orders_agree_with_the_model(strategy: Strategy) -> None:
    chance = random.Random(f"{SEED} {strategy}")
    steps = 0
    while steps < amount(500, 2_500):
        world, clock = World(), HandClock()
        model = Model(strategy, limit=chance.randint(0, 4), period=5)
        supervisor = Supervisor([], strategy=strategy, max_restarts=model.limit, period=5, clock=clock)
        task = await running(supervisor)
        for number in range(chance.randint(1, 40)):
            steps += 1
            world.taken()
            started = await step(chance, number, world, model, supervisor, clock)
            if model.over:
                with pytest.raises(RestartsExceeded):
                    await task
                break
            assert [each[1:] for each in world.taken().split() if each[0] == "+"] == started
            states = {each.name: each.state == "running" for each in supervisor.statistics.children}
            assert list(states.items()) == list(model.up.items())
        if not model.over:
            await ended(supervisor, task)


async def step(
    chance: random.Random, number: int, world: World, model: Model, supervisor: Supervisor, clock: HandClock
) -> list[str]:
    """Do something to a supervisor and its model; return the names of the children that are to be started."""
    alive = [name for name, up in model.up.items() if up]
    name = chance.choice(list(model.up)) if model.up else ""
    match chance.choice(["add", "end", "end", "end", "stop", "restart", "remove", "wait"]):
        case "end" if alive:
            how: Exit = chance.choice(EXITS)
            name = chance.choice(alive)
            await world.end(name, how)
            return model.ended(name, how, clock.monotonic())
        case "stop" if name:
            await supervisor.stop(name)
            model.up[name] = False
        case "restart" if name:
            await supervisor.restart(name)
            await run_until_idle()
            model.up[name] = True
            return [name]
        case "remove" if name:
            await supervisor.remove(name)
            del model.up[name], model.kinds[name]
        case "wait":
            await clock.advance(chance.choice([0.5, 2, 5.5]))
        case _:
            name, kind = f"n{number}", chance.choice(RESTARTS)
            await supervisor.add(world.child(name, restart=kind))
            await run_until_idle()
            model.up[name], model.kinds[name] = True, kind
            return [name]
    return []
