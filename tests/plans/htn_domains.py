"""Random domains for HTN planning, and a planner of the tests that tries everything, to compare with."""

import random
from collections.abc import Iterable
from functools import cache
from typing import Any

from ziggurat.plans import Compound, Method, Primitive
from ziggurat.plans.htn import HtnStep, HtnTask

MAX_DEPTH, MAX_STEPS = 4, 5


class Domain:
    """Tasks, methods and a world, by chance."""

    def __init__(self, seed: int) -> None:
        chance = self._chance = random.Random(seed)
        primitives = [Primitive(f"p{each}", {"n": each}, self._conditions(), self._facts()) for each in range(4)]
        compounds = [Compound(f"c{each}") for each in range(4)]
        tasks: list[HtnTask] = [*primitives, *compounds]
        self.methods = [
            Method(f"c{each}", chance.choices(tasks, k=chance.randint(0, 3)), self._conditions())
            for each in range(3 + chance.randint(0, 1))
            for _ in range(chance.randint(1, 3))
        ]
        chance.shuffle(self.methods)
        self.world = self._facts() | {"a": True}
        self.goal: HtnTask = compounds[0] if seed % 20 else primitives[0]

    def world_after(self, tools: Iterable[str]) -> dict[str, Any]:
        """Return what holds after steps with these tools."""
        tasks = [self.goal, *(each for method in self.methods for each in method.subtasks)]
        effects = {each.tool: each.effects for each in tasks if isinstance(each, Primitive)}
        world = dict(self.world)
        for each in tools:
            world |= effects[each]
        return world

    def _facts(self) -> dict[str, Any]:
        return {name: self._chance.choice((True, False, 1)) for name in "abc" if not self._chance.randint(0, 2)}

    def _conditions(self) -> dict[str, Any]:
        one, other = self._chance.sample("abc", 2)
        tests = {f"{one} is {other}": lambda world: str(world.get(one)) == str(world.get(other))}
        return self._facts() | (tests if not self._chance.randint(0, 3) else {})


def endless(seed: int) -> list[Method]:
    """Return methods of any size, of which none comes to an end: all end with the goal again."""
    chance = random.Random(seed)

    def number() -> int:
        return int(10 ** chance.uniform(0, 3))

    def facts() -> dict[str, Any]:
        names = range(chance.choice((0, 0, 1, number())))
        return {str(name): name for name in names}

    def tasks() -> list[HtnTask]:
        each: HtnTask = chance.choice((Compound("part"), Primitive("p", {}, facts(), facts())))
        return [each] * chance.choice((0, 1, number()))

    methods = [Method("goal", [*tasks(), Compound("goal"), *tasks()], facts()) for _ in range(chance.randint(1, 9))]
    parts = [Method("part", [], facts() | {"no": chance.choice((1, True))}) for _ in range(number())]
    return [*methods, *parts, Method("part", [])]


Frozen = tuple[tuple[str, Any], ...]


class Everything:
    """Answers by trying everything: is there a plan, and is a sequence of steps a plan."""

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.tasks: dict[str, HtnTask] = {name_of(domain.goal): domain.goal}
        for method in domain.methods:
            self.tasks |= {name_of(each): each for each in method.subtasks}
        self.exists = cache(self._exists)

    def has_plan(self) -> bool:
        """Return whether there is a plan within the limits."""
        return self.exists(((name_of(self.domain.goal), 0),), frozen(self.domain.world), MAX_STEPS)

    def _exists(self, agenda: tuple[tuple[str, int], ...], world: Frozen, left: int) -> bool:
        if not agenda:
            return True
        return any(self.exists(*state) for _, state in self._next(agenda, world, left))

    def _next(self, agenda: Any, world: Frozen, left: int) -> Any:
        """Yield what may follow, with the tool that is called, if one is."""
        (name, depth), *rest = agenda
        task, holds = self.tasks[name], dict(world)
        if depth > MAX_DEPTH:
            return
        if isinstance(task, Primitive):
            if left and fits(task.preconditions, holds):
                yield name, (tuple(rest), frozen({**holds, **task.effects}), left - 1)
            return
        for method in self.domain.methods:
            if method.task == name and fits(method.preconditions, holds):
                subtasks = [(name_of(each), depth + 1) for each in method.subtasks]
                yield None, ((*subtasks, *rest), world, left)

    def is_plan(self, steps: tuple[HtnStep, ...]) -> bool:
        """Return whether the steps, in this order, are a plan."""
        tools = tuple(each.tool for each in steps)

        @cache
        def derives(agenda: Any, world: Frozen, number: int) -> bool:
            if not agenda:
                return number == len(tools)
            for tool, (following, after, _) in self._next(agenda, world, MAX_STEPS - number):
                if tool is None:
                    if derives(following, after, number):
                        return True
                elif number < len(tools) and tools[number] == tool and derives(following, after, number + 1):
                    return True
            return False

        return derives(((name_of(self.domain.goal), 0),), frozen(self.domain.world), 0)


def name_of(task: HtnTask) -> str:
    """Return the name of a task."""
    return task.tool if isinstance(task, Primitive) else task.name


def frozen(world: Any) -> Frozen:
    """Return a world that can be a key: its values as text, so that True and 1 differ."""
    return tuple(sorted((name, str(value)) for name, value in world.items()))


def fits(preconditions: Any, holds: dict[str, str]) -> bool:
    """Return whether all preconditions hold in a world whose values are text."""
    return all(
        value(holds) if callable(value) else holds.get(name) == str(value) for name, value in preconditions.items()
    )
