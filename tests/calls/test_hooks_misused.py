"""Whatever a hook returns, it is used or named at once: never text for a model, never on record."""

from inspect import iscoroutinefunction
from typing import Any

import pytest

from tests.calls.samples import each
from tests.samples import sample
from tests.wrong import wrong
from ziggurat import Agent, AgentRequest, ConfigurationError, Middleware, Runnable, ToolCall, open_stream, tool, user
from ziggurat.calls.hooks import PASSES
from ziggurat.core.entries import Intent, JournalEntry, Opened, Result
from ziggurat.core.store import run_log
from ziggurat.stores import LocalLogs
from ziggurat.testing import ScriptedModel
from ziggurat.tools import ToolResult, echo, tool_call

HOOKS = [hook for hook in PASSES if hook != "on_error"]
NONSENSE = ["text", 3, True, {"a": 1}, Ellipsis, ToolCall, user("x")]


def _agent(hook: str, value: object, depth: int, store: LocalLogs) -> Agent:
    @tool
    async def pieces() -> Any:
        yield "a"
        yield "b"

    def returns(self: Middleware, *arguments: object) -> object:
        return value

    async def later(self: Middleware, *arguments: object) -> object:
        return value

    middleware = type("Odd", (Middleware,), {hook: returns if hook == "deltas" else later})()
    agent = Agent(ScriptedModel(tool_call("pieces"), "end"), tools=[pieces], middleware=[middleware], store=store)
    for number in range(depth):
        name = agent.name
        agent = Agent(ScriptedModel(tool_call(name, input="go"), "end"), tools=[agent], name=f"outer-{number}")
    return agent


@pytest.mark.parametrize(("hook", "value", "depth"), each(HOOKS, NONSENSE, (0, 2)), ids=repr)
async def test_a_hook_that_returns_nonsense_is_named(hook: str, value: object, depth: int) -> None:
    if isinstance(value, PASSES[hook]):
        return
    store = LocalLogs()
    with pytest.raises(ConfigurationError, match=f"{hook} of Odd"):
        await _agent(hook, value, depth, store).run("go", run_id="r", listeners=[lambda event: None])
    if not depth:
        info = await store.find(run_log("r"))
        assert info is None or info.status == "running"  # a mistake is no end: mended, the run goes on
    with pytest.raises(ConfigurationError):
        async with _agent(hook, value, depth, LocalLogs()).stream("go") as events:
            async for _ in events:
                pass


@pytest.mark.parametrize("hook", [hook for hook in HOOKS if hook not in ("on_tool_delta", "deltas")])
async def test_a_hook_that_is_not_async_is_named(hook: str) -> None:
    def returns(self: Middleware, *arguments: object) -> None: ...

    middleware = type("Odd", (Middleware,), {hook: returns})()
    agent = Agent(ScriptedModel(tool_call("echo", text="a"), "end"), tools=[echo], middleware=[middleware])
    with pytest.raises(ConfigurationError, match=f"{hook} of Odd is not async"):
        await agent.run("go", listeners=[lambda event: None])


def test_a_method_that_is_misspelt_is_no_hook_in_silence() -> None:
    async def method(self: Middleware, *arguments: object) -> None: ...

    def other(self: Middleware, *arguments: object) -> None: ...

    for hook in [name for name, own in vars(Middleware).items() if iscoroutinefunction(own)]:
        for misspelt in (hook + "s", hook[:-1], hook[:-2] + hook[-1] + hook[-2]):
            with pytest.raises(ConfigurationError, match=rf"{misspelt}\b.*'{hook}'"):
                type("Odd", (Middleware,), {misspelt: method})
            type("Even", (Middleware,), {misspelt: other})  # a method of its own
    for own in ("on_delta", "after_turn", "before_llm", "names"):
        type("Even", (Middleware,), {own: method})


@pytest.mark.parametrize("hook", ["deltas", "on_record"])
def test_a_hook_that_is_not_awaited_is_not_async(hook: str) -> None:
    async def method(self: Middleware, *arguments: object) -> None: ...

    with pytest.raises(ConfigurationError, match=f"{hook} of Odd is not awaited"):
        type("Odd", (Middleware,), {hook: method})


@pytest.mark.parametrize(
    ("value", "at", "store"),
    each(
        [*NONSENSE, None, Intent("", "x", None, "", ""), Result("elsewhere", "x", None, 1)],
        [Opened, Result],
        [None, "memory:"],
    ),
    ids=repr,
)
async def test_a_hook_that_records_something_else_is_named(
    value: Any, at: type[JournalEntry], store: str | None
) -> None:
    class Odd(Middleware):
        def on_record(self, entry: JournalEntry) -> JournalEntry:
            return wrong(value) if isinstance(entry, at) else entry

    agent = Agent(ScriptedModel("done"), middleware=[Odd()], store=store)
    with pytest.raises(ConfigurationError, match=rf"on_record of Odd got a {at.__name__}"):
        await agent.run("go")


@pytest.mark.parametrize("store", [None, "memory:"])
async def test_a_hook_may_make_a_new_result(store: str | None) -> None:
    class Anew(Middleware):
        def on_record(self, entry: JournalEntry) -> JournalEntry:
            if not isinstance(entry, Result):
                return entry
            seen.append(entry.path)
            return Result(entry.path, entry.name, entry.request, entry.value, entry.spent, entry.elapsed)

    seen: list[str] = []

    model = ScriptedModel(tool_call("echo", text="x"), "done")
    agent = Agent(model, tools=[echo], middleware=[Anew()], store=store)
    assert (await agent.run("go")).text == "done"
    assert seen == ["agent/step-1/model", "agent/step-1/tool-1:echo", "agent/step-2/model", "agent"]


@pytest.mark.parametrize("value", sample([*NONSENSE, None, ToolResult("1", "x")], 4), ids=repr)
async def test_a_service_that_answers_with_nonsense_is_named(value: object) -> None:
    async def service(request: AgentRequest, ctx: Any) -> Any:
        return value

    odd: Runnable = Runnable(service, name="odd")
    with pytest.raises(ConfigurationError, match="AgentRun"):
        await odd.run("go")
    with pytest.raises(ConfigurationError, match="AgentRun"):
        async with open_stream(odd, AgentRequest((user("go"),))) as events:
            async for _ in events:
                pass
