"""Callbacks: a listener built from plain functions."""

from collections.abc import Awaitable, Callable, Iterator
from copy import copy
from itertools import chain

from ziggurat.core.event import Dropped, Event, PerRun
from ziggurat.core.path import is_beneath
from ziggurat.core.settings import checked
from ziggurat.messages.events import Delta, ModelEnded, ToolStarted
from ziggurat.messages.message import TextDelta, ThinkingDelta, ToolCall

_NOTHING = TextDelta("")


class Callbacks(PerRun):
    """A listener that calls your functions: ``agent.run(..., listeners=[Callbacks(on_token=print)])``.

    The results of plain functions are ignored; coroutine functions are awaited. A listener of your own gets all
    events, each with its path, which tells agents and replies apart; see also `Dropped`.

    Args:
        on_token: Called with each piece of text.
        on_thought: Called with each thought when it is complete; its pieces are `Delta` events.
        on_action: Called with each tool call when it starts.
        on_event: Called with every event.
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
        self._on_token = on_token
        self._on_thought = on_thought
        self._on_action = on_action
        self._on_event = on_event
        self._thoughts: dict[str, list[str]] = {}  # pieces of unfinished thoughts, by the path of the reply

    def for_run(self) -> "Callbacks":
        """Return a new listener for one run, with the same functions."""
        new = copy(self)
        new._thoughts = {}
        return new

    async def __call__(self, event: Event) -> None:
        for answer in self._answers(event):
            if answer is not None and isinstance(answer, Awaitable):
                await answer

    def _answers(self, event: Event) -> Iterator[object]:
        if self._on_thought is not None:
            thought = self._completed_thought(event)
            if thought:
                yield self._on_thought(thought)
        if self._on_token is not None and isinstance(event, Delta) and isinstance(event.delta, TextDelta):
            yield self._on_token(event.delta.text)
        if self._on_action is not None and isinstance(event, ToolStarted):
            yield self._on_action(event.call)
        if self._on_event is not None:
            yield self._on_event(event)

    def _completed_thought(self, event: Event) -> str:
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
