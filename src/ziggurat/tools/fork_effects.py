"""ForkEffects: decide what happens to tool calls with side effects in a forked run."""

from collections.abc import Mapping
from typing import Literal, TypeVar

from ziggurat.core.codec import as_type
from ziggurat.core.context import Key
from ziggurat.core.errors import ToolError
from ziggurat.core.service import Effect

T = TypeVar("T")

Effects = Literal["refuse", "recorded", "live"]
"""Refuse the calls, return the original run's results and refuse all others, or make the calls."""


class ForkEffects:
    """Stops calls of tools and steps with side effects; those with ``effect="none"`` are made."""

    def __init__(self, recorded: Mapping[str, tuple[str, object]] | None = None) -> None:
        self._at = recorded
        self._like: dict[str, object] = {}
        for fingerprint, value in (recorded or {}).values():
            self._like.setdefault(fingerprint, value)

    def instead(self, effect: Effect, name: str, fingerprint: str, path: str, returns: type[T]) -> tuple[T] | None:
        """Return the recorded value to use for a call, as a tuple of one; None if the call is to be made."""
        # Of recorded calls with the same arguments, the one at the same path is used, otherwise the first.
        if effect == "none":
            return None
        at = None if self._at is None else self._at.get(path)
        if at is not None and at[0] == fingerprint:
            return (as_type(at[1], returns),)
        if fingerprint in self._like:
            return (as_type(self._like[fingerprint], returns),)
        why = "effects are refused in it" if self._at is None else "the run before made no such call"
        raise ToolError(f"{name} was not run: this run is a fork, and {why}", kind="denied")


FORK_EFFECTS = Key[ForkEffects]("fork effects")
