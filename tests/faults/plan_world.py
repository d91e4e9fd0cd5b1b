"""The plan that storms act on: all kinds of nodes, with functions, tools and agents, some of which act once only."""

__all__ = ["PlanWorld"]

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.faults.world import STEPS, World
from ziggurat import Context, Runnable
from ziggurat.errors import NotRepeatable
from ziggurat.flows import ask, step
from ziggurat.journal import Store
from ziggurat.plans import Branch, Loop, Map, Parallel, Sequence, Task, workflow
from ziggurat.plans.nodes import Node


class PlanWorld(World):
    """Makes the plan as each process makes it again."""

    with_intent = frozenset({"pay", "sign"})

    def agent(self, store: Store | str, steps: int = STEPS) -> Runnable[Any]:
        """Return the plan of some `steps` outermost nodes."""
        _, self._pay, self._sign = self.tools()
        self._helper = self.helper()
        nodes = [self._node(number) for number in range(1, steps)]
        end = Task("end", function=_end)
        variables = {"turn": 0}
        return workflow(*nodes, end, name="worker", variables=variables, store=store)

    def _node(self, number: int) -> Node:
        name = f"n{number}"
        kinds: list[Callable[[str, int], Node]] = [
            self._noted, self._paid, self._parallel, self._map, self._loop, self._called, self._asked,
            self._waits,
        ]  # fmt: skip
        node = self._signed(name, number) if number == 9 else kinds[number % len(kinds)](name, number)
        return Sequence([node, Branch(self._acknowledges(name), Task(f"{name}_ok", function=_nothing))], f"s{number}")

    def _noted(self, name: str, number: Any) -> Task:
        async def note(ctx: Context, number: int) -> str:
            return f"{ctx.path}: {self.act(ctx, 'note', number)}"

        return Task(name, function=note, arguments={"number": number})

    def _paid(self, name: str, number: Any) -> Task:
        async def pay(ctx: Context, number: int) -> str:
            return f"{ctx.path}: {self.act(ctx, 'pay', number)}"

        return Task(name, function=pay, arguments={"number": number}, effect="once", on_failure="continue")

    def _waits(self, name: str, number: Any) -> Task:
        @step(context=True, effect="once")
        async def pay(ctx: Context, number: int) -> str:
            return f"{ctx.path}: {self.act(ctx, 'pay', number)}"

        async def waits(number: int) -> list[str]:
            said = ""
            with suppress(NotRepeatable):  # if it is unknown whether it took effect, it stays at that
                said = await pay(number)
            assert await ask("Go on?", bool)
            return [said]

        return Task(name, function=waits, arguments={"number": number})

    def _called(self, name: str, number: Any) -> Task:
        return Task(name, tool=self._pay, arguments={"number": number}, on_failure="continue")

    def _signed(self, name: str, number: Any) -> Task:
        return Task(name, tool=self._sign, arguments={"number": number}, on_failure="continue")

    def _asked(self, name: str, number: Any) -> Task:
        return Task(name, agent=self._helper, prompt=f"part {number}")

    def _parallel(self, name: str, number: int) -> Node:
        makers = (self._noted, self._paid, self._called, self._noted)
        parts = [make(f"{name}_{place}", number * 100 + place) for place, make in enumerate(makers)]
        return Parallel(parts, 3, name)

    def _map(self, name: str, number: int) -> Node:
        items = Task(f"{name}_items", function=_items, arguments={"number": number})
        return Sequence([items, Map(name, f"{name}_items", self._noted(f"{name}_each", "{item}"), limit=2)])

    def _loop(self, name: str, number: int) -> Node:
        turn = Task("turn", function=_next, arguments={"turn": "{turn}"})
        place = Task("place", function=_place, arguments={"number": number, "turn": "{turn}"})
        until: Callable[[Any], bool] = lambda values: values["turn"] % 3 == 0  # noqa: E731
        return Loop(Sequence([turn, place, self._paid(name, "{place}")]), 3, until)

    def _acknowledges(self, name: str) -> Callable[[Any], bool]:
        """Return a condition that acknowledges, to the outside, the results of functions that a node has given."""

        def acknowledge(values: Any) -> bool:
            said = values[name]
            for each in said if isinstance(said, list) else [said]:
                path, colon, _ = (each or "").partition(": ")
                if colon and "/" in path:
                    self.acknowledge(path, each)
            return True

        return acknowledge


async def _items(number: int) -> list[int]:
    return [number * 100 + place for place in range(4)]


async def _next(turn: int) -> int:
    return turn + 1


async def _place(number: int, turn: int) -> int:
    return number * 100 + turn


async def _nothing() -> None:
    return None


async def _end() -> str:
    return "done"
