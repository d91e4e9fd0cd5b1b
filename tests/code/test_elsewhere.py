"""Files, tasks and programs in sessions, teams and workers, on each store: a process that dies changes none of them."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.samples import LONG, pairs
from tests.stores.mortal import MortalStore
from tests.stores.places import QUEUES
from tests.stores.server import schema
from ziggurat import Agent, AgentRun, Approve, Message, ModelRequest, ModelResponse, Runnable, Text, Usage, tool
from ziggurat.agents import Decision, DidNotHappen, Environment, Happened
from ziggurat.code import CodeTool, Todos, Workspace
from ziggurat.errors import StoreError
from ziggurat.messages import tool_call
from ziggurat.sandbox import Sandbox
from ziggurat.stores import InMemoryStore, PostgresStore, SqliteStore
from ziggurat.teams import parallel
from ziggurat.testing import HandClock, ScriptedModel

_DONE = {"content": "read", "status": "completed"}
SCRIPTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "workspace": [
        ("write_file", {"path": "a.md", "text": "one two"}),
        ("edit_file", {"path": "a.md", "old": "two", "new": "2 two"}),
        ("pay", {"amount": 1}),
        ("edit_file", {"path": "a.md", "old": "one", "new": ""}),
        ("write_file", {"path": "b/c.md", "text": "three"}),
    ],
    "todos": [
        ("write_todos", {"todos": [{"content": "read"}, {"content": "write"}]}),
        ("pay", {"amount": 1}),
        ("write_todos", {"todos": [_DONE, {"content": "write"}]}),
    ],
    "code": [
        (
            "run_code",
            {"code": "x = [look(n) for n in range(3)]\npay(sum(x))\nlook_batched([7, 8])\nwrite_file('a', 'b')"},
        ),
        ("run_code", {"code": "pay_batched([1, 2])\npay(look(9))"}),
    ],
}
FILES: dict[str, dict[str, str]] = {
    "workspace": {"a.md": " 2 two", "b/c.md": "three"},
    "todos": {".run/todo.md": "- [x] read\n- [ ] write"},
    "code": {"a": "b"},
}


class Process:
    """A process: its store, which may die, and what it has done."""

    def __init__(self, kind: str, way: str, store: Any) -> None:
        self.effects: list[int] = []
        self.store = store
        self.kind, self.way = kind, way
        workspace = Workspace()
        todos = Todos(workspace)

        @tool(effect="once")
        async def pay(amount: int) -> str:
            """Pay."""
            self.effects.append(amount)
            return f"paid {amount}"

        @tool(effect="none")
        async def look(n: int) -> int:
            """Look."""
            return n

        tools: dict[str, list[Any]] = {
            "workspace": [*workspace.tools, pay],
            "todos": [todos.tool, pay],
            "code": [CodeTool([look, pay, *workspace.tools])],
        }
        given = {} if way == "team" else {"store": store}
        agent = Agent(self._model, name="worker", tools=tools[kind], middleware=[todos], **given)
        leader = Agent(ScriptedModel(always="done"), name="leader")
        self.root: Runnable[Any] = parallel(leader, agent, store=store) if way == "team" else agent

    async def _model(self, request: ModelRequest, ctx: Any) -> ModelResponse:
        """Answer with the next call of the script in this turn of the conversation."""
        turn = 0
        for message in request.messages:
            turn = 0 if message.role == "user" else turn + (message.role == "assistant")
        script = SCRIPTS[self.kind]
        part = tool_call(script[turn][0], **script[turn][1]) if turn < len(script) else Text("done")
        return ModelResponse(Message("assistant", (part,)), usage=Usage(1, 1, requests=1))

    async def drive(self, environment: Environment) -> AgentRun:
        """Begin the run, or go on with it."""
        if self.way == "worker":
            await self.root.submit("go", run_id="r", environment=environment)
            recovery = await self.root.recover(attempts=9, environment=environment)
            for error in recovery.errors.values():
                raise error
            return recovery.runs.get("r") or await self.root.run(run_id="r", environment=environment)
        session = "s" if self.way == "session" else None
        return await self.root.run("go", run_id="r", environment=environment, session=session)

    async def settle(self, run: AgentRun, effects: list[int], environment: Environment) -> AgentRun:
        """Find out which interrupted calls took effect, until the run has ended."""

        def decide(item: Any) -> Decision:
            before = int(self.way == "session")  # in the first turn
            done = effects.count(item.call.parsed()["amount"]) > before
            return (Happened("it did") if done else DidNotHappen()) if item.interrupted else Approve()

        for _ in range(9):
            if not run.pending:
                return run
            decisions = {item.id: decide(item) for item in run.pending}
            run = await self.root.resume(run.id, decisions, environment=environment)
        raise AssertionError(run.pending)


def _opened(store: str, folder: Path, clock: HandClock) -> Callable[[], Any]:
    first = InMemoryStore(clock=clock)
    url = schema() if store == "postgres" else ""
    opens: dict[str, Callable[[], Any]] = {
        "memory": lambda: InMemoryStore(shared=first, clock=clock),
        "sqlite": lambda: SqliteStore(folder / "runs.db", synchronous="NORMAL", clock=clock),
        "postgres": lambda: PostgresStore(url, clock=clock),
    }
    return opens[store]


async def _lived(kind: str, way: str, store: str, folder: Path, lives: int | None) -> tuple[Any, bool]:
    """Return what came of a run whose process dies at an append, and whether it did."""
    folder.mkdir()
    clock = HandClock()
    opens, environment = _opened(store, folder, clock), Environment(clock=clock)
    effects: list[int] = []
    if way == "session":
        before = Process(kind, way, opens())
        await before.root.run("first", session="s", environment=environment)
        effects += before.effects
        await before.store.close()
    dying = Process(kind, way, MortalStore(opens(), lives))
    with suppress(StoreError):
        await dying.drive(environment)
    dead = dying.store.dead
    effects += dying.effects
    await dying.store.inner.close()
    await clock.advance(31)  # its leases lapse
    after = Process(kind, way, opens())
    run = await after.drive(environment)
    run = await after.settle(run, effects, environment)
    files = await after.root.files("r")
    await after.store.close()
    return (run.text, run.stop, files, sorted(effects + after.effects)), dead


@pytest.mark.parametrize(("kind", "way", "store"), pairs(list(SCRIPTS), ["session", "team", "worker"], QUEUES))
async def test_a_process_that_dies_changes_nothing(kind: str, way: str, store: str, tmp_path: Path) -> None:
    if kind == "code" and (why := Sandbox.unavailable("monty")) is not None:
        pytest.skip(f"monty: {why}")
    whole, _ = await _lived(kind, way, store, tmp_path / "whole", None)
    assert whole[0] == "done"
    assert whole[2] == FILES[kind]
    lives = range(1, 99) if LONG else (3, 11)
    for number in lives:
        found, dead = await _lived(kind, way, store, tmp_path / str(number), number)
        assert found == whole, number
        if not dead:
            break
