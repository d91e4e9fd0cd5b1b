"""The capabilities of models, by name."""

import pytest

from ziggurat.models.anthropic import ModelCapabilities, capabilities


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-instant-1.2", ModelCapabilities(4096)),
        ("claude-2.1", ModelCapabilities(4096)),
        ("claude-3-opus-20240229", ModelCapabilities(4096)),
        ("claude-3-5-sonnet-20241022", ModelCapabilities(8192)),
        ("claude-3-7-sonnet-latest", ModelCapabilities(64000, "budget")),
        ("claude-sonnet-4-20250514", ModelCapabilities(64000, "budget")),
        ("claude-opus-4-1-20250805", ModelCapabilities(32000, "budget", False, "one")),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", ModelCapabilities(64000, "budget", True, "one")),
        ("claude-haiku-4-5@20251001", ModelCapabilities(64000, "budget", True, "one")),
        ("anthropic/claude-sonnet-4.6", ModelCapabilities(64000, "effort", True, "one")),
        ("claude-opus-4-6", ModelCapabilities(128000, "effort", True, "one")),
        ("claude-opus-4-7", ModelCapabilities(128000, "effort", True, "none")),
        ("claude-opus-4-8", ModelCapabilities(128000, "effort", True, "none", True)),
        ("claude-opus-5", ModelCapabilities(128000, "effort", True, "none", True)),
        ("claude-mythos-preview", ModelCapabilities(64000, "effort", True, "none", True)),
        ("gpt-oss:20b", ModelCapabilities(None, "budget")),
    ],
)
def test_abilities(model: str, expected: ModelCapabilities) -> None:
    assert capabilities(model) == expected
