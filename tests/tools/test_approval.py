"""Which calls a person must agree to, and how the agreement is asked for."""

import asyncio
from typing import Any

import pytest

from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.errors import ConfigurationError, Suspend
from ziggurat.core.event import Event
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.scope import Scope
from ziggurat.messages.agent import Approve, Deny, Modify, PendingItem
from ziggurat.messages.events import ApprovalDecided, ApprovalRequested
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.tools.act import act
from ziggurat.tools.approval import APPROVALS, Approvals, decide, item_of, needed
from ziggurat.tools.function import tool
from ziggurat.tools.toolbox import Toolbox


def _ctx(*rules: Approvals) -> Context:
    ctx = Context("run", scope=Scope({JOURNAL: MemoryJournal()}))
    return ctx.within(APPROVALS, rules) if rules else ctx


def test_patterns_name_tools() -> None:
    rule = Approvals("delete_*", "send?")
    assert rule.concern("delete_file")
    assert rule.concern("send1")
    assert not rule.concern("send")
    assert not rule.concern("Delete_file")
    assert repr(rule) == "Approvals('delete_*', 'send?')"


@pytest.mark.parametrize("wrong", ["", None, 3])
def test_wrong_patterns_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="patterns of tools"):
        Approvals(wrong)
    with pytest.raises(ConfigurationError, match="approver must be callable"):
        Approvals("x", approver="yes")  # type: ignore[arg-type]


def test_a_tool_that_says_so_itself_always_needs_it_and_rules_add() -> None:
    spec, quiet = ToolSpec("pay", approval=True), ToolSpec("look")
    assert needed(spec, _ctx()) == (True, None)
    assert needed(quiet, _ctx()) == (False, None)
    assert needed(quiet, _ctx(Approvals("pay"))) == (False, None)
    assert needed(quiet, _ctx(Approvals("*"))) == (True, None)


def test_the_innermost_who_can_decide_does() -> None:
    def outer(item: PendingItem) -> Approve:
        return Approve()

    def inner(item: PendingItem) -> Approve:
        return Approve()

    ctx = _ctx(Approvals("*", approver=outer), Approvals("pay", approver=inner))
    assert needed(ToolSpec("pay"), ctx) == (True, inner)
    assert needed(ToolSpec("look"), ctx) == (True, outer)
    assert needed(ToolSpec("pay"), _ctx(Approvals("*", approver=outer), Approvals("pay"))) == (True, outer)


def test_an_id_tells_path_tool_and_bytes_apart() -> None:
    here, there = _ctx().at("a"), _ctx().at("b")
    calls = [ToolCall("1", "pay", '{"a":1}'), ToolCall("1", "pay", '{"a": 1}'), ToolCall("1", "send", '{"a":1}')]
    ids = {item_of(call, ctx).id for call in calls for ctx in (here, there)}
    assert len(ids) == 6
    again = ToolCall("2", "pay", '{"a":1}')
    assert item_of(again, here).id == item_of(calls[0], here).id, "the provider's id is no part of it"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_approver_decides_at_once_and_it_is_told(asynchronous: bool) -> None:
    heard: list[Event] = []

    def now(item: PendingItem) -> Deny:
        return Deny(f"not {item.call.name}")

    async def later(item: PendingItem) -> Deny:
        await asyncio.sleep(0)
        return Deny(f"not {item.call.name}")

    ctx = _ctx().heard_by(heard.append)
    item = item_of(ToolCall("1", "pay"), ctx)
    assert asyncio.run(decide(item, later if asynchronous else now, ctx)) == Deny("not pay")
    assert [type(event) for event in heard] == [ApprovalRequested, ApprovalDecided]


def test_with_nobody_to_decide_it_waits() -> None:
    ctx = _ctx()
    item = item_of(ToolCall("1", "pay"), ctx)
    with pytest.raises(Suspend) as caught:
        asyncio.run(decide(item, None, ctx))
    assert caught.value.pending == (item,)


@pytest.mark.parametrize("answer", [True, "approve", None, Approve])
def test_an_approver_that_answers_something_else_approves_nothing(answer: Any) -> None:
    done: list[int] = []

    @tool
    async def pay() -> str:
        """Pay."""
        done.append(1)
        return "paid"

    async def later(item: PendingItem) -> Any:
        return answer

    ctx = _ctx(Approvals("pay", approver=later))
    result = asyncio.run(act(Toolbox([pay]), ToolCall("1", "pay"), ctx))
    assert result.error == "permanent"
    assert done == []


def test_an_approver_that_fails_approves_nothing() -> None:
    done: list[int] = []

    @tool
    async def pay() -> str:
        """Pay."""
        done.append(1)
        return "paid"

    def broken(item: PendingItem) -> Approve:
        raise RuntimeError("the desk is closed")

    result = asyncio.run(act(Toolbox([pay]), ToolCall("1", "pay"), _ctx(Approvals("pay", approver=broken))))
    assert result.error == "permanent"
    assert "the desk is closed" in result.text
    assert done == []


def test_an_approver_may_change_the_call() -> None:
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    def less(item: PendingItem) -> Modify:
        return Modify('{"amount": 1}')

    async def go(approver: Any) -> ToolResult:
        return await act(
            Toolbox([pay]), ToolCall("1", "pay", '{"amount": 100}'), _ctx(Approvals("pay", approver=approver))
        )

    assert asyncio.run(go(less)).text == "paid 1"
    assert asyncio.run(go(lambda item: Modify('{"amount": "all"}'))).error == "invalid_arguments"
    assert asyncio.run(go(lambda item: Deny("no money"))) == ToolResult("1", "pay", "denied: no money", "denied", "pay")
    assert asyncio.run(go(lambda item: Approve())).text == "paid 100"
