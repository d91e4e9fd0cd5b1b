"""An agent that says, does and fails with texts that would control a terminal."""

from ziggurat import Agent, Approvals, tool
from ziggurat.errors import ModelError
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.testing import ScriptedModel

HOSTILE = "\x1b[2J\x1b]0;t\x07\x9b1m\u202edrawkcab\u2066\u200b\u2028\r\x7f\u2800\u3164\u0301\u00ad\ufeff\U000e0041 end"


@tool(effect="none")
def look(text: str) -> str:
    """Look.

    Args:
        text: What at.
    """
    return f"seen: {text}{HOSTILE}"


@tool(effect="none")
def fail(text: str) -> str:
    """Fail.

    Args:
        text: How.
    """
    raise ValueError(f"{text}{HOSTILE}")


def script(*replies: object) -> ScriptedModel:
    return ScriptedModel(*replies, per_run=True)  # type: ignore[arg-type]


CALLS = (tool_call("look", text=HOSTILE), tool_call("fail", text=HOSTILE), tool_call(f"none{HOSTILE}", text="x"))
talks = Agent(script(*CALLS, f"said: {HOSTILE}"), tools=[look, fail], name="hostile", instructions=HOSTILE)
waits = Agent(
    FunctionModel(lambda messages: f"said: {HOSTILE}" if messages[-1].role == "tool" else CALLS[0]),
    tools=[look],
    approvals=Approvals("look"),
    name="hostile",
)
broken = Agent(script(ModelError(f"down: {HOSTILE}")), name="hostile")
