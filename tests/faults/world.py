"""What the storms act on: an agent of twenty steps, and a ledger outside of it that knows what was really done."""

import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ziggurat import Agent, AgentRun, Approve, Context, Event, ModelRequest, ModelResponse, Runnable, Usage, tool
from ziggurat.agents import Answer, Decision, DidNotHappen, Environment, Happened, PendingItem
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.events import ModelEnded, ToolEnded
from ziggurat.journal import Store
from ziggurat.journal.entries import JournalEntry
from ziggurat.messages import ToolCall, assistant, tool_call

STEPS = 20
PROMPT = "Do all of it."

QUICK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where to work when nothing need survive a loss of power, or the loss is only played."""

POINTS = tuple(
    f"{when} {what}"
    for what in ("intent", "effect", "result", "event", "wait", "decision", "end")
    for when in ("before", "after")
)
"""Where a process can be told to die."""

Reached = Callable[[str, str], None]
"""Called with a point and a path when a run comes by it."""


def nowhere(point: str, path: str) -> None:
    """Pass every point by."""


@dataclass
class DieAt:
    """Kills this process when it comes to a point for the n-th time."""

    point: str
    number: int
    seen: int = 0

    def __call__(self, point: str, path: str) -> None:
        if point == self.point:
            self.seen += 1
            if self.seen == self.number:
                os.kill(os.getpid(), signal.SIGKILL)


class Ledger:
    """A file that every effect and every acknowledged step is written to, flushed before anything goes on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, **line: object) -> None:
        # It begins a line of its own: a kill can cut the line before it short, at the border of a page.
        os.write(self._at, b"\n" + json.dumps(line).encode() + b"\n")
        os.fsync(self._at)

    def lines(self) -> list[dict[str, Any]]:
        """Return the whole lines; what a line that was cut short stands for did not happen."""
        return [json.loads(line) for line in self.path.read_bytes().splitlines() if line.endswith(b"}")]

    def close(self) -> None:
        os.close(self._at)


