"""Agents called in threads: those of a tool follow its rules or are refused; those of an application just run."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio.to_thread
import pytest

from tests.samples import pairs
from ziggurat import Agent, AgentRun, Approvals, ConfigurationError, Event, Rule, tool
from ziggurat.events import Warned
from ziggurat.messages import tool_call
from ziggurat.stores import connect
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.timeout(20)

Work = Callable[[], Any]


def in_thread(work: Work) -> Any:
    """Do the work in a thread without context, and return its outcome."""
    with_outcome: list[Any] = []

    def run() -> None:
        try:
            with_outcome.append(work())
        except BaseException as error:
            with_outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(with_outcome[0], BaseException):
        raise with_outcome[0]
    return with_outcome[0]


def in_pool(work: Work) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def in_thread_with_context(work: Work) -> Any:
    context = contextvars.copy_context()
    return in_thread(lambda: context.run(work))


async def in_executor(work: Work) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work)


async def in_pool_of_its_own(work: Work) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, work)


async def to_the_loop_from_a_thread(work: Work) -> Any:
    loop = asyncio.get_running_loop()

    async def later() -> Any:
        return await asyncio.to_thread(work)

    def ask() -> Any:
        return asyncio.run_coroutine_threadsafe(later(), loop).result()

    return await asyncio.to_thread(in_thread_with_context, ask)


REFUSED: dict[str, Callable[[Work], Any]] = {
    "Thread": in_thread,
    "ThreadPoolExecutor": in_pool,
    "run_in_executor": in_executor,
    "run_in_executor with a pool": in_pool_of_its_own,
}
INHERITING: dict[str, Callable[[Work], Any]] = {
    "asyncio.to_thread": asyncio.to_thread,
    "anyio.to_thread": anyio.to_thread.run_sync,
    "copied context": in_thread_with_context,
    "run_coroutine_threadsafe": to_the_loop_from_a_thread,
}


async def streamed(agent: Agent) -> AgentRun:
    async with agent.stream("x") as events:
        async for _ in events:
            pass
    return events.response


async def started(agent: Agent) -> AgentRun:
    return await agent.start("x").result()


CALLS: dict[str, Callable[[Agent], AgentRun]] = {
    "run_sync": lambda agent: agent.run_sync("x"),
    "run": lambda agent: asyncio.run(agent.run("x")),
    "stream": lambda agent: asyncio.run(streamed(agent)),
    "start": lambda agent: asyncio.run(started(agent)),
}

executed: list[str] = []


@tool(permissions=["shell_exec"])
def shell(command: str) -> str:
    executed.append(command)
    return "executed"


def helper() -> Agent:
    return Agent(ScriptedModel(tool_call("shell", command="rm"), "done"), tools=[shell], name="helper")


RULES: dict[str, dict[str, Any]] = {
    "rule": {"approvals": Approvals(Rule("shell", "deny"))},
    "grants of the agent": {"grants": ["network"]},
    "grants of the run": {},
}


def run_delegating(rules: str, start: Callable[[Work], Any], work: Callable[[Agent], Any]) -> AgentRun:
    """Run an agent with rules whose tool calls another agent in a thread that `start` starts."""
    agent = helper()

    async def delegate_async() -> str:
        outcome = start(lambda: work(agent))
        return str((await outcome if isinstance(outcome, Awaitable) else outcome).text)

    def delegate_sync() -> str:
        return str(start(lambda: work(agent)).text)

    body = delegate_sync if start in (in_thread, in_pool, in_thread_with_context) else delegate_async
    body.__name__ = "delegate"
    executed.clear()
    agents = Agent(ScriptedModel(tool_call("delegate"), "end"), tools=[tool(permissions=[])(body)], **RULES[rules])
    return agents.run_sync("x", grants=["network"] if rules == "grants of the run" else None)


@pytest.mark.parametrize(("rules", "start", "call"), pairs(RULES, REFUSED, CALLS))
def test_an_agent_in_a_thread_that_a_tool_started_is_refused(rules: str, start: str, call: str) -> None:
    with pytest.raises(ConfigurationError, match="helper") as refused:
        run_delegating(rules, REFUSED[start], CALLS[call])
    assert not executed
    for way in ("asyncio.to_thread", "contextvars.copy_context().run", "detached=True"):
        assert way in str(refused.value)


@pytest.mark.parametrize(
    ("rules", "start", "call"), [*pairs(RULES, INHERITING, ["run_sync", "run"]), ("rule", "asyncio.to_thread", "start")]
)
def test_an_agent_in_a_thread_with_the_tools_context_follows_its_rules(rules: str, start: str, call: str) -> None:
    run = run_delegating(rules, INHERITING[start], CALLS[call])
    assert not executed
    assert run.observations == ("done",)


def test_a_detached_run_in_a_thread_is_a_run_of_its_own_and_announced() -> None:
    heard: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            heard.append(event.text)

    agent = helper()

    @tool(permissions=[])
    async def delegate() -> str:
        return (await asyncio.to_thread(agent.run_sync, "x", detached=True)).text

    executed.clear()
    run = Agent(
        ScriptedModel(tool_call("delegate"), "end"), tools=[delegate], approvals=Approvals(Rule("shell", "deny"))
    ).run_sync("x", listeners=[listen])
    assert run.observations == ("done",)
    assert executed == ["rm"]
    assert heard == ["helper was started as a run of its own (detached)"]


@pytest.mark.parametrize("verb", ["resume", "fork", "replay"])
async def test_a_recorded_run_that_a_tool_continues_is_announced(verb: str) -> None:
    heard: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Warned):
            heard.append(event.text)

    agent = Agent(ScriptedModel(always="hello"), name="helper", store=connect("memory:"))
    agent.run_sync("x", run_id="r")

    @tool
    async def again() -> str:
        return str((await getattr(agent, verb)("r", *([1] if verb == "fork" else []))).text)

    run = Agent(ScriptedModel(tool_call("again"), "end"), tools=[again]).run_sync("x", listeners=[listen])
    assert run.observations == ("hello",)
    (text,) = heard
    assert text.endswith("which is a run of its own")
    heard.clear()
    await getattr(agent, verb)("r", *([1] if verb == "fork" else []))
    assert heard == []


class Elsewhere:
    """A run in another thread that is inside a tool while the block runs."""

    def __init__(self, approvals: Approvals | None) -> None:
        self.began, self.goes_on = threading.Event(), threading.Event()

        def wait() -> str:
            self.began.set()
            self.goes_on.wait()
            return "waited"

        agent = Agent(ScriptedModel(tool_call("wait"), "end"), tools=[wait], approvals=approvals)
        self.thread = threading.Thread(target=agent.run_sync, args=("x",), kwargs={"detached": True})

    def __enter__(self) -> None:
        self.thread.start()
        self.began.wait()

    def __exit__(self, *_: object) -> None:
        self.goes_on.set()
        self.thread.join()


Ask = Callable[[Agent], Any]

PATTERNS: dict[str, Ask] = {
    "main thread": lambda agent: agent.run_sync("x"),
    "event loop": lambda agent: asyncio.run(agent.run("x")),
    "notebook": lambda agent: asyncio.run(in_a_notebook(agent)),
    "asyncio.to_thread": lambda agent: asyncio.run(asyncio.to_thread(agent.run_sync, "x")),
    "anyio.to_thread": lambda agent: anyio.run(in_anyio, agent),
    "thread per request": lambda agent: in_thread(lambda: agent.run_sync("x")),
    "thread pool": lambda agent: in_pool(lambda: agent.run_sync("x")),
    "run_in_executor": lambda agent: asyncio.run(in_executor(lambda: agent.run_sync("x"))),
    "event loop in a thread": lambda agent: in_thread(lambda: asyncio.run(agent.run("x"))),
    "notebook in a thread": lambda agent: in_thread(lambda: asyncio.run(in_a_notebook(agent))),
}
"""How applications run agents."""

IN_MAIN_THREAD = ("main thread", "event loop", "notebook")


async def in_anyio(agent: Agent) -> AgentRun:
    return await anyio.to_thread.run_sync(lambda: agent.run_sync("x"))


async def in_a_notebook(agent: Agent) -> AgentRun:
    return agent.run_sync("x")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_beside_runs_without_rules_a_new_agent_runs_in_any_thread(pattern: str) -> None:
    with Elsewhere(None):
        assert PATTERNS[pattern](Agent(ScriptedModel("hello"))).text == "hello"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_beside_a_run_with_rules_an_agent_that_was_run_before_runs_in_any_thread(pattern: str) -> None:
    agent = Agent(ScriptedModel(always="hello"))
    agent.run_sync("x")
    with Elsewhere(Approvals("pay")):
        assert PATTERNS[pattern](agent).text == "hello"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_beside_a_run_with_rules_a_new_agent_in_a_new_thread_must_be_detached(pattern: str) -> None:
    agent = Agent(ScriptedModel(always="hello"))
    with Elsewhere(Approvals("pay")):
        if pattern in IN_MAIN_THREAD:
            assert PATTERNS[pattern](agent).text == "hello"
        else:
            with pytest.raises(ConfigurationError, match="detached=True"):
                PATTERNS[pattern](agent)
            assert in_thread(lambda: agent.run_sync("x", detached=True)).text == "hello"
            assert PATTERNS[pattern](agent).text == "hello"  # now it is known
    assert PATTERNS[pattern](Agent(ScriptedModel("hello"))).text == "hello"


def test_a_thread_that_has_run_agents_before_is_the_applications() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(Agent(ScriptedModel("hello")).run_sync, "x").result().text == "hello"
        with Elsewhere(Approvals("pay")):
            assert pool.submit(Agent(ScriptedModel("hello")).run_sync, "x").result().text == "hello"


def test_many_threads_of_a_server_whose_agent_has_rules_work_side_by_side() -> None:
    both = threading.Barrier(4)

    def pay() -> str:
        both.wait()
        return "paid"

    model = ScriptedModel(*[tool_call("pay")] * 4, always="end")
    agent = Agent(model, tools=[pay], approvals=Approvals(Rule("*", "allow")))
    with ThreadPoolExecutor(4) as pool:
        assert [run.text for run in pool.map(agent.run_sync, "abcd")] == ["end"] * 4
