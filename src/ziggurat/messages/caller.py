"""Caller: the agent that makes a call, as middleware sees it: its name, its own middleware, its answers."""

from collections.abc import Sequence
from typing import Any, Protocol, cast

from msgspec import UNSET, Struct

from ziggurat.core.context import METER, Key
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelResponse


class ParsedAnswer(Struct, frozen=True, eq=False):
    """An answer that fits its type; the value may be None."""

    value: Any
    accepted: Any = UNSET
    """The JSON from which it was made, if it is no text."""


class Caller(Protocol):
    @property
    def agent(self) -> str: ...

    @property
    def own(self) -> Sequence[Middleware]:
        """The middleware that was given to this agent itself, not to one above it."""
        ...

    @property
    def outer(self) -> "Caller | None": ...

    def answer_in(self, response: ModelResponse) -> ParsedAnswer | None:
        """Return the final answer in a reply, parsed; None if there is none, or it does not fit the agent's output."""
        ...


CALLER: Key[Caller] = cast("Key[Caller]", METER)
"""The agent that makes the call, in the scope of its calls."""


def answer_in_text(response: ModelResponse) -> ParsedAnswer | None:
    """Return the text of a reply as the final answer; None if it calls tools, or is not complete."""
    ended = not response.tool_calls and response.finish not in ("malformed", "paused")
    return ParsedAnswer(response.text) if ended else None
