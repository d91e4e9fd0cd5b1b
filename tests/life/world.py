"""The world around the runs: tools that keep a ledger of effects, a model that follows a plan, stores that can die."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat import Agent, Approve, Budget, Context, Deny, ModelRequest, ModelResponse, Modify, tool
from ziggurat.core.errors import ModelError, ToolError
from ziggurat.messages.agent import PendingItem
from ziggurat.messages.message import Message, assistant
from ziggurat.messages.parts import ToolCall
from ziggurat.messages.usage import Usage

PER_CALL = 11
"""Tokens of one model call."""

CHANGED = 100_000
"""Added to the number of a call that a person modified."""

Call = tuple[str, int]
"""A tool of the plan and the number that it is called with, which is unique in the plan."""


class Plan(Struct, frozen=True):
    """What a run does: batches of calls, one a step, then a final answer."""

    name: str
    steps: tuple[tuple[Call, ...], ...]

    def prompt(self) -> str:
        """Return the prompt from which the model reads the plan."""
        return "plan " + msgspec.json.encode(self).decode()


class World:
    """What outlives every process: the ledger of effects, and the number of model calls really made.

    Attributes:
        ledger: One line per effect: the tool, the key of the call, the number it was called with.
        asked: The number of model calls made live.
        seen: By the name of each plan, the conversation that the model was asked with first.
    """

    def __init__(self) -> None:
        self.ledger: list[tuple[str, str, int]] = []
        self.asked = 0
        self.seen: dict[str, Sequence[Message]] = {}

    def effects(self, name: str, run_id: str) -> list[tuple[str, int]]:
        """Return the keys and numbers with which a tool took effect in a run."""
        return [(key, n) for tool_name, key, n in self.ledger if tool_name == name and key.startswith(f"{run_id}:")]

    def note(self, name: str, ctx: Context, n: int) -> str:
        """Write one effect into the ledger and return the result of the call."""
        self.ledger.append((name, ctx.idempotency_key, n))
        return f"{name} {n}"


def _answer(steps: Sequence[Sequence[Call]], turn: int, prefix: str) -> ModelResponse:
    if turn >= len(steps):
        reply = assistant(f"done after {turn}")
    else:
        reply = assistant(
            *(ToolCall(f"{prefix}{turn}-{at}", name, _arguments(name, n)) for at, (name, n) in enumerate(steps[turn]))
        )
    return ModelResponse(reply, "tool_calls" if reply.tool_calls else "stop", Usage(PER_CALL - 1, 1, requests=1))


def _arguments(name: str, n: int) -> str:
    return msgspec.json.encode({"input": f"inner {n}"} if name == "helper" else {"n": n}).decode()


class Process:
    """One process: an agent over a store, which ends when the process dies.

    Args:
        world: What the tools act on.
        store: The store, shared with the other processes by its place.
        breaks_at: The step at which the model fails for good; None for never.
        requests: The budget of model calls; None for no budget.
        instructions: The instructions of the agent.
    """

    def __init__(
        self,
        world: World,
        store: Any,
        *,
        breaks_at: int | None = None,
        requests: int | None = None,
        instructions: str = "Follow the plan.",
    ) -> None:
        self.world, self.store, self.breaks_at, self.requests = world, store, breaks_at, requests
        inner = Agent(self._inner, tools=self._tools()[:3], name="helper", description="Does the inner plan.")
        self.agent = Agent(
            self._outer,
            tools=[*self._tools(), inner],
            store=store,
            name="planner",
            instructions=instructions,
            max_steps=50,
            budget=None if requests is None else Budget(requests=requests),
        )

    def _tools(self) -> list[Any]:
        world = self.world

        @tool(effect="none")
        async def look(n: int, ctx: Context) -> str:
            """Look something up."""
            return world.note("look", ctx, n)

        @tool(effect="once")
        async def pay(n: int, ctx: Context) -> str:
            """Pay."""
            paid = world.note("pay", ctx, n)
            await asyncio.sleep(0)
            return paid

        @tool(approval=True)
        async def send(n: int, ctx: Context) -> str:
            """Send, which a person must approve."""
            await asyncio.sleep(0)
            return world.note("send", ctx, n)

        @tool(approval=True, effect="once")
        async def wire(n: int, ctx: Context) -> str:
            """Send money, which a person must approve, and only once."""
            return world.note("wire", ctx, n)

        @tool
        async def fail(n: int) -> str:
            """Fail."""
            raise ToolError(f"failed {n}", kind="permanent")

        return [look, pay, send, wire, fail]

    async def _outer(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        self.world.asked += 1
        await asyncio.sleep(0)
        prompts = [
            at
            for at, message in enumerate(request.messages)
            if message.role == "user" and message.text.startswith("plan ")
        ]
        plan = msgspec.json.decode(request.messages[prompts[-1]].text[5:], type=Plan)
        self.world.seen.setdefault(plan.name, tuple(request.messages))
        turn = sum(message.role == "assistant" for message in request.messages[prompts[-1] :])
        if turn == self.breaks_at:
            raise ModelError("the model is broken", transient=False)
        return _answer(plan.steps, turn, "c")

    async def _inner(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        self.world.asked += 1
        prompt = next(message.text for message in request.messages if message.role == "user")
        turn = sum(message.role == "assistant" for message in request.messages)
        return _answer([inner_calls(int(prompt.split()[-1]))], turn, "i")


def inner_calls(n: int) -> list[Call]:
    """Return the one batch of the nested agent that was called with `n`."""
    return [("look", n * 100), ("send", n * 100 + 1), ("pay", n * 100 + 2)]


def decision(verdict: str, n: int) -> Any:
    """Return a decision on the call with a number."""
    return {"approve": Approve(), "deny": Deny("no"), "modify": Modify(f'{{"n":{n + CHANGED}}}')}[verdict]


def number_of(item: PendingItem) -> int:
    """Return the number that a waiting call has in its plan."""
    return int(item.call.arguments.partition(":")[2].rstrip("}"))


def numbers(call: Call) -> list[int]:
    """Return the numbers of a call and, for the nested agent, of its calls."""
    name, n = call
    return [n, *(inner for _, inner in inner_calls(n))] if name == "helper" else [n]
