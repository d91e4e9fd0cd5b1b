"""Arguments changed by a person are checked against the tool's parameters, at any place in a run."""

import pytest

from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.decisions import misfit_of
from ziggurat.core.codec import encode
from ziggurat.core.layer import stack
from ziggurat.layers.retry import retry
from ziggurat.layers.timeout import timeout
from ziggurat.messages.agent import Modify, PendingItem, Stage
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import user
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.parts import ToolCall
from ziggurat.models.scripted import ScriptedModel
from ziggurat.tools.function import tool


@tool(approval=True)
def pay(to: str, amount: int = 5) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


MODEL = ScriptedModel(always="done")
CLERK = Agent(MODEL, tools=[stack(pay, timeout(seconds=9))], name="clerk").layered(retry(attempts=2))
DESK = Agent(MODEL, tools=[pay, stack(CLERK.as_tool(name="ask"), timeout(seconds=9))], name="desk")
TOP, BENEATH = "desk/step-1/tool-1:pay", "desk/step-2/tool-2:ask/clerk/step-1/tool-1:pay"


def misfit(agent: Runnable, path: str, name: str, changed: Modify) -> str | None:
    stage: Stage = "tool" if "/tool-" in path else "model"
    return misfit_of(agent, PendingItem("id", path, ToolCall("1", name, "{}"), stage=stage), changed)


@pytest.mark.parametrize("agent", [DESK, DESK.layered(retry(attempts=2)), Runnable(DESK, name="desk")], ids=str)
@pytest.mark.parametrize("path", [TOP, BENEATH])
def test_arguments_are_held_to_the_tool_through_layers_and_agents(agent: Runnable, path: str) -> None:
    assert misfit(agent, path, "pay", Modify('{"to": "ada", "amount": 7}')) is None
    assert (
        misfit(agent, path, "pay", Modify('{"to": "ada", "amount": "all"}')) == "amount: expected an integer, got 'all'"
    )
    assert misfit(agent, path, "pay", Modify('{"amount": 7}')) == "to: missing (required)"


@pytest.mark.parametrize("path", ["desk/step-1/tool-1:unknown", "desk/step-1/tool-1:pay/helper/step-1/tool-1:send"])
def test_of_a_tool_that_cannot_be_seen_only_the_form_is_looked_at(path: str) -> None:
    assert misfit(DESK, path, "send", Modify('{"anything": 1}')) is None
    assert "not a plain JSON object" in str(misfit(DESK, path, "send", Modify("3")))


def test_an_agent_as_a_tool_takes_one_text() -> None:
    assert misfit(DESK, "desk/step-1/tool-1:ask", "ask", Modify('{"input": "Pay Ben"}')) is None
    assert "ask takes one text named input" in str(
        misfit(DESK, "desk/step-1/tool-1:ask", "ask", Modify('{"input": 3}'))
    )


def test_of_a_question_to_a_model_the_whole_request_is_given() -> None:
    request = encode(ModelRequest(Transcript.of(user("hello")))).decode()
    assert misfit(DESK, "desk/step-1/model", "scripted", Modify(request)) is None
    assert "that is not a request to scripted" in str(
        misfit(DESK, "desk/step-1/model", "scripted", Modify('{"messages": 3}'))
    )
