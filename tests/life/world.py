"""The world around the runs: tools that keep a ledger of effects, a model that follows a plan, stores that can die."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat import (
    Agent,
    Approve,
    Budget,
    Context,
    Deny,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    Modify,
    ToolError,
    tool,
)
from ziggurat.agents import DidNotHappen, Happened, PendingItem
from ziggurat.errors import ModelError
from ziggurat.messages import Message, ToolCall, Usage, assistant

PER_CALL = 11
"""Tokens of one model call."""

CHANGED = 10**12
"""Added to the number of a call that a person modified."""

_NESTED = {
    "helper": ("look", "send", "pay"),
    "manager": ("lose", "helper", "wire"),
    "chief": ("doubt", "manager", "look"),
}
"""The tools that each nested agent calls at once; those that are agents are nested deeper."""

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
        denied: The runs and numbers of calls of which a person said that they did not happen.
    """

    def __init__(self) -> None:
        self.ledger: list[tuple[str, str, int]] = []
        self.asked = 0
        self.seen: dict[str, Sequence[Message]] = {}
        self.denied: set[tuple[str, int]] = set()

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
    return msgspec.json.encode({"input": f"{name} {n}"} if name in _NESTED else {"n": n}).decode()


class Process:
    """One process: an agent over a store, which ends when the process dies."""

    def __init__(
        self,
        world: World,
        store: Any,
        *,
        breaks_at: int | None = None,
        requests: int | None = None,
        counted: str = "requests",
        instructions: str = "Follow the plan.",
    ) -> None:
        self.world, self.store, self.breaks_at = world, store, breaks_at
        self.requests, self.counted = requests, counted
        tools = {each.spec.name: each for each in self._tools()}
        for name, called in _NESTED.items():
            tools[name] = Agent(
                self._inner,
                tools=[tools[each] for each in called],
                name=name,
                description="Does the inner plan.",
                settings=_ONE_TOKEN,
                timeout=3600,
            )
        self.agent = Agent(
            self._outer,
            tools=[*tools.values()],
            settings=_ONE_TOKEN,
            store=store,
            name="planner",
            instructions=instructions,
            max_steps=50,
            budget=None if requests is None else _budget(counted, requests),
        )

    def _tools(self) -> list[Any]:
        world = self.world

        @tool(effect="none")
        async def look(n: int, ctx: Context) -> str:
            """Look something up."""
            return world.note("look", ctx, n)

        @tool(effect="once", interrupted="report")
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

        @tool(approval=True, effect="once", interrupted="report")
        async def wire(n: int, ctx: Context) -> str:
            """Send money, which a person must approve, and only once."""
            return world.note("wire", ctx, n)

        @tool(effect="once", interrupted="report")
        async def lose(n: int, ctx: Context) -> str:
            """Act, and time out: whether it took effect is reported as unknown."""
            world.note("lose", ctx, n)
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
            raise AssertionError

        @tool(effect="once")
        async def doubt(n: int, ctx: Context) -> str:
            """Act, and lose the connection, unless a person said that it did not happen before."""
            acted = world.note("doubt", ctx, n)
            if (ctx.run_id, n) not in world.denied:
                raise ConnectionResetError("the other side is gone")
            return acted

        @tool
        async def fail(n: int) -> str:
            """Fail."""
            raise ToolError(f"failed {n}", kind="permanent")

        return [look, pay, send, wire, lose, doubt, fail]

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
        name, n = prompt.split()
        return _answer([inner_calls(name, int(n))], turn, "i")


_ONE_TOKEN = ModelSettings(max_tokens=1)


def _budget(counted: str, limit: int) -> Budget:
    return Budget(requests=limit) if counted == "requests" else Budget(output=limit)


def inner_calls(name: str, n: int) -> list[Call]:
    """Return the one batch of a nested agent that was called with `n`; empty for other tools."""
    return [(inner, n * 100 + at) for at, inner in enumerate(_NESTED.get(name, ()))]


def decision(verdict: str, n: int) -> Any:
    """Return a decision on the call with a number."""
    decisions = {
        "approve": Approve(),
        "deny": Deny("no"),
        "modify": Modify({"n": n + CHANGED}),
        "happened": Happened(f"doubt {n}"),
        "did not happen": DidNotHappen(),
    }
    return decisions[verdict]


def number_of(item: PendingItem) -> int:
    """Return the number that a waiting call has in its plan."""
    return int(item.call.arguments.partition(":")[2].rstrip("}"))


def numbers(call: Call) -> list[int]:
    """Return the numbers of a call and, for a nested agent, of all calls below it."""
    return [call[1], *(n for inner in inner_calls(*call) for n in numbers(inner))]


def model_calls(call: Call) -> int:
    """Return the number of model calls of a call that ends: two for each nested agent."""
    inner = inner_calls(*call)
    return 2 + sum(map(model_calls, inner)) if inner else 0
