"""The teams that storms act on: every pattern, alone and nested, around a member that acts, signs and asks."""

__all__ = ["TeamWorld"]

import re
from zlib import crc32

from tests.faults.world import STEPS, World
from tests.teams.models import Answering, Reply
from tests.teams.patterns import EVERY, built, member
from ziggurat import Agent, Context, ModelRequest, Runnable, tool
from ziggurat.flows import ask
from ziggurat.journal import Store
from ziggurat.messages import tool_call
from ziggurat.teams import handoffs, sequential_handoff


class TeamWorld(World):
    """Makes a team as each process makes it again; the number of the run in its ledger's name says which one."""

    def agent(self, store: Store | str, steps: int = STEPS) -> Runnable[str]:
        """Return one of the teams, and an agent after it that answers ``done``."""

        @tool
        async def note(ctx: Context) -> str:
            """Write down; may be done again under the same key."""
            return self._do(ctx, "note")

        @tool(effect="once")
        async def pay(ctx: Context) -> str:
            """Pay; must not be done twice."""
            return self._do(ctx, "pay")

        @tool(effect="once", approval=True)
        async def sign(ctx: Context) -> str:
            """Sign, when a person has agreed; must not be done twice."""
            return self._do(ctx, "sign")

        @tool
        async def inquire() -> str:
            """Ask a person."""
            return f"answered {await ask('Go on?', bool)}"

        worker = Agent(Answering(_next_calls), name="worker", tools=[note, pay, sign, inquire])
        numbers = re.findall(r"\d+", self.ledger.path.stem)
        team = built(EVERY[int(numbers[-1]) % len(EVERY) if numbers else 0], worker)
        end = member("end", "done")
        return handoffs(team, end, policy=sequential_handoff(), next_turn="first", name="storm", store=store)

    def _do(self, ctx: Context, name: str) -> str:
        return self.act(ctx, name, crc32(ctx.path.encode()))


def _next_calls(request: ModelRequest) -> Reply:
    """Return what the worker calls next in its turn: it notes and pays, then signs, then asks, then answers."""
    results: list[str] = []
    for message in reversed(request.messages):
        if message.role == "user":
            break
        results += [result.name for result in message.tool_results]
    for names in (("note", "pay"), ("sign",), ("inquire",)):
        if not set(names) <= set(results):
            return [tool_call(name, id=f"{name}-{len(results)}") for name in names]
    return "sent"
