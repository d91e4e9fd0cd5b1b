"""The context windows of hosted models, where known."""

import re

_WINDOWS = (
    (r"gpt-5(\.\d)?-chat", 128_000),
    (r"gpt-5", 400_000),
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4o|chatgpt-4o|gpt-4-turbo", 128_000),
    (r"gpt-4-32k", 32_000),
    (r"gpt-4(-\d+)?$", 8_192),
    (r"gpt-3\.5-turbo", 16_385),
    (r"o1-(mini|preview)", 128_000),
    (r"o[134](-|$)", 200_000),
    (r"claude-", 200_000),  # some accept more, none less
    (r"gemini-", 1_000_000),
    (r"deepseek-", 128_000),
)
"""Windows by the beginning of the name, the first match counts; too low is safe, too high causes errors."""


def window_of(model: str) -> int | None:
    """Return how many tokens a model can read and write in one call, by its name; None if unknown.

    >>> window_of("gpt-4o-mini")
    128000
    """
    name = model.rpartition("/")[2]
    return next((tokens for pattern, tokens in _WINDOWS if re.match(pattern, name)), None)