@dataclass
class Verdict:
    """What was found wrong with runs, in words; all of them empty when all is well."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)

    def add(self, other: "Verdict") -> None:
        for name in ("lost", "doubled", "stuck", "leaked"):
            getattr(self, name).extend(getattr(other, name))

    def __bool__(self) -> bool:
        return bool(self.lost or self.doubled or self.stuck or self.leaked)


class Turns:
    """A model that knows from the conversation alone what to say next."""

    def __init__(self, name: str, turns: int, calls: Callable[[int, str], list[ToolCall]]) -> None:
        self.__name__ = name
        self._turns = turns
        self._calls = calls

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        """Answer the turn that the conversation has come to."""
        turn = 1 + sum(message.role == "assistant" for message in request.messages)
        reply = (
            assistant("done")
            if turn >= self._turns
            else assistant(*self._calls(turn, request.messages[-turn * 2 + 1].text))
        )
        return ModelResponse(reply, "tool_calls" if reply.tool_calls else "stop", Usage(10, 1, requests=1))


def calls_of(turn: int, asked: str) -> list[ToolCall]:
    """Return what the outer model calls in a turn, from 1."""
    if turn % 7 == 3:
        return [tool_call("helper", id="call_0", input=f"part {turn}"), tool_call("note", id="call_1", number=turn)]
    if turn % 7 == 5:
        return [tool_call("pay", id="call_0", number=turn)]
    if turn == 13:
        return [tool_call("sign", id="call_0", number=turn), tool_call("note", id="call_1", number=turn)]
    if turn % 4 == 0:
        return [tool_call("note", id=f"call_{number}", number=turn * 100 + number) for number in range(3)]
    return [tool_call("note", id="call_0", number=turn)]


def helper_calls(turn: int, asked: str) -> list[ToolCall]:
    """Return what the nested model calls in a turn, from 1; no two calls of a run have one number."""
    return [tool_call(("note", "pay")[turn - 1], id="call_0", number=1000 * int(asked.split()[-1]) + turn)]


class World:
    """Makes the agent as each process makes it again.


    Attributes:
        with_intent: The effects of which the record says that they begin.
        points: Where a process can be told to die.
        clock: The time of its runs.
    """

    with_intent = frozenset({"note", "pay", "sign"})
    points = POINTS
    clock: Clock = SYSTEM_CLOCK

    def __init__(self, ledger: Ledger, reached: Reached = nowhere) -> None:
        self.ledger = ledger
        self.reached = reached

    def act(self, ctx: Context, name: str, number: int) -> str:
        """Take effect outside: write a line into the ledger."""
        self.reached("before effect", ctx.path)
        self.ledger.write(effect=name, number=number, path=ctx.path, key=ctx.idempotency_key)
        self.reached("after effect", ctx.path)
        return f"{name} {number} is done"

    def tools(self) -> tuple[Any, Any, Any]:
        """Return tools that act: one that may act again, one that acts once, and one that a person approves."""

        @tool
        async def note(number: int, ctx: Context) -> str:
            """Write down; may be done again under the same key."""
            return self.act(ctx, "note", number)

        @tool(effect="once")
        async def pay(number: int, ctx: Context) -> str:
            """Pay; must not be done twice."""
            return self.act(ctx, "pay", number)

        @tool(effect="once", approval=True)
        async def sign(number: int, ctx: Context) -> str:
            """Sign, when a person has agreed; must not be done twice."""
            return self.act(ctx, "sign", number)

        return note, pay, sign

    def helper(self) -> Agent[str]:
        """Return an agent that uses two of these tools."""
        note, pay, _ = self.tools()
        return Agent(Turns("helper_model", 3, helper_calls), name="helper", tools=[note, pay])

    def agent(self, store: Store | str, steps: int = STEPS) -> Runnable[str]:
        note, pay, sign = self.tools()
        helper = self.helper()
        model = Turns("model", steps, calls_of)
        return Agent(model, name="worker", tools=[note, pay, sign, helper], store=store, max_steps=steps)

    def beside(self, agent: Runnable[str], run_id: str) -> AbstractAsyncContextManager[object]:
        """Return what happens to a run while it is driven."""
        return nullcontext()

    async def happen(self, agent: Runnable[str], run: AgentRun) -> dict[str, Decision]:
        """Have something happen that a run waits for; return the decisions on what is asked."""
        return {item.id: self._decision_on(item) for item in run.pending if item.needs_decision}

    def _decision_on(self, item: PendingItem) -> Decision:
        """Return what a person decides, who looks into the ledger if it is asked whether a call took effect."""
        if not item.interrupted:
            return Answer(True) if item.stage == "question" else Approve()
        done = [line for line in self.ledger.lines() if "effect" in line and line["path"] == item.path]
        return Happened(f"{done[0]['effect']} {done[0]['number']} is done") if done else DidNotHappen()

    def judge(self, entries: Sequence[JournalEntry], results: dict[str, str], verdict: Verdict) -> None:
        """Compare the ledger with the record of a run that has ended."""
        judge(self.ledger.lines(), results, verdict)

    def acknowledge(self, path: str, said: str) -> None:
        """Acknowledge a result to the outside: it must never be lost."""
        self.reached("before event", path)
        self.ledger.write(acknowledged=path, said=said)
        self.reached("after event", path)

    async def heard(self, event: Event) -> None:
        """Acknowledge a step to the outside: what is heard of must never be lost."""
        if isinstance(event, (ToolEnded, ModelEnded)) and not event.replayed:
            self.reached("before event", event.path)
            said = event.result.text if isinstance(event, ToolEnded) else event.response.message.text
            self.ledger.write(acknowledged=event.path, said=said)
            self.reached("after event", event.path)


async def finish(world: World, agent: Runnable[str], run_id: str, environment: Environment | None = None) -> AgentRun:
    """Begin a run or continue it until it ends, with what it waits for happening."""
    environment = replace(environment or Environment(), clock=world.clock)
    async with world.beside(agent, run_id):
        run = await agent.run(PROMPT, run_id=run_id, listeners=[world.heard], environment=environment)
        while run.pending:
            decisions = await world.happen(agent, run)
            run = await agent.resume(run_id, decisions, listeners=[world.heard], environment=environment)
    return run


def judge(lines: list[dict[str, Any]], results: dict[str, str], verdict: Verdict) -> None:
    """Compare what the ledger says with what is on record."""
    acknowledged: dict[str, str] = {}
    keys: dict[tuple[str, int], set[str]] = {}
    runs: Counter[tuple[str, int]] = Counter()
    done: set[str] = set()
    for line in lines:
        if "acknowledged" in line:
            acknowledged[line["acknowledged"]] = line["said"]
        if "effect" not in line:
            continue
        path, what, number = line["path"], line["effect"], line["number"]
        keys.setdefault((what, number), set()).add(line["key"])
        runs[what, number] += 1
        done.add(path)
        if path in acknowledged:
            verdict.doubled.append(f"{what} at {path} was done again after it was acknowledged")
    for path, said in acknowledged.items():
        if results.get(path) != said:
            verdict.lost.append(f"{path} was acknowledged as {said!r}, on record is {results.get(path)!r}")
    for (what, number), used in keys.items():
        if len(used) > 1:
            verdict.doubled.append(f"{what} {number} took effect under several keys: {sorted(used)}")
        if what != "note" and runs[what, number] > 1:
            verdict.doubled.append(f"{what} {number} acts once and was run {runs[what, number]} times")
    for path, said in results.items():
        if said.endswith("is done") and path not in done:
            verdict.lost.append(f"{path} is on record as done and was not")
