"""ForkEffects: decide what happens to tool calls with side effects in a forked run."""

__all__ = ["FORK_EFFECTS", "Effects", "ForkEffects"]

from collections.abc import Mapping
from typing import Literal

from ziggurat.core.errors import ToolError
from ziggurat.core.scope import Key
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall, ToolResult

Effects = Literal["refuse", "recorded", "live"]
"""Refuse the calls, return the original run's results and refuse all others, or make the calls."""


class ForkEffects:
    """Stops calls with side effects; calls of tools with ``effect="none"`` are made.

    Args:
        recorded: The fingerprint and result of each call of the original run, by path; None to refuse all.
    """

    def __init__(self, recorded: Mapping[str, tuple[str, ToolResult]] | None = None) -> None:
        self._at = recorded
        self._like: dict[str, ToolResult] = {}
        for fingerprint, result in (recorded or {}).values():
            self._like.setdefault(fingerprint, result)

    def instead(self, spec: ToolSpec, call: ToolCall, path: str) -> ToolResult | None:
        """Return the recorded result to use for a call, None if the call is to be made.

        Of recorded calls with the same arguments, the one at the same path is used, otherwise the first.

        Raises:
            ToolError: the call is refused.
        """
        if spec.effect == "none":
            return None
        fingerprint = call.fingerprint()
        if self._at is not None:
            at = self._at.get(path)
            recorded = at[1] if at is not None and at[0] == fingerprint else self._like.get(fingerprint)
            if recorded is not None:
                return recorded
        why = "effects are refused in it" if self._at is None else "the run before made no such call"
        raise ToolError(f"{spec.name} was not run: this run is a fork, and {why}", kind="denied")


FORK_EFFECTS = Key[ForkEffects]("fork effects")
