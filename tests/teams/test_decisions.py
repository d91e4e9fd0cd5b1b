"""What a person changes in a call of a team's member is checked when it is decided, as for an agent alone."""

from collections.abc import Sequence

import pytest

from tests.teams.models import Answering, after_tools
from tests.teams.patterns import CASES, built, member
from tests.wrong import wrong
from ziggurat import Agent, Approvals, ConfigurationError, Modify, Runnable, tool
from ziggurat.messages import ToolCall, stops, tool_call
from ziggurat.teams import handoffs, majority


def paying(name: str = "worker", parameter: str = "amount") -> tuple[Agent, list[int]]:
    """Return an agent that pays, whose tool has one whole number, and what it has paid."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def give(coins: int) -> str:
        """Pay."""
        paid.append(coins)
        return "paid"

    used = tool(name="pay", approval=True)(pay if parameter == "amount" else give)
    call = tool_call("pay", **wrong({parameter: 5}))
    return Agent(Answering(after_tools("done", call)), name=name, tools=[used]), paid


async def refused(team: Runnable, wrongly: str) -> str:
    """Return why a change of the call that waits is refused, which leaves it waiting."""
    waiting = await team.run("go", run_id="r-1")
    (item, *_) = waiting.pending
    with pytest.raises(ConfigurationError, match="does not fit") as refusal:
        await team.resume("r-1", {item.id: Modify(wrongly)})
    assert [each.id for each in (await team.resume("r-1")).pending] == [each.id for each in waiting.pending]
    return str(refusal.value)


@pytest.mark.parametrize("case", CASES, ids=">".join)
async def test_arguments_that_do_not_fit_are_refused_at_any_depth(case: Sequence[str]) -> None:
    worker, paid = paying()
    team = built(case, worker, store="memory:")
    assert "amount" in await refused(team, '{"amount": "all"}')
    run = await team.resume("r-1")
    for _ in range(20):
        if not run.pending:
            break
        run = await team.resume("r-1", {item.id: Modify('{"amount": 7}') for item in run.pending})
    assert isinstance(run.stop, stops.Completed)
    assert set(paid) == {7}


async def test_members_with_tools_of_one_name_are_told_apart() -> None:
    (first, _), (second, paid) = paying("settled"), paying("1", "coins")
    inner = majority(member("helper", "x"), first, name="inner")
    team = majority(inner, second, name="outer", store="memory:")
    waiting = await team.run("go", run_id="r-1")
    texts = {item.path.split("/")[4]: item for item in waiting.pending}
    assert set(texts) == {"inner", "1"}
    with pytest.raises(ConfigurationError, match="coins"):
        await team.resume("r-1", {texts["1"].id: Modify('{"amount": 7}')})
    changed = {texts["1"].id: Modify('{"coins": 7}'), texts["inner"].id: Modify('{"amount": 8}')}
    assert isinstance((await team.resume("r-1", changed)).stop, stops.Completed)
    assert paid == [7]


async def test_a_team_as_a_tool_and_a_handoff_are_checked_too() -> None:
    worker, _ = paying()
    team = majority(member("helper", "x"), worker, name="team")
    outer = Agent(Answering(after_tools("x", tool_call("team", input="go"))), tools=[team], store="memory:")
    assert "amount" in await refused(outer, '{"sum": 1}')

    def over(reason: str) -> ToolCall:
        return tool_call("handoff_to_b", reason=reason)

    desk = handoffs(
        member("a", over("why")), member("b", "B"), name="desk", approvals=Approvals("handoff_*"), store="memory:"
    )
    assert "reason" in await refused(desk, '{"reason": [1]}')
