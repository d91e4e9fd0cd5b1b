"""Callbacks: a listener built from plain functions."""

__all__ = ["Callbacks"]

from collections.abc import Awaitable, Callable
from itertools import chain

from ziggurat.core.event import Dropped, Event, PerRun
from ziggurat.core.path import is_beneath
from ziggurat.core.settings import checked
from ziggurat.messages.delta import TextDelta, ThinkingDelta
from ziggurat.messages.events import Delta, ModelEnded, ToolStarted
from ziggurat.messages.parts import ToolCall

_NOTHING = TextDelta("")


class Callbacks(PerRun):
    """A listener that calls your functions: ``agent.run(..., listeners=[Callbacks(on_token=print)])``.

    The results of plain functions are ignored; coroutine functions are awaited.

    Args:
        on_token: Called with each piece of text.
        on_thought: Called with each thought when it is complete; its pieces are `Delta` events.
        on_action: Called with each tool call when it starts.
        on_event: Called with every event.

    Raises:
        ConfigurationError: one of them is not a function.
    """

    @checked
    def __init__(
        self,
        *,
        on_token: Callable[[str], object] | None = None,
        on_thought: Callable[[str], object] | None = None,
        on_action: Callable[[ToolCall], object] | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        self.on_token = on_token
        self.on_thought = on_thought
        self.on_action = on_action
        self.on_event = on_event
        self._thoughts: dict[str, list[str]] = {}  # pieces of unfinished thoughts, by the path of the reply

    def for_run(self) -> "Callbacks":
        """Return a new listener for one run, with the same functions."""
        return Callbacks(
            on_token=self.on_token, on_thought=self.on_thought, on_action=self.on_action, on_event=self.on_event
        )

    async def __call__(self, event: Event) -> None:
        """Call the functions that an event concerns."""
        waiting: list[object] = []
        if self.on_thought is not None:
            thought = self._completed_thought(event)
            if thought:
                waiting.append(self.on_thought(thought))
        if self.on_token is not None and isinstance(event, Delta) and isinstance(event.delta, TextDelta):
            waiting.append(self.on_token(event.delta.text))
        if self.on_action is not None and isinstance(event, ToolStarted):
            waiting.append(self.on_action(event.call))
        if self.on_event is not None:
            waiting.append(self.on_event(event))
        for answer in waiting:
            if answer is not None and isinstance(answer, Awaitable):
                await answer

    def _completed_thought(self, event: Event) -> str:
        """Return the thought that this event completes, empty if none."""
        thoughts = self._thoughts
        if isinstance(event, Delta):
            if isinstance(event.delta, ThinkingDelta):
                thoughts.setdefault(event.path, []).append(event.delta.text)
            elif event.delta != _NOTHING:
                return "".join(thoughts.pop(event.path, ()))
        elif isinstance(event, (ModelEnded, Dropped)):
            over = [thoughts.pop(path) for path in list(thoughts) if is_beneath(path, event.path)]
            return "".join(chain(*over)) if isinstance(event, ModelEnded) else ""
        return ""
