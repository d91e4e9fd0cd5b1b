"""The way of a tool call through the package: it is the one that the documents describe, and no longer than that."""

import asyncio
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ziggurat
from ziggurat.agents.agent import Agent
from ziggurat.agents.loop_run import LoopRun
from ziggurat.calls import tool_call as station
from ziggurat.calls.batch import call_tool, call_tools
from ziggurat.core.context import Context
from ziggurat.messages.agent import Approve, PendingItem
from ziggurat.messages.budget import Budget
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.parts import tool_call as call_of
from ziggurat.models.scripted import ScriptedModel
from ziggurat.tools.approval import Approvals
from ziggurat.tools.function import tool

PACKAGE = Path(ziggurat.__file__).parent
DESIGN = Path(__file__).parents[2] / "docs" / "design.md"
STAYS, FILES = 20, 10
"""How often a reader who follows a tool call goes on to another file, and in how many files."""

Place = tuple[str, str]
"""The name of a function, with that of its class, and its file."""


@tool
async def add(a: int, b: int) -> int:
    return a + b


@tool(approval=True, permissions=["network"])
async def pay(amount: int) -> str:
    if amount > 5:
        raise ValueError("too much")
    return "paid"


@tool(effect="once")
def send(text: str) -> str:
    return "sent"


class Looking(Middleware):
    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall | None:
        return None

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Any) -> ToolResult:
        result: ToolResult = await tool(call, ctx)
        return result

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult | None:
        return None


def approve(item: PendingItem) -> Approve:
    return Approve()


def agent(*calls: ToolCall, **settings: Any) -> Agent:
    return Agent(ScriptedModel(list(calls), "done", per_run=True), tools=[add, pay, send], **settings)


APPROVALS = Approvals("send", approver=approve)
CHECKED: dict[str, Any] = {"approvals": APPROVALS, "middleware": [Looking()], "budget": Budget(tool_calls=10)}
AGENTS = {
    "plain": agent(call_of("add", a=1, b=2)),
    "unknown": agent(call_of("ad", a=1, b=2)),
    "does not fit": agent(call_of("add", a="x")),
    "checked": agent(call_of("pay", amount=3), **CHECKED),
    "checked, fails": agent(call_of("pay", amount=9), **CHECKED),
    "once": agent(call_of("send", text="hello"), **CHECKED),
}
BESIDE = agent(call_of("pay", amount=3), call_of("pay", amount=9), **CHECKED)


def described() -> list[Place]:
    """Return the functions of the way in the documents, and their files."""
    return re.findall(r"^\| \d+ \| `([\w.]+)` \| `([\w/.]+)` \|", DESIGN.read_text(), re.MULTILINE)


def passed(agent: Agent, **settings: Any) -> list[tuple[Place, bool]]:
    """Return the functions of the package that the tool calls of a run pass, and which of them get the call itself."""
    places: list[tuple[Place, bool]] = []
    begins, ends = {call_tool.__code__, call_tools.__code__}, LoopRun.add_results.__code__
    calling = False

    def trace(frame: FrameType, what: str, value: object) -> None:
        nonlocal calling
        code = frame.f_code
        calling = (calling or code in begins) and code is not ends
        if what == "call" and calling and code.co_filename.startswith(str(PACKAGE)) and code.co_name[0] != "<":
            place = (code.co_qualname, str(Path(code.co_filename).relative_to(PACKAGE)))
            places.append((place, any(map(_is_call, map(frame.f_locals.get, _parameters(frame))))))

    async def run() -> None:
        await agent.run("go", **settings)
        sys.setprofile(trace)
        try:
            assert (await agent.run("go", **settings)).text == "done"
        finally:
            sys.setprofile(None)

    asyncio.run(run())
    return places


def _parameters(frame: FrameType) -> tuple[str, ...]:
    code = frame.f_code
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _is_call(value: object) -> bool:
    return isinstance(value, (ToolCall, station._LiveCall))


def stays_of(agent: Agent, **settings: Any) -> list[str]:
    """Return the files in which a reader is who follows a call: one entry for each time that it passes to another."""
    files = [file for (_, file), gets_it in passed(agent, **settings) if gets_it]
    return [file for before, file in zip(["", *files], files, strict=False) if file != before]


def test_the_described_way_is_short() -> None:
    assert 10 < len(described()) <= STAYS
    assert len({file for _, file in described()}) <= FILES


@pytest.mark.parametrize("kind", AGENTS)
def test_the_way_of_a_call_is_short(kind: str) -> None:
    stays = stays_of(AGENTS[kind], grants=["network", "custom:mail"] if "checked" in kind else None)
    assert 4 <= len(stays) <= STAYS, stays
    assert len(set(stays)) <= FILES, stays


def test_a_plain_call_passes_few_functions() -> None:
    places = passed(AGENTS["plain"])
    assert len(places) <= 26
    assert len(stays_of(AGENTS["plain"])) <= 6


def test_calls_with_approvals_permissions_budgets_and_hooks_go_the_described_way() -> None:
    order = list(dict.fromkeys(place for place, _ in passed(BESIDE, grants=["network"])))
    assert not [each for each in described()[1:] if each not in order]  # the first one is the loop, which makes it
    succeeds = [order.index(each) for each in described()[1:-3]]  # up to the result; the call beside it fails
    assert succeeds == sorted(succeeds)
