"""A listener made of a few plain functions."""

__all__ = ["Callbacks"]

from collections.abc import Awaitable, Callable

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.messages.delta import TextDelta, ThinkingDelta
from ziggurat.messages.events import Delta, ToolStarted
from ziggurat.messages.parts import ToolCall

Answer = Awaitable[None] | None


class Callbacks:
    """Calls what you give it: ``agent.run(..., listeners=[Callbacks(on_token=print)])``.

    Args:
        on_token: Called with each piece of text.
        on_thought: Called with each piece of thinking.
        on_action: Called with each tool call as it begins.
        on_event: Called with every event.

    Raises:
        ConfigurationError: one is no function.
    """

    def __init__(
        self,
        *,
        on_token: Callable[[str], Answer] | None = None,
        on_thought: Callable[[str], Answer] | None = None,
        on_action: Callable[[ToolCall], Answer] | None = None,
        on_event: Callable[[Event], Answer] | None = None,
    ) -> None:
        given = {"on_token": on_token, "on_thought": on_thought, "on_action": on_action, "on_event": on_event}
        for name, function in given.items():
            if function is not None and not callable(function):
                raise ConfigurationError(f"Callbacks({name}=...) takes a function, such as print; got {function!r}")
        self.on_token = on_token
        self.on_thought = on_thought
        self.on_action = on_action
        self.on_event = on_event

    async def __call__(self, event: Event) -> None:
        """Pass an event to the functions it concerns."""
        waiting: list[Answer] = []
        if isinstance(event, Delta):
            if self.on_token is not None and isinstance(event.delta, TextDelta):
                waiting.append(self.on_token(event.delta.text))
            if self.on_thought is not None and isinstance(event.delta, ThinkingDelta):
                waiting.append(self.on_thought(event.delta.text))
        if self.on_action is not None and isinstance(event, ToolStarted):
            waiting.append(self.on_action(event.call))
        if self.on_event is not None:
            waiting.append(self.on_event(event))
        for answer in waiting:
            if answer is not None:
                await answer
