"""The abilities of models, by name."""

import pytest

from ziggurat.models.anthropic import Abilities, abilities


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-instant-1.2", Abilities(4096)),
        ("claude-2.1", Abilities(4096)),
        ("claude-3-opus-20240229", Abilities(4096)),
        ("claude-3-5-sonnet-20241022", Abilities(8192)),
        ("claude-3-7-sonnet-latest", Abilities(64000, "budget")),
        ("claude-sonnet-4-20250514", Abilities(64000, "budget")),
        ("claude-opus-4-1-20250805", Abilities(32000, "budget", False, "one")),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Abilities(64000, "budget", True, "one")),
        ("claude-haiku-4-5@20251001", Abilities(64000, "budget", True, "one")),
        ("anthropic/claude-sonnet-4.6", Abilities(64000, "effort", True, "one")),
        ("claude-opus-4-6", Abilities(128000, "effort", True, "one")),
        ("claude-opus-4-7", Abilities(128000, "effort", True, "none")),
        ("claude-opus-4-8", Abilities(128000, "effort", True, "none", True)),
        ("claude-opus-5", Abilities(128000, "effort", True, "none", True)),
        ("claude-mythos-preview", Abilities(64000, "effort", True, "none", True)),
        ("gpt-oss:20b", Abilities(None, "budget")),
    ],
)
def test_abilities(model: str, expected: Abilities) -> None:
    assert abilities(model) == expected
