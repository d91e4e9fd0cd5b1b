"""Triggers: conditions under which a conversation is compacted before a model call."""

from collections.abc import Callable

from ziggurat.core.settings import CheckedStruct, PositiveInt, Share, checked
from ziggurat.messages.rewriting import RewriteRequest


class Trigger(CheckedStruct, frozen=True):
    """A condition on the next model request; ``one | other`` holds if either does, ``&`` if both do.

    Attributes:
        due: Returns whether to compact.
        limit: Returns the most tokens the request may have without compaction, None if the condition does not depend on
            tokens.
        description: The text of its repr.
    """

    due: Callable[[RewriteRequest], bool]
    limit: Callable[[RewriteRequest], int | None] = lambda request: None
    description: str = "Trigger()"

    def __or__(self, other: "Trigger") -> "Trigger":
        return Trigger(
            lambda request: self.due(request) or other.due(request),
            lambda request: min(self._limits(other, request), default=None),
            f"{self} | {other}",
        )

    def __and__(self, other: "Trigger") -> "Trigger":
        return Trigger(
            lambda request: self.due(request) and other.due(request),
            lambda request: max(self._limits(other, request), default=None),
            f"({self} & {other})",
        )

    def _limits(self, other: "Trigger", request: RewriteRequest) -> list[int]:
        return [limit for each in (self, other) if (limit := each.limit(request)) is not None]

    def __repr__(self) -> str:
        return self.description


@checked
def at_fraction(fraction: Share) -> Trigger:
    """Compact at this fraction of the model's window or more; never if the window is unknown."""

    def due(request: RewriteRequest) -> bool:
        return request.window is not None and request.tokens >= fraction * request.window

    return Trigger(
        due,
        lambda request: None if request.window is None else int(fraction * request.window),
        f"at_fraction({fraction:g})",
    )


@checked
def over_tokens(tokens: PositiveInt) -> Trigger:
    """Compact above this many tokens, instructions and tools included."""
    return Trigger(lambda request: request.tokens > tokens, lambda request: tokens, f"over_tokens({tokens})")


@checked
def over_turns(turns: PositiveInt) -> Trigger:
    """Compact above this many user messages."""
    return Trigger(lambda request: request.turns > turns, description=f"over_turns({turns})")


@checked
def over_messages(messages: PositiveInt) -> Trigger:
    """Compact above this many messages of any kind."""
    return Trigger(lambda request: len(request.messages) > messages, description=f"over_messages({messages})")
