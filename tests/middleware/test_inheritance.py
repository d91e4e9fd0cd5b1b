"""Inheritance of middleware: unused hooks add no calls, and the order is the same at any depth."""

from collections import Counter

import pytest

from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Context,
    Middleware,
    ModelRequest,
    ModelResponse,
    Service,
    ToolCall,
    ToolResult,
    until_tool_called,
)
from ziggurat.calls.hooks import MIDDLEWARE, HookChain
from ziggurat.errors import ModelError
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


class Quiet(Middleware):
    """Overrides nothing."""


class Errors(Middleware):
    def __init__(self) -> None:
        self.heard: list[tuple[str, BaseException]] = []

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        self.heard.append((ctx.path, error))


class Order(Middleware):
    """Records its letter at every hook."""

    def __init__(self, letter: str, notes: list[str]) -> None:
        self.letter = letter
        self.notes = notes

    def _note(self, hook: str) -> None:
        self.notes.append(f"{hook} {self.letter}")

    async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
        self._note("before_agent")

    async def after_agent(self, run: AgentRun, ctx: Context) -> None:
        self._note("after_agent")

    async def before_model(self, request: ModelRequest, ctx: Context) -> None:
        self._note("before_model")

    async def after_model(self, response: ModelResponse, ctx: Context) -> None:
        self._note("after_model")

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        self._note("before_tool")

    async def after_tool(self, result: ToolResult, ctx: Context) -> None:
        self._note("after_tool")

    async def on_tool_delta(self, text: str, ctx: Context) -> str:
        self._note("on_tool_delta")
        return text + self.letter

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        self._note("into_model")
        response = await model(request, ctx)
        self._note("out_of_model")
        return response

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        self._note("into_tool")
        result = await tool(call, ctx)
        self._note("out_of_tool")
        return result

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        self._note("into_agent")
        run = await agent(request, ctx)
        self._note("out_of_agent")
        return run


async def test_an_agent_with_hookless_middleware_takes_the_way_of_one_without() -> None:
    seen: list[HookChain | None] = []

    def look(ctx: Context) -> str:
        seen.append(ctx.scope.get(MIDDLEWARE))
        return "x"

    model = ScriptedModel(tool_call("look"), "done")
    agent = Agent(model, tools=[look], middleware=[Quiet(), Quiet()])
    assert (await agent.run("go")).text == "done"
    assert seen == [None]


async def count() -> "object":
    """Count aloud."""
    for each in ("1", "2"):
        yield each


async def test_the_onion_has_one_order_in_every_call() -> None:
    notes: list[str] = []
    agent = Agent(
        ScriptedModel(tool_call("count")),
        tools=[count],
        middleware=[Order("a", notes), Order("b", notes)],
        stop=until_tool_called("count"),
    )
    run = await agent.run("go")
    assert run.observations == ("1ab2ab",)
    assert notes == [
        "before_agent a", "before_agent b", "into_agent a", "into_agent b",
        "before_model a", "before_model b", "into_model a", "into_model b",
        "out_of_model b", "out_of_model a", "after_model b", "after_model a",
        "before_tool a", "before_tool b", "into_tool a", "into_tool b",
        "on_tool_delta a", "on_tool_delta b", "on_tool_delta a", "on_tool_delta b",
        "out_of_tool b", "out_of_tool a", "after_tool b", "after_tool a",
        "out_of_agent b", "out_of_agent a", "after_agent b", "after_agent a",
    ]  # fmt: skip


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("where", ["model", "hook"])
async def test_an_error_is_told_to_every_middleware_once_at_any_depth(depth: int, where: str) -> None:
    class Failing(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            if ctx.path.endswith(f"agent-{depth}/step-1/model"):
                raise ModelError("broken", kind="invalid_request")

    error = ModelError("broken", kind="invalid_request")
    given: list[Middleware] = [first := Errors(), second := Errors()]
    if where == "hook":
        given.append(Failing())
    agent = Agent(ScriptedModel(error if where == "model" else "unsaid"), name=f"agent-{depth}")
    for level in range(depth - 1, 0, -1):
        child = agent
        model = ScriptedModel(tool_call(child.name, input="go"), "went on")
        agent = Agent(model, tools=[child], name=f"agent-{level}", middleware=given if level == 1 else [])
    if depth == 1:
        agent = Agent(ScriptedModel(error if where == "model" else "unsaid"), name="agent-1", middleware=given)
    await agent.run("go")
    for each in (first, second):
        assert Counter(id(error) for _, error in each.heard).most_common(1)[0][1] == 1
        assert sum("broken" in str(error) for _, error in each.heard) == 1
        assert each.heard[0][0].endswith("/model")


async def test_a_hook_that_raises_ends_the_call_before_the_hooks_after_it() -> None:
    notes: list[str] = []

    class Refusing(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Context) -> None:
            raise ModelError("no", kind="invalid_request")

    errors = Errors()
    agent = Agent(ScriptedModel("unsaid"), middleware=[Refusing(), Order("b", notes), errors])
    run = await agent.run("go")
    assert run.stop.error == "no"  # type: ignore[union-attr]
    assert "before_model b" not in notes
    assert len(errors.heard) == 1
