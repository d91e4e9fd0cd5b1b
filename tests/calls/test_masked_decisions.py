"""Decisions with values that a middleware masks on record: what was decided is carried out as it was made, or not."""

import asyncio
from typing import Any

import pytest

from tests.calls.samples import STORES, each
from tests.stores.places import new_store
from ziggurat import Agent, Approve, ConfigurationError, Context, Deny, Modify, Toolbox, ToolCall, tool
from ziggurat.agents import Answer, Decision
from ziggurat.calls.tool_call import act
from ziggurat.core import JOURNAL, LocalJournal, Scope
from ziggurat.core.entries import Decided, Intent, JournalEntry, Pending
from ziggurat.flows import ask
from ziggurat.messages.stops import Suspended
from ziggurat.middleware import Redaction
from ziggurat.testing import ScriptedModel
from ziggurat.tools import FunctionTool, tool_call
from ziggurat.tools.approval import APPROVALS, Approvals

pytestmark = pytest.mark.usefixtures("place")

SECRET = "hunter2x"


def _pay(paid: list[str], approval: bool = True) -> FunctionTool:
    @tool(approval=approval)
    async def pay(to: str) -> str:
        paid.append(to)
        return "paid"

    return pay


def _asking(answers: list[str]) -> FunctionTool:
    @tool
    async def find_out(what: str) -> str:
        answers.append(await ask(f"What is {what}?"))
        return "found"

    return find_out


DECISIONS: list[tuple[str, Decision, list[str] | None]] = [
    ("pay", Modify({"to": SECRET}), None),
    ("pay", Modify({"to": f"to {SECRET}!"}), None),
    ("pay", Modify({"to": "ann"}), ["ann"]),
    ("pay", Approve(), ["bob"]),
    ("pay", Deny(f"not with {SECRET}"), []),
    ("find_out", Answer(SECRET), None),
    ("find_out", Answer("Ur"), ["Ur"]),
    ("find_out", Deny(SECRET), []),
]


@pytest.mark.parametrize(("case", "first", "place"), each(DECISIONS, ["decide", "resume"], STORES), indirect=["place"])
async def test_a_decision_is_carried_out_as_it_was_made_or_refused(
    case: tuple[str, Decision, list[str] | None], first: str
) -> None:
    """With None for what is done, the decision is refused, and the call waits as before."""
    name, decision, done = case
    acts: list[str] = []
    called = tool_call("pay", to="bob") if name == "pay" else tool_call("find_out", what="it")
    agent = Agent(
        ScriptedModel(called, "done"),
        tools=[_pay(acts), _asking(acts)],
        middleware=[Redaction(SECRET)],
        store=new_store(),
    )

    async def decide(item_id: str) -> Any:
        if first == "resume":
            return await agent.resume("r", {item_id: decision})
        await agent.decide("r", {item_id: decision})
        return await agent.resume("r")

    waiting = await agent.run("go", run_id="r")
    item_id = waiting.pending[0].id
    if done is not None:
        assert (await decide(item_id)).text == "done"
        assert acts == done
        return
    with pytest.raises(ConfigurationError, match="masks"):
        await decide(item_id)
    again = await agent.resume("r")
    assert isinstance(again.stop, Suspended)
    assert [item.id for item in again.pending] == [item_id]
    assert acts == []


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("until", [Pending, Decided, Intent])
def test_what_an_approver_changed_is_run_as_it_was_changed_or_not_after_a_crash(
    until: type[JournalEntry], masked: bool
) -> None:
    """The process is lost after the entry `until` is on record."""
    approvals = Approvals(approver=lambda item: Modify({"to": SECRET}))
    redaction = Redaction(SECRET if masked else "another")

    def called(entries: list[JournalEntry], approvals: Approvals) -> tuple[list[JournalEntry], list[str], str | None]:
        paid: list[str] = []
        journal = LocalJournal("resume")
        journal.take_over(entries)
        journal.screen("", redaction.on_record)
        ctx = Context("run", scope=Scope({JOURNAL: journal, APPROVALS: (approvals,)}))
        result = asyncio.run(act(Toolbox([_pay(paid)]), ToolCall("1", "pay", '{"to":"bob"}'), ctx))
        return list(journal.entries), paid, result.error

    entries, paid, error = called([], approvals)
    assert (paid, error) == ([SECRET], None)
    last = next(number for number, entry in enumerate(entries, 1) if isinstance(entry, until))
    _, paid, error = called(entries[:last], approvals)
    if masked and until is not Pending:
        assert (paid, error) == ([], "interrupted")
    else:
        assert (paid, error) == ([SECRET], None)
