"""What all flows take is checked where a plan or a graph is made, whichever function makes it."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.plans.states import State, add
from ziggurat import Agent, ConfigurationError
from ziggurat.plans import Compound, Graph, Planner, Task, htn_flow, plan_execute, workflow
from ziggurat.testing import ScriptedModel

AGENT = Agent(ScriptedModel(always="done"))


def build(**arguments: Any) -> object:
    graph = Graph(State)
    add(graph, "a")
    return graph.build("graph", **arguments)


MAKERS: dict[str, Callable[..., object]] = {
    "workflow": lambda **arguments: workflow(Task("a", prompt="x"), agent=AGENT, **arguments),
    "plan_execute": lambda **arguments: plan_execute(ScriptedModel("done"), **arguments),
    "htn_flow": lambda **arguments: htn_flow(Planner([]), Compound("look"), **arguments),
    "build": build,
}
WRONG: dict[str, object] = {
    "budget": 3, "grants": 3, "approvals": True, "middleware": AGENT, "debug": "yes", "description": b"", "store": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("argument", WRONG)
def test_a_wrong_value_is_refused_with_its_name(name: str, argument: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name}\({argument}="):
        MAKERS[name](**{argument: WRONG[argument]})


@pytest.mark.parametrize("name", MAKERS)
def test_an_unknown_one_is_refused_with_the_one_that_was_meant(name: str) -> None:
    with pytest.raises(TypeError, match="did you mean 'budget'"):
        MAKERS[name](bugdet=None)
