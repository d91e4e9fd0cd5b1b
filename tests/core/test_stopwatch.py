import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.core.hand import HandClock
from tests.samples import amount
from ziggurat import Context
from ziggurat.core.clock import Stopwatch


@contextmanager
def branch_of(outer: Stopwatch) -> Iterator[Stopwatch]:
    """The stopwatch of one of several calls that are made at the same time."""
    with Context("call", watch=outer).branch() as ctx:
        assert ctx.watch is not None
        yield ctx.watch


class Node:
    """A small model of a call: it works unless it waits itself, or has calls below and none of them works."""

    def __init__(self, watch: Stopwatch, outer: "Node | None") -> None:
        self.watch = watch
        self.outer = outer
        self.below: list[Node] = []
        self.wait: ExitStack | None = None
        self.block = ExitStack()
        self.counted = 0.0

    def works(self) -> bool:
        return self.wait is None and (not self.below or any(each.works() for each in self.below))

    def all(self) -> "Iterator[Node]":
        yield self
        for each in self.below:
            yield from each.all()


def check(seed: int) -> None:
    chance, clock = random.Random(seed), HandClock(0.0)
    top = Node(Stopwatch(clock), None)
    for _ in range(60):
        node = chance.choice([*top.all()])
        match chance.randrange(4):
            case 0 if node.wait is None:
                branch = Node(node.watch, node)
                branch.watch = branch.block.enter_context(branch_of(node.watch))
                node.below.append(branch)
            case 1 if not node.below and node.outer is not None and node.wait is None:
                node.outer.below.remove(node)
                node.block.close()
            case 2 if not node.below and node.wait is None:
                node.wait = ExitStack()
                node.wait.enter_context(node.watch.waiting())
            case 3 if node.wait is not None:
                node.wait.close()
                node.wait = None
        seconds = chance.random()
        for each in top.all():
            each.counted += seconds if each.works() else 0.0
        clock.at += seconds
        for each in top.all():
            assert each.watch.elapsed == pytest.approx(each.counted)


def test_a_stopwatch_counts_while_a_call_below_it_works() -> None:
    for seed in range(amount(30, 200)):
        check(seed)


async def test_an_alarm_rings_when_the_seconds_are_counted_however_often_it_stops() -> None:
    clock, rung = HandClock(0.0), []
    watch = Stopwatch(clock)
    watch.limit(10, lambda: rung.append(clock.at))
    cancelled = watch.after(5, lambda: rung.append(-1.0))
    cancelled.cancel()
    for _ in range(4):
        await clock.advance(2)
        with watch.waiting():
            await clock.advance(100)
            assert watch.deadline == clock.at + 10 - watch.elapsed
    assert (watch.elapsed, rung) == (8, [])
    watch.discount(0)
    await clock.advance(3)
    assert rung == [410]


def test_time_in_which_nothing_could_work_counts_for_nobody_around() -> None:
    clock = HandClock(0.0)
    outer = Stopwatch(clock)
    with branch_of(outer) as one, branch_of(outer), one.waiting():
        clock.at += 5
        one.discount(5)
        assert (one.elapsed, outer.elapsed) == (0, 0)
        clock.at += 5
        assert (one.elapsed, outer.elapsed) == (0, 5)


def test_a_limit_that_was_cancelled_is_no_deadline() -> None:
    clock = HandClock(0.0)
    outer = Stopwatch(clock)
    outer.limit(10, lambda: None)
    inner = Stopwatch(clock, outer)
    limit = inner.limit(5, lambda: None)
    assert (inner.deadline, outer.deadline) == (5, 10)
    limit.cancel()
    assert (inner.deadline, outer.deadline, inner.limited) == (10, 10, True)
