"""The way of a tool call through the package: it is the one that the documents describe, and no longer than that."""

import asyncio
import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import ziggurat
from ziggurat.agents.agent import Agent
from ziggurat.agents.loop_run import LoopRun
from ziggurat.calls.batch import call_tool, call_tools
from ziggurat.core.context import Context
from ziggurat.messages.agent import Approve, PendingItem
from ziggurat.messages.budget import Budget
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.parts import ToolResult
from ziggurat.messages.parts import tool_call as call_of
from ziggurat.models.scripted import ScriptedModel
from ziggurat.tools.approval import Approvals
from ziggurat.tools.function import tool

PACKAGE = Path(ziggurat.__file__).parent
DESIGN = Path(__file__).parents[2] / "docs" / "design.md"
ROOMS = ("calls/", "tools/")
STAYS, FILES = 20, 10
"""How many functions a reader goes through who follows a tool call, and in how many files."""


@tool
async def add(a: int, b: int) -> int:
    return a + b


@tool(approval=True, permissions=["network"])
async def pay(amount: int) -> str:
    if amount > 5:
        raise ValueError("too much")
    return "paid"


class Looking(Middleware):
    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult | None:
        return None


def approve(item: PendingItem) -> Approve:
    return Approve()


PLAIN = Agent(ScriptedModel(call_of("add", a=1, b=2), "done", per_run=True), tools=[add])
APPROVED = Agent(
    ScriptedModel([call_of("pay", amount=3), call_of("pay", amount=9)], "done", per_run=True),
    tools=[pay],
    approvals=Approvals(approver=approve),
    middleware=[Looking()],
    budget=Budget(tool_calls=10),
)


def described() -> list[tuple[str, str]]:
    """Return the functions of the way in the documents, and their files."""
    return re.findall(r"^\| \d+ \| `([\w.]+)` \| `([\w/.]+)` \|", DESIGN.read_text(), re.MULTILINE)


def passed(agent: Agent, **settings: Any) -> list[tuple[str, str]]:
    """Return the functions of the package that the tool calls of a run pass, by name and file, in their order."""
    order: dict[tuple[str, str], None] = {}
    begins, ends = {call_tool.__code__, call_tools.__code__}, LoopRun.add_results.__code__
    calling = False

    def trace(frame: FrameType, what: str, value: object) -> None:
        nonlocal calling
        code = frame.f_code
        calling = (calling or code in begins) and code is not ends
        if what == "call" and calling and code.co_filename.startswith(str(PACKAGE)) and code.co_name[0] != "<":
            order[_name_of(frame), str(Path(code.co_filename).relative_to(PACKAGE))] = None

    async def run() -> None:
        await agent.run("go", **settings)
        sys.setprofile(trace)
        try:
            assert (await agent.run("go", **settings)).text == "done"
        finally:
            sys.setprofile(None)

    asyncio.run(run())
    return list(order)


def _name_of(frame: FrameType) -> str:
    """Return the name of a function, with that of its class; Python 3.11 has it in the code."""
    return frame.f_code.co_qualname


def in_rooms(order: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [each for each in order if each[1].startswith(ROOMS)]


def test_the_described_way_is_short() -> None:
    assert 10 < len(described()) <= STAYS
    assert len({file for _, file in described()}) <= FILES


def test_a_plain_call_passes_few_functions() -> None:
    order = passed(PLAIN)
    assert len(order) <= 24
    assert len(in_rooms(order)) <= 14
    assert len({file for _, file in in_rooms(order)}) <= 8


def test_calls_with_approvals_permissions_budgets_and_hooks_go_the_described_way() -> None:
    order = passed(APPROVED, grants=["network"])
    assert not [each for each in described()[1:] if each not in order]  # the first one is the loop, which makes it
    succeeds = [order.index(each) for each in described()[1:17]]  # up to the result; the call beside it fails
    assert succeeds == sorted(succeeds)
    assert len(in_rooms(order)) <= 55
    assert len({file for _, file in in_rooms(order)}) <= 16
