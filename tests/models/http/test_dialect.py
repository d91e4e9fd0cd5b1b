"""The known context windows of models, and which schemas are strict as they are."""

from typing import Any

import pytest

from ziggurat import stack
from ziggurat.core.service import fact
from ziggurat.layers.retry import retry
from ziggurat.messages.model import WINDOW
from ziggurat.models.http.dialect import DIALECTS, window_of
from ziggurat.models.http.fitting import offered
from ziggurat.providers import resolve


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-5-mini", 400_000), ("gpt-4o-mini", 128_000), ("gpt-4", 8_192), ("gpt-4-0613", 8_192),
        ("gpt-4-turbo-2024-04-09", 128_000), ("o3", 200_000), ("o4-mini", 200_000), ("claude-sonnet-4-5", 200_000),
        ("google/gemini-2.5-pro", 1_000_000), ("some-model-of-ours", None), ("omega", None),
    ],
)  # fmt: skip
def test_a_window_is_known_by_the_name(model: str, tokens: int | None) -> None:
    assert window_of(model) == tokens


def test_the_fact_is_reachable_through_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    assert fact(stack(resolve("openai:gpt-4o"), retry(attempts=2)), WINDOW) == 128_000


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    "schema",
    [
        closed(),
        closed(a=TEXT, b={"type": ["integer", "null"]}),
        closed(a={"type": "array", "items": closed(b={"type": "integer", "enum": [1, 2]})}),
        closed(a={"anyOf": [TEXT, {"type": "null"}]}),
        {**closed(a={"$ref": "#/$defs/B"}), "$defs": {"B": closed()}},
    ],
)
def test_strict(schema: dict[str, Any]) -> None:
    assert offered(schema, DIALECTS["groq"]) == (schema, True)


@pytest.mark.parametrize(
    "schema",
    [
        {}, TEXT, {"type": "object"}, {"properties": {"a": TEXT}, "additionalProperties": False, "required": ["a"]},
        {**closed(a=TEXT), "required": []}, {**closed(a=TEXT), "additionalProperties": True}, closed(a={}),
        closed(a={"type": "object", "additionalProperties": TEXT}), closed(a={**TEXT, "default": "x"}),
        closed(a={"oneOf": [TEXT]}), closed(a={"type": "array", "items": {"type": "object"}}),
        {**closed(a={"$ref": "#/$defs/B"}), "$defs": {"B": {"type": "object"}}},
    ],
)  # fmt: skip
def test_not_strict(schema: dict[str, Any]) -> None:
    assert offered(schema, DIALECTS["groq"]) == (schema, False)
