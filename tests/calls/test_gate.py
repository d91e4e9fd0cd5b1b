"""Approval rules: which one wins, who decides, and what happens if a rule cannot be evaluated."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.calls.samples import each
from ziggurat import Approve, ConfigurationError, Context, Denied, Deny, Event, ToolCall
from ziggurat.agents import PendingItem
from ziggurat.calls.call_decision import item_of
from ziggurat.calls.gate import ApprovedCall, Judgement, judge, pass_gate
from ziggurat.core import JOURNAL, LocalJournal, Scope
from ziggurat.messages import ToolSpec
from ziggurat.tools.approval import APPROVALS, Approvals, Rule


def _ctx(*gates: Approvals) -> Context:
    ctx = Context("run", scope=Scope({JOURNAL: LocalJournal()}))
    return ctx.within(APPROVALS, gates) if gates else ctx


def _judged(ctx: Context, name: str = "pay", arguments: str = '{"amount":5}', *, always: bool = False) -> Judgement:
    return asyncio.run(judge(ToolCall("1", name, arguments), "tool", ctx, always=always))


def _yes(item: PendingItem) -> Approve:
    return Approve()


def test_patterns_name_tools() -> None:
    gate = Approvals("delete_*", "send?", Rule("gpt-*", stage="model"))
    assert gate.concern("delete_file")
    assert gate.concern("send1")
    assert not gate.concern("send")
    assert not gate.concern("Delete_file")
    assert not gate.concern("gpt-5")
    assert gate.concern("gpt-5", "model")
    assert repr(Approvals("delete_*", "send?")) == "Approvals('delete_*', 'send?')"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Approvals(""), "pattern"),
        (lambda: Approvals(None), "Rule"),  # type: ignore[arg-type]
        (lambda: Rule("x", "maybe"), "'ask', 'allow' or 'deny'"),  # type: ignore[arg-type]
        (lambda: Rule("x", when=True), "when"),  # type: ignore[arg-type]
        (lambda: Rule("x", stage="agent"), "'tool' or 'model'"),  # type: ignore[arg-type]
        (lambda: Approvals("x", approver="yes"), "approver"),  # type: ignore[arg-type]
        (lambda: Approvals("x", timeout=0), "timeout"),
        (lambda: Approvals("x", timeout=float("inf")), "timeout"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_made(make: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        make()


def test_a_rule_that_denies_wins_wherever_it_stands() -> None:
    deny = Rule("pay", "deny", reason="no money")
    assert _judged(_ctx(Approvals(Rule("pay", "allow"), "pay", deny))) == Judgement("deny", "no money")
    assert _judged(_ctx(Approvals(Rule("pay", "allow")), Approvals(deny))).verdict == "deny"
    assert _judged(_ctx(Approvals(deny), Approvals(Rule("pay", "allow")))).verdict == "deny"


def test_of_the_others_the_first_that_holds_decides() -> None:
    small = Rule("pay", "allow", when=lambda arguments: bool(arguments["amount"] < 10))
    assert _judged(_ctx(Approvals(small, "*"))).verdict == "allow"
    assert _judged(_ctx(Approvals(small, "*")), arguments='{"amount":50}').verdict == "ask"
    assert _judged(_ctx(Approvals("*", small))).verdict == "ask"
    assert _judged(_ctx(Approvals("send"))).verdict == "allow", "no rule speaks of it"


def test_what_an_agent_beneath_allows_is_still_asked_above() -> None:
    assert _judged(_ctx(Approvals("pay"), Approvals(Rule("*", "allow")))).verdict == "ask"
    assert _judged(_ctx(Approvals(Rule("*", "allow")), Approvals("pay"))).verdict == "ask"
    assert _judged(_ctx(Approvals(Rule("*", "allow"))), always=True).verdict == "ask", "the tool itself asks"


async def _later(arguments: dict[str, Any]) -> bool:
    await asyncio.sleep(0)
    return bool(arguments["amount"] > 3)


def _raises(arguments: dict[str, Any]) -> bool:
    raise KeyError("amuont")


@pytest.mark.parametrize("verdict", ["allow", "ask", "deny"])
def test_a_predicate_may_be_async(verdict: Any) -> None:
    ctx = _ctx(Approvals(Rule("pay", verdict, when=_later)))
    assert _judged(ctx).verdict == verdict
    assert _judged(ctx, arguments='{"amount":1}').verdict == "allow"


@pytest.mark.parametrize(
    ("when", "verdict"), each([_raises, lambda _: None, lambda _: 1, lambda _: "no"], ["allow", "ask", "deny"])
)
def test_where_nobody_can_tell_somebody_is_asked(verdict: Any, when: Any) -> None:
    judgement = _judged(_ctx(Approvals(Rule("pay", verdict, when=when), Rule("pay", "allow"))))
    assert judgement.verdict == "ask"
    assert "pay" in judgement.reason


def test_a_rule_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    _judged(_ctx(Approvals(Rule("pay", "deny", when=_raises))))
    (record,) = caplog.records
    assert "'pay' failed" in record.message


def test_a_rule_that_denies_wins_over_one_that_cannot_be_judged() -> None:
    rules = (Rule("pay", "deny", when=_raises), Rule("pay", "deny", reason="never"))
    assert _judged(_ctx(Approvals(*rules))) == Judgement("deny", "never")


def test_a_predicate_cannot_change_what_others_see() -> None:
    def meddling(arguments: dict[str, Any]) -> bool:
        arguments["amount"] = 0
        return False

    seen: list[Any] = []

    def looking(arguments: dict[str, Any]) -> bool:
        seen.append(arguments["amount"])
        return True

    _judged(_ctx(Approvals(Rule("pay", when=meddling), Rule("pay", when=looking))))
    assert seen == [5]


def test_the_outermost_who_asks_decides() -> None:
    outer, inner = Approvals("*", approver=_yes), Approvals("pay", approver=lambda item: Deny())
    assert _judged(_ctx(outer, inner)).desk is outer
    assert _judged(_ctx(outer, Approvals("pay"))).desk is outer
    assert _judged(_ctx(Approvals("*"), inner)).desk is None, "who asks further out has no approver: it waits"
    assert _judged(_ctx(Approvals(approver=_yes), Approvals("pay"))).desk is not None, "the next further out"
    assert _judged(_ctx(Approvals("send", approver=_yes), inner)).desk is inner
    assert _judged(_ctx(Approvals("send"), inner), "look", always=True).desk is inner, "only the tool itself asks"


def test_an_id_tells_path_tool_and_bytes_apart() -> None:
    here, there = _ctx().at("a"), _ctx().at("b")
    calls = [ToolCall("1", "pay", '{"a":1}'), ToolCall("1", "pay", '{"a": 1}'), ToolCall("1", "send", '{"a":1}')]
    ids = {item_of(call, ctx).id for call in calls for ctx in (here, there)}
    assert len(ids) == 6
    again = ToolCall("2", "pay", '{"a":1}')
    assert item_of(again, here).id == item_of(calls[0], here).id, "the provider's id is not a part of it"


def test_a_person_is_shown_what_an_eye_would_miss() -> None:
    item = item_of(ToolCall("1", "pay", '{ "to": "a\u202eb", "amount": 5 }'), _ctx())
    assert item.shown == '{"amount":5,"to":"a\\u202eb"}'


PAY = ToolSpec("pay", "", {})


async def _passed(*gates: Approvals, heard: list[Event] | None = None) -> ApprovedCall:
    ctx = _ctx(*gates) if heard is None else _ctx(*gates).heard_by(heard.append)
    return await pass_gate(ToolCall("1", "pay"), None, ctx, lambda call: call, PAY)


async def test_an_approver_that_gives_up_has_denied() -> None:
    async def gives_up(item: PendingItem) -> Approve:
        raise asyncio.CancelledError

    with pytest.raises(Denied, match="gave up"):
        await _passed(Approvals("pay", approver=gives_up))


async def test_an_approver_that_will_not_stop_decides_nothing_any_more() -> None:
    async def stubborn(item: PendingItem) -> Approve:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Approve()
        raise AssertionError

    async def go() -> bool:
        task = asyncio.ensure_future(_passed(Approvals("pay", approver=stubborn)))
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert await go()
