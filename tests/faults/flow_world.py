"""The flow that storms act on: steps, some of which act once only, groups of them, a nested agent, and a question."""

__all__ = ["FlowWorld"]

from contextlib import suppress

from tests.faults.world import STEPS, Turns, World, helper_calls
from ziggurat.agents.agent import Agent
from ziggurat.agents.flow import flow
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.gather import gather
from ziggurat.calls.question import ask
from ziggurat.calls.step import step
from ziggurat.core.context import Context
from ziggurat.core.errors import NotRepeatable
from ziggurat.core.store import Store
from ziggurat.tools.function import tool


class FlowWorld(World):
    """Makes the flow as each process makes it again."""

    with_intent = frozenset({"pay"})

    def agent(self, store: Store | str, steps: int = STEPS) -> Runnable[str]:
        """Return the flow of some `steps` steps."""

        @step(context=True)
        async def note(ctx: Context, number: int) -> str:
            return self._do(ctx, "note", number)

        @step(context=True, effect="once")
        async def pay(ctx: Context, number: int) -> str:
            return self._do(ctx, "pay", number)

        @tool(name="note")
        async def note_tool(number: int, ctx: Context) -> str:
            """Write down; may be done again under the same key."""
            return self.act(ctx, "note", number)

        @tool(name="pay", effect="once")
        async def pay_tool(number: int, ctx: Context) -> str:
            """Pay; must not be done twice."""
            return self.act(ctx, "pay", number)

        helper = Agent(Turns("helper_model", 3, helper_calls), name="helper", tools=[note_tool, pay_tool])

        async def paid(number: int) -> None:
            with suppress(NotRepeatable):  # if it is unknown whether it took effect, it stays at that
                self._acknowledge(await pay(number))

        async def part(number: int) -> None:
            self._acknowledge(await note(number))
            if number % 2:
                await paid(number)

        async def turn(number: int) -> None:
            if number % 7 == 3:
                await gather(*(part(number * 100 + place) for place in range(4)), limit=3)
            elif number % 7 == 5:
                await paid(number)
            elif number % 7 == 6:
                await helper.run(f"part {number}")
            elif number == 9:
                assert await ask("Go on?", bool)
            else:
                await part(number)

        @flow(name="worker", store=store)
        async def worker(prompt: str) -> str:
            for number in range(1, steps):
                await turn(number)
            return "done"

        return worker

    def _do(self, ctx: Context, name: str, number: int) -> str:
        return f"{ctx.path}: {self.act(ctx, name, number)}"

    def _acknowledge(self, said: str) -> None:
        """Acknowledge a step to the outside, whose result is on record when the flow has it."""
        path = said.partition(": ")[0]
        self.reached("before event", path)
        self.ledger.write(acknowledged=path, said=said)
        self.reached("after event", path)
