"""Names of other libraries are answered with ours, which exist."""

import inspect
import re
from typing import Any

import pytest

from ziggurat import Agent, AgentRun, Budget, ConfigurationError, ModelSettings
from ziggurat.core.settings import ARGUMENTS, OF_AGENTS, OF_RUNS
from ziggurat.flows import flow, step
from ziggurat.messages.agent import _MEANT
from ziggurat.runs.options import RunArguments
from ziggurat.testing import ScriptedModel


@pytest.mark.parametrize("name", ARGUMENTS)
async def test_an_argument_of_another_library_is_answered_with_ours(name: str) -> None:
    make: Any = Agent
    with pytest.raises(TypeError, match=re.escape(ARGUMENTS[name])):
        make(ScriptedModel("x"), **{name: None})
    run: Any = Agent(ScriptedModel("x")).run
    if name != "prompt":
        with pytest.raises(TypeError, match=re.escape(ARGUMENTS[name])):
            await run("x", **{name: None})


async def test_an_argument_of_an_agent_is_not_one_of_a_run_and_the_reverse() -> None:
    of_agents, of_runs = (
        {*inspect.signature(Agent.__init__).parameters} - {"self", "model"},
        {*RunArguments.__annotations__},
    )
    assert of_agents - of_runs == OF_AGENTS
    assert of_runs - of_agents == OF_RUNS
    agent: Any = Agent(ScriptedModel("x"))
    make: Any = Agent
    for name in OF_AGENTS:
        with pytest.raises(TypeError, match=rf"Agent\({name}="):
            await agent.run("x", **{name: None})
    for name in OF_RUNS:
        with pytest.raises(TypeError, match=rf"run\(..., {name}="):
            make(ScriptedModel("x"), **{name: None})


def test_an_argument_that_resembles_none_is_answered_with_those_there_are() -> None:
    make: Any = Budget
    with pytest.raises(TypeError, match=r"cost, .*tokens"):
        make(usd=1)


def test_the_arguments_in_answers_exist() -> None:
    known = {
        *inspect.signature(Agent.__init__).parameters,
        *RunArguments.__annotations__,
        *ModelSettings.__struct_fields__,
    }
    written = {name for text in ARGUMENTS.values() for name in re.findall(r"(\w+)=", text)}
    assert written <= known
    assert known.isdisjoint(ARGUMENTS.keys() - set(ModelSettings.__struct_fields__) - {"prompt"})


@pytest.mark.parametrize("name", _MEANT)
async def test_an_attribute_of_another_library_is_answered_with_ours(name: str) -> None:
    run: Any = await Agent(ScriptedModel("x")).run("x")
    assert hasattr(run, _MEANT[name])
    with pytest.raises(AttributeError, match=f"run.{_MEANT[name]}$"):
        getattr(run, name)


async def test_an_unknown_attribute_gets_no_hint() -> None:
    run: AgentRun[str] = await Agent(ScriptedModel("x")).run("x")
    with pytest.raises(AttributeError, match=r"'unheard'$"):
        run.unheard  # type: ignore[attr-defined]  # noqa: B018


def test_agents_of_one_name_are_told_to_take_names() -> None:
    with pytest.raises(ConfigurationError, match=r"Agent\(\.\.\., name="):
        Agent(ScriptedModel("x"), tools=[Agent(ScriptedModel("y")), Agent(ScriptedModel("z"))])


@pytest.mark.parametrize("decorator", [flow, step])
def test_a_sync_function_is_answered_with_an_async_one(decorator: Any) -> None:
    def book() -> int:
        return 1

    with pytest.raises(ConfigurationError, match="async def book"):
        decorator(book)
