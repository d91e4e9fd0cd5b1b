"""The differences between Anthropic's models, by their names."""

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

_NAME = re.compile(r"claude-(?:([a-z]+)-)?(\d+)(?:[-.](\d{1,2})(?!\d))?(?:-([a-z]+))?")
_NEWEST = (99, 0)  # a name without a version counts as a new model


class ModelCapabilities(Struct, frozen=True, gc=False):
    longest: int | None
    thinking: Literal["", "budget", "effort"] = ""
    native_output: bool = False
    sampling: Literal["both", "one", "none"] = "both"
    inline_system: bool = False


@lru_cache(maxsize=256)
def capabilities(model: str) -> ModelCapabilities:
    """Return the capabilities of a model.

    >>> capabilities("claude-sonnet-4-5-20250929").longest
    64000
    """
    if "claude" not in model:
        return ModelCapabilities(None, "budget")
    family, version = _read(model)
    if version < (3, 7):
        return ModelCapabilities(8192 if version == (3, 5) else 4096)
    sampling: Literal["both", "one", "none"] = "both" if version < (4, 1) else "one" if version < (4, 7) else "none"
    return ModelCapabilities(
        _longest(family, version),
        "budget" if version < (4, 6) else "effort",
        version >= (4, 5),
        sampling,
        version >= (4, 8),
    )


def _longest(family: str, version: tuple[int, int]) -> int:
    if family == "opus":
        return 32000 if version < (4, 5) else 64000 if version < (4, 6) else 128000
    return 64000


def _read(model: str) -> tuple[str, tuple[int, int]]:
    match = _NAME.search(model)
    if match is None:
        old = model.startswith("claude-instant")
        return "", (1, 0) if old else _NEWEST
    before, major, minor, after = match.groups()
    return before or after or "", (int(major), int(minor or 0))
