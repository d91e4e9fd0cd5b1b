"""Names in approvals, budgets and stop policies that name no tool are refused or warned of, and all others are not."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ziggurat import Agent, Approvals, Budget, Rule, until_tool_called
from ziggurat.agents.stop import max_steps
from ziggurat.core.event import warn_once
from ziggurat.errors import ConfigurationError
from ziggurat.flows import Flow, flow
from ziggurat.testing import ScriptedModel


def delete_file(path: str) -> str:
    """Delete a file."""
    return path


def _given(name: str) -> list[dict[str, Any]]:
    stop = until_tool_called(name)
    policies = [stop, stop | max_steps(3), max_steps(3) & stop]
    return [
        {"approvals": Approvals(name)},
        {"budget": Budget(tools={name: 1})},
        *({"stop": policy} for policy in policies),
    ]


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    warn_once.cache_clear()


@pytest.mark.parametrize("place", range(5))
def test_a_name_that_is_misspelt_is_refused_with_the_near_one(place: int) -> None:
    with pytest.raises(ConfigurationError, match="'delete_file'"):
        Agent(ScriptedModel("x"), tools=[delete_file], **_given("delete_fle")[place])


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("name", ["remove", "hand_over"])
def test_another_name_is_warned_of_once(place: int, name: str, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        Agent(ScriptedModel("x"), tools=[delete_file], **_given(name)[place])
    assert [name in record.message for record in caplog.records] == [True]


def test_a_pattern_is_warned_of_and_never_refused(caplog: pytest.LogCaptureFixture) -> None:
    Agent(ScriptedModel("x"), tools=[delete_file], approvals=Approvals("delete_fil?s", "delete_*", "*"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("place", range(5))
def test_the_tools_of_agents_below_count(place: int, caplog: pytest.LogCaptureFixture) -> None:
    inner = Agent(ScriptedModel("x"), tools=[delete_file], name="clerk", description="Files.")
    outer = Agent(ScriptedModel("x"), tools=[inner.as_tool(name="desk")], name="desk", description="Asks.")
    for name in ("delete_file", "clerk", "desk"):
        Agent(ScriptedModel("x"), tools=[inner, outer], **_given(name)[place])
    assert not caplog.records
    Agent(ScriptedModel("x"), tools=[inner, outer], **_given("delete_fle")[place])
    assert len(caplog.records) == 1


def test_rules_for_models_and_the_tool_of_the_answer_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    Agent(ScriptedModel("x"), approvals=Approvals(Rule("gpt-*", stage="model")))
    assert not caplog.records


WAYS: dict[str, Callable[[Agent[str], Approvals], Awaitable[Any]]] = {
    "run": lambda agent, approvals: agent.run("go", approvals=approvals),
    "start": lambda agent, approvals: agent.start("go", approvals=approvals).result(),
    "as an agent of a flow": lambda agent, approvals: _within(agent).run(approvals=approvals),
}


def _within(agent: Agent[str]) -> Flow[None, str]:
    @flow
    async def asks() -> str:
        return (await agent.run("go")).text

    return asks


@pytest.mark.parametrize("way", WAYS)
async def test_the_names_given_to_a_run_are_checked_as_those_of_its_agent(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    inner = Agent(ScriptedModel("x"), tools=[delete_file], name="clerk", description="Files.")
    for tools, own in (([delete_file], None), ([inner], None), ([delete_file], Approvals("delete_*"))):
        agent = Agent(ScriptedModel(always="x"), tools=tools, approvals=own)
        for name in ("delete_file", "delete_*", "*"):
            await WAYS[way](agent, Approvals(name))
        assert not caplog.records
        for _ in range(2):
            await WAYS[way](agent, Approvals("typo_*"))
        alone = way != "as an agent of a flow"  # which may have others
        assert ["typo_*" in record.message for record in caplog.records] == [True] * alone
        caplog.clear()
        warn_once.cache_clear()
        if tools == [delete_file] and alone:
            with pytest.raises(ConfigurationError, match="'delete_file'"):
                await WAYS[way](agent, Approvals("delete_fle"))
