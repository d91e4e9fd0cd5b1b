import logging
from collections.abc import AsyncIterator

import pytest

from ziggurat import Agent, Usage
from ziggurat.errors import ModelError
from ziggurat.messages import tool_call
from ziggurat.middleware import Logging
from ziggurat.testing import ScriptedModel


async def count() -> AsyncIterator[str]:
    """Count."""
    yield "hidden one"
    yield "hidden two"


async def test_each_call_has_a_line_and_none_says_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ziggurat.calls")
    model = ScriptedModel(tool_call("count"), "hidden answer", usage=Usage(4, 2, requests=1))
    watching = Logging()
    counts = watching.counts
    agent = Agent(model, tools=[count], middleware=[watching])
    await agent.run("hidden question")
    lines = [record.getMessage() for record in caplog.records if record.name == "ziggurat.calls"]
    assert lines == [
        "agent begins: 1 messages",
        "agent/step-1/model asks: 1 messages, 1 tools",
        "agent/step-1/model answered: tool_calls, 4 in, 2 out, 1 tool calls",
        "agent/step-1/tool-1:count calls: 2 characters",
        "agent/step-1/tool-1:count gave: ok, 20 characters",
        "agent/step-2/model asks: 3 messages, 1 tools",
        "agent/step-2/model answered: stop, 4 in, 2 out, 0 tool calls",
        "agent ended: Completed, 2 steps, 12 tokens",
    ]
    assert "hidden" not in caplog.text
    assert (counts.before_agent, counts.after_agent, counts.before_model, counts.after_model) == (1, 1, 2, 2)
    assert (counts.before_tool, counts.on_tool_delta, counts.after_tool, counts.on_error) == (1, 2, 1, 0)
    assert counts.on_model_delta >= 2


async def test_an_error_is_a_warning_with_its_kind(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(ScriptedModel(ModelError("hidden", kind="invalid_request")), middleware=[Logging()])
    await agent.run("go")
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warned == ["agent/step-1/model failed: ModelError"]


async def test_lines_go_where_they_are_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    agent = Agent(ScriptedModel("x"), middleware=[Logging(logger=logging.getLogger("mine"), level=logging.DEBUG)])
    await agent.run("go")
    assert {record.name for record in caplog.records if "asks" in record.getMessage()} == {"mine"}
