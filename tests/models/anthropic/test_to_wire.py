"""Requests of the Messages API: everything except the messages."""

from typing import Any

import pytest

from tests.models.anthropic.support import DIALECT, body_of
from ziggurat import ConfigurationError, ModelSettings, user
from ziggurat.messages import OutputSchema, ToolSpec
from ziggurat.models.anthropic import CACHE

HELLO = user("Hello")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = ToolSpec("weather", "Tells the weather.", SCHEMA)
OLD, BUDGET, EFFORT, NEWEST = "claude-3-5-haiku-latest", "claude-sonnet-4-5", "claude-opus-4-6", "claude-opus-4-7"


def sent(
    model: str = BUDGET, *, tools: tuple[ToolSpec, ...] = (), output: OutputSchema | None = None, **settings: Any
) -> Any:
    return body_of(HELLO, model=model, tools=tools, output=output, settings=ModelSettings(**settings))


def test_a_question_plain_or_streamed() -> None:
    assert sent() == {
        "model": BUDGET,
        "max_tokens": 16000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }
    assert body_of(HELLO, stream=True)["stream"] is True


@pytest.mark.parametrize(
    ("model", "longest"),
    [("claude-3-haiku-20240307", 4096), (OLD, 8192), (EFFORT, 16000), ("qwen3:8b", DIALECT.max_tokens)],
)
def test_the_longest_reply(model: str, longest: int) -> None:
    assert sent(model)["max_tokens"] == longest
    assert sent(model, max_tokens=7)["max_tokens"] == 7


def test_tools() -> None:
    assert sent(tools=(TOOL, ToolSpec("now")))["tools"] == [
        {"name": "weather", "description": "Tells the weather.", "input_schema": SCHEMA},
        {"name": "now", "input_schema": {"type": "object", "properties": {}}},
    ]
    assert "tool_choice" not in sent(tools=(TOOL,))


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        ("auto", None, {"type": "auto"}),
        ("required", None, {"type": "any"}),
        ("none", None, {"type": "none"}),
        ("none", False, {"type": "none"}),
        ("weather", None, {"type": "tool", "name": "weather"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("weather", True, {"type": "tool", "name": "weather", "disable_parallel_tool_use": False}),
    ],
)
def test_choice(choice: str | None, parallel: bool | None, expected: dict[str, Any]) -> None:
    assert sent(tools=(TOOL,), tool_choice=choice, parallel_tools=parallel)["tool_choice"] == expected
    assert "tool_choice" not in sent(tool_choice=choice, parallel_tools=parallel)


def test_settings() -> None:
    body = sent("claude-sonnet-4-0", temperature=1.5, top_p=0.5, stop=("END",), seed=7)
    assert (body["temperature"], body["top_p"], body["stop_sequences"]) == (1.0, 0.5, ["END"])
    assert "seed" not in body
    assert "top_p" not in sent(BUDGET, temperature=0.0, top_p=0.5)
    assert sent(BUDGET, top_p=0.5)["top_p"] == 0.5
    assert not {"temperature", "top_p"} & set(sent(NEWEST, temperature=0.0, top_p=0.5))


@pytest.mark.parametrize(("wanted", "budget"), [("minimal", 1024), ("low", 2048), ("medium", 8192), ("high", 16000)])
def test_thinking_by_budget(wanted: str, budget: int) -> None:
    body = sent(reasoning=wanted, temperature=0.0, top_p=0.5)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": budget}
    assert body["max_tokens"] == 16000 + budget
    assert not {"temperature", "top_p", "output_config"} & set(body)


def test_thinking_by_effort_budget_or_none() -> None:
    assert sent(reasoning="high", max_tokens=4000)["thinking"]["budget_tokens"] == 3000
    assert "thinking" not in sent(reasoning="high", max_tokens=1000)
    body = sent(EFFORT, reasoning="minimal", top_p=0.97)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert (body["output_config"], body["max_tokens"], body["top_p"]) == ({"effort": "low"}, 32000, 0.97)
    assert sent(reasoning="none")["thinking"] == {"type": "disabled"}
    assert "thinking" not in sent(OLD, reasoning="none")
    assert "thinking" not in sent(OLD, reasoning="high")
    assert "thinking" not in sent(reasoning="high", tools=(TOOL,), tool_choice="required")


def test_output_by_the_model_itself() -> None:
    body = sent(EFFORT, output=OutputSchema("Place", SCHEMA), reasoning="low", tools=(TOOL,))
    schema = {**SCHEMA, "additionalProperties": False}
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": schema}, "effort": "low"}
    assert len(body["tools"]) == 1
    assert "tool_choice" not in body


def test_output_by_a_tool() -> None:
    body = sent(OLD, output=OutputSchema("Place", SCHEMA))
    assert body["tools"][0]["name"] == "final_answer"
    assert body["tools"][0]["input_schema"] == SCHEMA
    assert body["tool_choice"] == {"type": "tool", "name": "final_answer"}
    beside = sent(OLD, output=OutputSchema("Place", SCHEMA), tools=(TOOL,), parallel_tools=False)
    assert beside["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    named = sent(OLD, output=OutputSchema("Place", SCHEMA), tools=(TOOL,), tool_choice="weather")
    assert named["tool_choice"] == {"type": "tool", "name": "weather"}
    body = sent(output=OutputSchema("Map", {"type": "object", "additionalProperties": {"type": "integer"}}))
    assert "output_config" not in body
    assert body["tools"][0]["name"] == "final_answer"


def test_the_prompt_cache() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    settings = ModelSettings(extra={CACHE: "1h"})
    body = body_of(HELLO, instructions="Be brief.", tools=(TOOL,), settings=settings)
    assert body["cache_control"] == mark
    assert body["system"] == [{"type": "text", "text": "Be brief.", "cache_control": mark}]
    assert "cache_control" not in body["tools"][0]
    assert CACHE not in body
    alone = body_of(HELLO, tools=(TOOL,), settings=ModelSettings(extra={CACHE: True}))
    assert alone["tools"][0]["cache_control"] == alone["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in sent(extra={CACHE: False})


def test_a_wrong_cache_setting() -> None:
    with pytest.raises(ConfigurationError, match="prompt_cache"):
        sent(extra={CACHE: "2h"})


def test_extra_has_the_last_word() -> None:
    body = sent(
        EFFORT,
        reasoning="low",
        tools=(TOOL,),
        extra={
            "service_tier": "standard_only",
            "metadata": {"user_id": "u"},
            "max_tokens": 5,
            "output_config": {"effort": "max"},
            "tools": [{"type": "web_search_20250305", "name": "web_search"}],
        },
    )
    assert (body["service_tier"], body["metadata"], body["max_tokens"]) == ("standard_only", {"user_id": "u"}, 5)
    assert body["output_config"] == {"effort": "max"}
    assert [tool["name"] for tool in body["tools"]] == ["weather", "web_search"]
