"""A call that nothing sees before its function is made at once; it gives what the same call gives with all checks."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.json import encode

from tests.samples import amount
from ziggurat import Agent, Approvals, Budget, Context, Message, Middleware, Text, layer, stack, tool
from ziggurat.agents import Environment
from ziggurat.models import ModelRequest, ModelResponse
from ziggurat.tools import PermissionLog, ToolCall, ToolResult

Outcome = tuple[list[object], list[tuple[str, str | None]]]


class Looks(Middleware):
    """Sees every call, and changes none."""

    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall:
        return call


@layer
async def through(call: ToolCall, ctx: Context, tool: Any) -> ToolResult:
    result: ToolResult = await tool(call, ctx)
    return result


CONCERNS: dict[str, dict[str, Any]] = {
    "hook": {"middleware": [Looks()]},
    "rule": {"approvals": Approvals("other")},
    "budget": {"budget": Budget(tool_calls=1000)},
    "store": {"store": "memory:"},
    "log": {"run": {"environment": Environment(permission_log=PermissionLog(size=10))}},
    "grants": {"run": {"grants": ["network"]}},
    "layer": {"layers": [through()]},
    "another call": {"beside": True},
}


def _outcome(texts: list[str], options: dict[str, Any]) -> Outcome:
    """Return what the function got and what the model was told, of calls with these arguments."""
    seen: list[object] = []

    @tool(permissions=[])
    async def count(number: int, text: str = "none", sure: bool = False, limit: int = 3) -> str:
        seen.append((number, text, sure, limit, *map(type, (number, text, sure, limit))))
        if number == 13:
            raise LookupError("an unlucky number")
        return f"{number} {text} {sure} {limit}"

    @tool(permissions=[])
    async def rest() -> str:
        return "rested"

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        step = sum(message.role == "assistant" for message in request.messages)
        if step == len(texts):
            return ModelResponse(Message("assistant", (Text("done"),)))
        calls = (ToolCall(f"c{step}", "count", texts[step]),)
        return ModelResponse(Message("assistant", (*calls, *beside)), "tool_calls")

    beside = (ToolCall("r", "rest", "{}"),) if options.get("beside") else ()
    settings = {key: value for key, value in options.items() if key not in ("run", "beside", "layers")}
    agent = Agent(model, tools=[stack(count, *options.get("layers", ())), rest], max_steps=100, **settings)
    run = asyncio.run(agent.run("go", **options.get("run", {})))
    assert run.output == "done"
    results = [each for message in run.messages for each in message.tool_results]
    return seen, [(each.text, each.error) for each in results if each.name == "count"]


numbers = st.integers() | st.integers(min_value=10**30, max_value=10**31)
anything = (
    st.none() | st.booleans() | numbers | st.floats() | st.text(max_size=8) | st.sampled_from(["3", "true", "-0"])
)
values = anything | st.lists(anything, max_size=2) | st.dictionaries(st.text(max_size=2), anything, max_size=1)
names = st.sampled_from(["number", "text", "sure", "limit", "other"])
objects = st.dictionaries(names, values, max_size=5).map(lambda each: encode(each).decode())
fitting = st.fixed_dictionaries(
    {"number": st.integers()}, optional={"text": st.text(), "sure": st.booleans(), "limit": st.integers()}
).map(lambda each: encode(each).decode())
odd = st.sampled_from(
    ["", "null", "[]", "{", '"{\\"number\\": 1}"', '{"number":1,"number":2}', '{"number":1e3}', '{"number":1.0}',
     '{"number":-0}', '{"number":1,"text":"\\ud800"}', '{"number":1,"text":"a\\u200bb\u200b"}', ' {"number" : 1}',
     '{"number":"13"}', '{"number":1,"sure":"yes"}', '{"number":1,"sure":1,"limit":null}', '{"number":NaN}']
)  # fmt: skip


@pytest.mark.parametrize("concern", CONCERNS)
@settings(max_examples=amount(12, 100))
@given(texts=st.lists(fitting | objects | odd, min_size=1, max_size=8))
def test_a_call_that_nothing_concerns_gives_what_it_gives_with_a(concern: str, texts: list[str]) -> None:
    assert _outcome(texts, {}) == _outcome(texts, CONCERNS[concern])


async def test_the_function_of_a_plain_call_cannot_make_another_call_in_its_place() -> None:
    @tool
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    @tool
    async def look(amount: int, ctx: Context) -> str:
        return (await pay(ToolCall("2", "pay", '{"amount":1000}'), ctx)).text

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        if len(request.messages) > 1:
            return ModelResponse(Message("assistant", (Text("done"),)))
        return ModelResponse(Message("assistant", (ToolCall("1", "look", '{"amount":1}'),)), "tool_calls")

    run = await Agent(model, tools=[look]).run("go")
    assert "other arguments than those that were approved" in run.messages[2].tool_results[0].text
