"""Storms over teams: random orders of completion, and random trees of agents, handoffs and grants.

``python -m tests.teams.storms --orders 1000 --trees 10000 --seed 7`` is the long form; the tests have short ones.
"""

import argparse
import asyncio
import logging
import random
import time
from collections.abc import Sequence

from tests.teams.models import Answering, after_tools
from tests.teams.patterns import EVERY, PATTERNS, built
from ziggurat import Agent, AgentRun, Context, Event, Middleware, ModelRequest, ModelResponse, Runnable, Service, tool
from ziggurat.events import AgentStarted, ModelStarted
from ziggurat.messages import tool_call
from ziggurat.teams import handoffs

PERMISSIONS = ["network", "file_read", "secret_access", "database_read"]


class Dawdle(Middleware):
    """Middleware that lets every model take some turns of the event loop before and after it answers."""

    def __init__(self, seed: object) -> None:
        self._chance = random.Random(str(seed))

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        await self._wait()
        response = await model(request, ctx)
        await self._wait()
        return response

    async def _wait(self) -> None:
        for _ in range(self._chance.randrange(6)):
            await asyncio.sleep(0)


def _worker() -> Agent:
    """Return an agent that uses two tools at the same time, one of which fails."""

    @tool
    async def look(where: str) -> str:
        """Look."""
        if where == "nowhere":
            raise ValueError("nothing there")
        return where

    calls = [tool_call("look", id="1", where="here"), tool_call("look", id="2", where="nowhere")]
    return Agent(Answering(after_tools("sent", *calls)), name="worker", tools=[look])


async def _heard(case: Sequence[str], seed: object) -> tuple[AgentRun, list[str]]:
    """Run a team whose models answer in a random order; return its run, and the paths of its agents and models."""
    paths: list[str] = []

    def note(event: Event) -> None:
        if isinstance(event, (AgentStarted, ModelStarted)):
            paths.append(event.path)

    run = await built(case, _worker(), middleware=[Dawdle(seed)]).run("go", listeners=[note])
    return run, sorted(paths)


async def orders(case: Sequence[str], count: int, seed: int) -> list[str]:
    """Run a team in random orders of completion, and return what differs between them, in words."""
    expected, expected_paths = await _heard(case, seed)
    wrong: list[str] = []
    for number in range(1, count):
        run, paths = await _heard(case, f"{seed} {number}")
        if list(run.messages) != list(expected.messages):
            wrong.append(f"{case}, order {number}: the history differs")
        if (run._output, run.stop, run.agent, run.steps, run.usage) != (
            expected._output,
            expected.stop,
            expected.agent,
            expected.steps,
            expected.usage,
        ):
            wrong.append(f"{case}, order {number}: the result differs")
        if paths != expected_paths:
            wrong.append(f"{case}, order {number}: the paths differ")
    return wrong


def tree(
    chance: random.Random, used: list[tuple[str, frozenset[str]]], allowed: frozenset[str], depth: int
) -> Runnable:
    """Return a random team of agents that use tools and hand over, some of them teams of any pattern."""
    own = frozenset(chance.sample(PERMISSIONS, 3)) if chance.random() < 0.4 else None
    within = allowed if own is None else allowed & own
    members: list[Runnable] = []
    for number in range(chance.randrange(1, 4)):
        if depth < 2 and chance.random() < 0.3:
            members.append(handoffs(tree(chance, used, within, depth + 1), name=f"team{depth}{number}"))
            continue
        needs = chance.choice(PERMISSIONS)

        @tool(name="act", permissions=[needs])
        def act(permission: str = needs, granted: frozenset[str] = within) -> str:
            """Act."""
            used.append((permission, granted))
            return "acted"

        calls = [tool_call("act", id="1"), tool_call("handoff_to_m0", id="2")]
        acting = Agent(Answering(after_tools("done", *calls)), name=f"m{number}", tools=[act])
        members.append(acting)
    if depth and chance.random() < 0.3:
        pattern = chance.choice(list(PATTERNS))
        return PATTERNS[pattern](members[0], name=f"{pattern}{depth}", grants=own)
    return handoffs(*members, name=f"desk{depth}", grants=own)


async def trees(count: int, seed: int) -> tuple[int, list[str]]:
    """Run random trees; return how often a tool was used, and each use that its run did not grant, in words."""
    chance = random.Random(seed)
    wrong: list[str] = []
    uses = 0
    for number in range(count):
        used: list[tuple[str, frozenset[str]]] = []
        granted = frozenset(chance.sample(PERMISSIONS, chance.randrange(1, len(PERMISSIONS) + 1)))
        await tree(chance, used, granted, 0).run("go", grants=granted)
        uses += len(used)
        wrong += [
            f"tree {number}: {each} was used, granted were {sorted(most)}" for each, most in used if each not in most
        ]
    return uses, wrong


async def _main(options: argparse.Namespace) -> int:
    logging.disable(logging.WARNING)  # each failure of a tool is logged
    began = time.monotonic()
    wrong: list[str] = []
    for case in EVERY:
        wrong += await orders(case, options.orders, options.seed)
    print(
        f"orders: {options.orders} of each of {len(EVERY)} teams, wrong {len(wrong)} {time.monotonic() - began:.1f} s"
    )
    began = time.monotonic()
    uses, widened = await trees(options.trees, options.seed)
    print(f"trees: {options.trees}, tools used {uses}, not granted {len(widened)} {time.monotonic() - began:.1f} s")
    for each in [*wrong, *widened][:20]:
        print(f"  {each}")
    return len(wrong) + len(widened)


def main() -> int:
    """Read the command line, and storm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--orders", type=int, default=1_000)
    parser.add_argument("--trees", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    return 1 if asyncio.run(_main(parser.parse_args())) else 0


if __name__ == "__main__":
    raise SystemExit(main())
