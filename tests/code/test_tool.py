"""Programs that call tools: as the model's own calls are made, and answered from the record when they run again."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.code.killed import CALLS, agent, decisions
from tests.samples import sample
from tests.wrong import wrong
from ziggurat import (
    Agent,
    AgentRun,
    Approvals,
    Approve,
    Deny,
    Message,
    ModelRequest,
    ModelResponse,
    Modify,
    Text,
    Toolbox,
    raw_tool,
    tool,
)
from ziggurat.code import CodeTool
from ziggurat.errors import ConfigurationError
from ziggurat.events import Event, ToolStarted
from ziggurat.messages import tool_call
from ziggurat.sandbox import Sandbox
from ziggurat.stops import Completed, Suspended
from ziggurat.stores import InMemoryStore

_WHY = Sandbox.unavailable("monty")
pytestmark = pytest.mark.skipif(_WHY is not None, reason=f"monty: {_WHY}")


class Coder:
    """A model that runs programs one after another, and then answers with their results."""

    def __init__(self, *programs: str) -> None:
        self.programs = programs
        self.description = ""

    async def __call__(self, request: ModelRequest, ctx: Any, /) -> ModelResponse:
        results = [result.text for message in request.messages for result in message.tool_results]
        self.description = request.tools[0].description
        if len(results) < len(self.programs):
            return ModelResponse(Message("assistant", (tool_call("run_code", code=self.programs[len(results)]),)))
        return ModelResponse(Message("assistant", (Text("\n---\n".join(results)),)))


@tool(effect="none")
async def look(place: str, days: int = 1) -> dict[str, int]:
    """Look at a place."""
    return {place: days}


@tool(effect="once")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def coder(*programs: str, tools: Sequence[Any] = (look, pay), **arguments: Any) -> Agent:
    return Agent(Coder(*programs), name="coder", tools=[CodeTool(tools)], **arguments)


async def test_a_program_calls_tools_as_typed_functions() -> None:
    run = await coder("x = [look(p, days=2)[p] for p in ['a', 'b']]\nprint(pay(sum(x)))\nx").run("Go")
    assert run.text == "paid 4\n[2, 2]"
    assert run.stop == Completed()
    assert run.tool_calls == 4


async def test_calls_have_places_below_that_of_the_program() -> None:
    paths: list[str] = []

    async def note(event: Event) -> None:
        if isinstance(event, ToolStarted):
            paths.append(event.path)

    await coder("look('a')\nlook('b')\npay(1)").run("Go", listeners=[note])
    program = "coder/step-1/tool-1:run_code"
    assert paths == [program, *(f"{program}/{place}" for place in ("call-1:look", "call-2:look", "call-3:pay"))]


async def test_errors_are_for_the_program_and_those_it_does_not_catch_for_the_model() -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise KeyError("broken")

    programs = [
        "try:\n    fail()\nexcept RuntimeError as error:\n    print('caught', error)",
        "print('before')\nfail()",
        "look(7, days='x')",
        "look('a', 1, 2)",
        "nothing()",
        "def f(:",
        "",
    ]
    texts = (await coder(*programs, tools=[fail, look]).run("Go")).text.split("\n---\n")
    for text, part in zip(
        texts, ["caught", "before", "place", "arguments", "nothing", "Syntax", "no output"], strict=True
    ):
        assert part in text


async def test_what_was_done_once_is_told_when_the_program_fails() -> None:
    run = await coder("pay(3)\n1 / 0").run("Go")
    assert "ZeroDivisionError" in run.text
    assert "paid 3" in run.text


@pytest.mark.parametrize(
    ("decision", "seen"), [(Approve(), "paid 3"), (Deny("too much"), "too much"), (Modify({"amount": 2}), "paid 2")]
)
async def test_rules_and_people_decide_on_calls_of_a_program(decision: Any, seen: str) -> None:
    agent = coder(
        "a = look('a')\ntry:\n    print(pay(3))\nexcept PermissionError as error:\n    print(error)\nlook('b')",
        approvals=Approvals("pay"),
    )
    run = await agent.run("Go")
    assert run.stop == Suspended()
    assert [item.path for item in run.pending] == ["coder/step-1/tool-1:run_code/call-2:pay"]
    run = await agent.resume(run.id, {run.pending[0].id: decision})
    assert seen in run.text
    assert "'b'" in run.text or '"b"' in run.text


async def test_permissions_hold_for_each_call() -> None:
    @tool(permissions=["network"])
    async def fetch() -> str:
        """Fetch."""
        return "fetched"

    agent = coder("fetch()", tools=[fetch])
    assert (await agent.run("Go")).text == "fetched"
    assert "network" in (await agent.run("Go", grants=[])).text


async def test_time_and_random_numbers_are_those_of_the_first_time() -> None:
    code = "import time, random\nx = look(str([time.time(), random.random()]))\npay(1)\nx"
    agent = coder(code, code, approvals=Approvals("pay"))
    run = await agent.run("Go")
    while run.pending:
        run = await agent.resume(run.id, {item.id: Approve() for item in run.pending})
    first, second = run.text.split("\n---\n")
    assert "other calls" not in first + second
    assert first != second


async def test_a_program_that_makes_other_calls_is_ended_before_the_first() -> None:
    names = ["a"]

    @tool(effect="none")
    async def name() -> str:
        """Return a name."""
        return names[0]

    made: list[str] = []

    @tool(effect="once")
    async def send(to: str) -> str:
        """Send."""
        made.append(to)
        return f"sent to {to}"

    @tool(effect="once", approval=True)
    async def sign() -> str:
        """Sign."""
        return "signed"

    store = InMemoryStore()

    def agent(code: str) -> Agent:
        return coder(code, tools=[name, send, sign], store=store)

    run = await agent("send(to='a')\nsign()").run("Go", run_id="r")
    other = CodeTool([name, send, sign])
    run = await _with_program(agent("send(to='a')\nsign()"), other, "send(to='b')\nsign()").resume(
        "r", {run.pending[0].id: Approve()}
    )
    assert made == ["a"]
    assert "sent to a" in run.text
    assert "other calls" in run.text


def _with_program(agent: Agent, box: CodeTool, code: str) -> Agent:
    """Return an agent whose programs are another one when they run again, as if they were not deterministic."""
    inner = box.sandbox

    class Other(Sandbox, frozen=True):
        def open(self, now: Any, seed: int) -> Any:
            return _Replacing(inner.open(now, seed), code)

    tools = CodeTool(box.tools, sandbox=Other())
    return Agent(agent.model, name="coder", tools=[tools], store=agent.store)


class _Replacing:
    def __init__(self, block: Any, code: str) -> None:
        self._block, self._code = block, code

    async def __aenter__(self) -> Any:
        self._session = await self._block.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._block.__aexit__(*error)

    async def run(self, _: str, *others: Any) -> Any:
        return await self._session.run(self._code, *others)


async def test_agents_are_functions_too() -> None:
    async def reply(request: ModelRequest, ctx: Any) -> ModelResponse:
        return ModelResponse(Message("assistant", (Text(request.messages[-1].text.upper()),)))

    helper = Agent(reply, name="helper", description="Shouts.")
    assert (await coder("helper('a') + helper(input='b')", tools=[helper]).run("Go")).text == "AB"


async def test_stubs_say_what_may_be_passed() -> None:
    schema = {
        "type": "object",
        "properties": {"a-b": {"type": "integer"}, "kind": {"enum": ["x", "y"]}, "many": {"type": ["array", "null"]}},
        "required": ["kind"],
    }
    odd = raw_tool(lambda arguments: str(arguments), name="odd-name", description="Odd.", parameters=schema)
    agent = coder("odd_name('x', **{'a-b': 1})", tools=[odd])
    assert "a-b" in (await agent.run("Go")).text
    description = agent.tools.specs[0].description
    assert "def odd_name(kind: Literal['x', 'y'], many: list | None = ..., **{'a-b': int}) -> str:" in description


@pytest.mark.skipif(Sandbox.unavailable("python") is not None, reason=f"python: {Sandbox.unavailable('python')}")
async def test_programs_may_be_the_whole_of_python() -> None:
    code = "class Paid(Exception):\n    pass\ntry:\n    raise Paid(pay(2))\nexcept Paid as error:\n    print(error)"
    code = f"{code}\nlook('a')"
    agent = Agent(
        Coder(code),
        name="coder",
        tools=[CodeTool([look, pay], sandbox=Sandbox("python"))],
        approvals=Approvals("pay"),
    )
    run = await agent.run("Go")
    run = await agent.resume(run.id, {run.pending[0].id: Approve()})
    assert run.text == 'paid 2\n{"a": 1}'


@pytest.mark.parametrize("level", ["monty", "python"])
async def test_batches_are_made_at_the_same_time_and_recorded_in_their_order(level: Any, tmp_path: Path) -> None:
    if (why := Sandbox.unavailable(level)) is not None:
        pytest.skip(f"{level}: {why}")
    together, made = asyncio.Barrier(3), list[int]()

    @tool(effect="once")
    async def pay(amount: int, to: str = "a") -> int:
        """Pay."""
        await together.wait()
        made.append(amount)
        return amount

    def agent() -> Agent:
        box = CodeTool([pay], sandbox=Sandbox(level))
        rules = Approvals("pay")
        coder = Coder("pay_batched([3, {'amount': 2, 'to': 'b'}, 'x', 1, 4])")
        return Agent(coder, name="coder", tools=[box], approvals=rules, store=f"sqlite:///{tmp_path}/runs.db")

    run = await agent().run("Go", run_id="r")
    place = "coder/step-1/tool-1:run_code/call-1"
    assert [item.path for item in run.pending] == [f"{place}/tool-{n}:pay" for n in (1, 2, 4, 5)]
    decisions: list[Any] = [Approve(), Approve(), Deny("no"), Approve()]
    run = await agent().resume("r", dict(zip([item.id for item in run.pending], decisions, strict=True)))
    values = json.loads(run.text)
    assert [values[0], values[1], values[4]] == [3, 2, 4]
    assert all(text.startswith("[ERROR]") for text in values[2:4])
    assert sorted(made) == [2, 3, 4]
    assert (await agent().replay("r")).text == run.text


def test_what_cannot_be_functions_is_refused() -> None:
    one, two = (tool(name=name)(lambda: "x") for name in ("a-b", "a_b"))
    with pytest.raises(ConfigurationError, match="a_b"):
        CodeTool([one, two])
    with pytest.raises(ConfigurationError, match="on_error"):
        CodeTool(Toolbox([look], on_error="raise"))


async def test_a_cancelled_run_ends_its_program() -> None:
    began = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        await asyncio.Event().wait()
        return ""

    task = asyncio.ensure_future(coder("wait()", tools=[wait]).run("Go"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("kind", sample(CALLS, 2))
async def test_nothing_is_done_twice_by_programs_that_are_killed(kind: str, tmp_path: Path) -> None:
    """One process is killed in the middle of the program, another continues it."""
    ledger, store = tmp_path / "ledger", f"sqlite:///{tmp_path}/runs.db"
    command = [sys.executable, "-m", "tests.code.killed", kind, store, str(ledger), "3"]
    killed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=120, check=False)
    assert killed.returncode == -9, killed.stderr
    run = await agent(kind, store, ledger).resume("r")
    assert run.stop == Completed(), run.text
    lines = ledger.read_text().splitlines()
    assert sorted(set(lines)) == sorted(lines) or lines.count("look 3") == 2
    assert [lines.count(each) for each in ("look 1", "look 2", "look 4")] == [1, 1, 1]
    assert lines.count("look 5") == lines.count("look 6") == (kind == "batch")
    assert lines.count("paid 10") == (kind == "approval")
    assert lines.count("bought 1") == lines.count("bought 2") == (kind == "budget")
    expected = {
        "approval": "paid 10",
        "question": "b",
        "budget": "PermissionError",
        "denial": "PermissionError",
        "batch": "[5, 6]",
    }
    assert run.text == f"1 {expected.get(kind, 'RuntimeError')} [2, 3, 4]"


@pytest.mark.parametrize("kind", ["approval", "denial", "question"])
async def test_programs_go_on_in_another_process(kind: str, tmp_path: Path) -> None:
    """Here: by another agent object and another journal, read from the store."""
    ledger, store = tmp_path / "ledger", f"sqlite:///{tmp_path}/runs.db"
    run: AgentRun = await agent(kind, store, ledger).run("Go", run_id="r")
    assert run.stop == Suspended()
    run = await agent(kind, store, ledger).resume("r", decisions(kind, run))
    assert run.stop == Completed()
    assert sorted(set(ledger.read_text().splitlines())) == sorted(ledger.read_text().splitlines())


async def test_a_run_with_programs_is_replayed_and_forked(tmp_path: Path) -> None:
    agent = coder("print(pay(3))", "look('c')", store=f"sqlite:///{tmp_path}/runs.db")
    run = await agent.run("Go", run_id="r")
    again = await agent.replay("r")
    assert (again.text, again.stop) == (run.text, Completed())
    forked = await agent.fork("r", at=2)
    assert forked.text == run.text
    tree = (await agent.tree("r")).text()
    assert "pay(amount=3) → paid 3" in tree


def test_a_limit_of_the_sandbox_is_shown_its_place() -> None:
    with pytest.raises(TypeError, match=r"sandbox=Sandbox\(level=...\)"):
        CodeTool([], **wrong({"level": "python"}))
