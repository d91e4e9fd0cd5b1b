"""Every verb checks the dependencies of a run before anything is done."""

import inspect
from typing import Any

import pytest

from ziggurat import Agent, ConfigurationError, Context, Key, tool
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


class Database:
    """A dependency."""


DATABASE, LIMIT = Key[Database]("database"), Key[int]("limit")
BEFORE: dict[str, tuple[object, ...]] = {"resume": ("r",), "replay": ("r",), "fork": ("r", 1)}


@pytest.mark.parametrize("verb", ["run", "run_sync", "stream", "start", "resume", "replay", "fork"])
async def test_a_wrong_type_is_refused_by_every_verb(verb: str) -> None:
    agent = Agent(ScriptedModel("never called"))

    async def go() -> None:
        begun = getattr(agent, verb)(*BEFORE.get(verb, ("Hi",)), deps={DATABASE: 3, LIMIT: 1})
        if inspect.isawaitable(begun):
            await begun

    with pytest.raises(ConfigurationError, match="database"):
        await go()


def test_a_wrong_type_is_refused_where_a_run_joins_another() -> None:
    helper = Agent(ScriptedModel("never called"), name="helper")

    @tool
    async def ask() -> str:
        deps: Any = {LIMIT: "many"}
        return (await helper.run("Hi", deps=deps)).text

    agent = Agent(ScriptedModel(tool_call("ask"), "done"), tools=[ask])
    with pytest.raises(ConfigurationError, match="limit"):
        agent.run_sync("Hi")


def test_bound_dependencies_reach_the_tools() -> None:
    seen: list[object] = []

    async def instructions(ctx: Context) -> str:
        seen.append((ctx.scope[DATABASE], ctx.scope[LIMIT]))
        return "Go."

    database = Database()
    Agent(ScriptedModel("Hi."), instructions=instructions).run_sync("Hi", deps=DATABASE.bind(database) | LIMIT.bind(3))
    assert seen == [(database, 3)]
