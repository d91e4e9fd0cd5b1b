"""A team whose process is lost after any write ends as if it had not been, whatever its members do: the same messages,
stop, usage and session."""

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.samples import LONG, pairs, sample
from tests.stores.mortal import MortalStore
from tests.teams.models import Answering, Reply
from tests.teams.patterns import ALONE, EVERY, built
from ziggurat import (
    Agent,
    AgentRun,
    Approvals,
    Approve,
    Budget,
    Context,
    Middleware,
    ModelRequest,
    ModelResponse,
    Rule,
    Runnable,
    tool,
)
from ziggurat.agents import Decision, DidNotHappen, Environment, Happened
from ziggurat.core.service import Effect
from ziggurat.errors import LeaseLost, ModelError, StoreError
from ziggurat.journal import Store
from ziggurat.messages import Message, tool_call
from ziggurat.stores import InMemoryStore, Session
from ziggurat.testing import HandClock
from ziggurat.tools import Toolbox

ENDS = ("answer", "connection", "server", "denial", "budget", "timeout", "steps", "hook", "tool", "approval")
"""What ends the turns of the worker, after it has acted."""

STOPS = {
    "answer": "Completed",
    "connection": "Failed",
    "server": "Failed",
    "denial": "ModelCallDenied",
    "budget": "BudgetExceeded",
    "timeout": "TimedOut",
    "steps": "MaxSteps",
    "hook": "Failed",
    "tool": "Failed",
    "approval": "Completed",
}
"""How a run ends that ends with the worker's turn."""

EFFECTS: tuple[Effect, ...] = ("once", "repeatable", "none")


class Process:
    """Makes a team for a store as each process makes it again, and runs it."""

    def __init__(self, store: Store, pattern: tuple[str, ...], end: str, effect: Effect, session: str) -> None:
        self.clock = HandClock(auto=True)
        self.end = end
        self.store = store
        self.session = session
        self.done: list[str] = []
        self.team: Runnable[Any] = built(pattern, self._worker(effect), store=store)

    def _worker(self, effect: Effect) -> Agent:
        @tool(effect=effect, approval=self.end == "approval")
        async def act(ctx: Context) -> str:
            """Act."""
            if self.end == "tool":
                raise ValueError("broken")
            self.done.append(ctx.path)
            return "acted"

        settings: dict[str, dict[str, Any]] = {
            "denial": {"approvals": Approvals(Rule("*", "deny", when=_has_acted, reason="no", stage="model"))},
            "budget": {"budget": Budget(requests=1)},
            "timeout": {"timeout": 5.0},
            "steps": {"max_steps": 1},
            "hook": {"middleware": [Broken()]},
        }
        box = Toolbox([act], on_error="raise" if self.end == "tool" else "return")
        return Agent(self._model, name="worker", tools=box, **settings.get(self.end, {}))

    async def _model(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        if self.end == "timeout" and request.messages[-1].role == "tool":
            self.clock.skip(10)
            await self.clock.sleep(10)
        return await Answering(self._reply)(request, ctx)

    def _reply(self, request: ModelRequest) -> Reply:
        if request.messages[-1].role != "tool":
            return tool_call("act")
        failures: dict[str, Exception] = {
            "connection": ConnectionError("gone"),
            "server": ModelError("overloaded", kind="server"),
        }
        return failures.get(self.end, "sent")

    async def run(self, before: "Process | None" = None) -> "tuple[dict[str, Any], list[Message]]":
        """Run to the end, or go on where the process before was lost; return what must be the same however it came."""
        done = [] if before is None else before.done
        options: dict[str, Any] = {"session": self.session} if self.session else {}
        environment = Environment(clock=self.clock)
        run = await self.team.run("go", run_id="r", environment=environment, **options)
        for _ in range(20):
            if not run.pending:
                break
            decisions: dict[str, Decision] = {item.id: Approve() for item in run.pending}
            for item in run.pending:
                if item.interrupted:
                    decisions[item.id] = Happened("acted") if item.path in [*done, *self.done] else DidNotHappen()
            run = await self.team.resume("r", decisions, environment=environment)
        return facts(run), await Session("s", self.store).get_messages() if self.session else []


def _has_acted(request: Any) -> bool:
    return bool(request["messages"][-1]["role"] == "tool")


class Broken(Middleware):
    """Fails when the worker has acted."""

    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse:
        if not response.message.tool_calls:
            raise ValueError("the hook is broken")
        return response


def facts(run: AgentRun[Any]) -> dict[str, Any]:
    """Return what must be equal however a run came to its end."""
    return {
        "messages": list(run.messages),
        "stop": run.stop,
        "usage": run.usage,
        "steps": run.steps,
        "calls": (run.model_calls, run.tool_calls),
        "output": run._output,
        "agent": run.agent,
    }


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


CASES = pairs(EVERY if LONG else ALONE + EVERY[-2:], ENDS, EFFECTS, ["", "s"])


@pytest.mark.parametrize(("pattern", "end", "effect", "session"), sample(CASES, 10))
async def test_a_team_ends_alike_after_a_crash_at_any_write(
    pattern: tuple[str, ...], end: str, effect: Effect, session: str
) -> None:
    whole = Process(InMemoryStore(), pattern, end, effect, session)
    expected = await whole.run()
    for lives in range(1, 200):
        rows = InMemoryStore()
        store = MortalStore(InMemoryStore(shared=rows), lives)
        lost = Process(store, pattern, end, effect, session)
        with suppress(StoreError, LeaseLost):
            await lost.run()
        dead = store.dead
        await store.inner.close()
        if not dead:
            return
        other = Process(InMemoryStore(shared=rows), pattern, end, effect, session)
        reached = await other.run(lost)
        await other.store.close()
        assert reached == expected, f"lost at write {lives}"
        if effect == "once":
            done = [*lost.done, *other.done]
            assert len(done) == len(set(done)), f"lost at write {lives}"
    raise AssertionError("the process never came to its end")


@pytest.mark.parametrize(("pattern", "end"), sample(pairs(EVERY, ENDS), 16))
async def test_a_tool_that_acts_once_changes_no_stop(pattern: tuple[str, ...], end: str) -> None:
    stopped = [(await Process(InMemoryStore(), pattern, end, effect, "").run())[0] for effect in EFFECTS]
    if pattern == ("handing",):
        assert type(stopped[0]["stop"]).__name__ == STOPS[end]
    assert stopped[0]["stop"] == stopped[1]["stop"] == stopped[2]["stop"]
    assert stopped[0]["usage"].requests == stopped[1]["usage"].requests  # tokens are estimates, of tools that differ
