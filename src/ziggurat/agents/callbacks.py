"""Callbacks: a listener built from plain functions."""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from copy import copy
from itertools import chain
from typing import Any

from ziggurat.core.event import Dropped, Event, PerRun
from ziggurat.core.path import is_beneath
from ziggurat.core.settings import checked
from ziggurat.messages.events import Delta, ModelEnded, ToolStarted
from ziggurat.messages.message import TextDelta, ThinkingDelta, ToolCall

_NOTHING = TextDelta("")


class Callbacks(PerRun):
    """A listener that calls your functions: ``agent.run(..., listeners=[Callbacks(on_token=print)])``.

    The results of plain functions are ignored; coroutine functions are awaited. A function with a second parameter that
    has no default gets the path of the call, too, which names the agent, as in ``lead/step-2/model``::

        texts: dict[str, str] = {}

        def keep(token: str, path: str) -> None:
            texts[path] = texts.get(path, "") + token

        def discard(path: str) -> None:
            for each in [each for each in texts if f"{each}/".startswith(f"{path}/")]:
                del texts[each]

        run = await agent.run("...", listeners=[Callbacks(on_token=keep, on_dropped=discard)])

    Args:
        on_token: Called with each piece of text.
        on_thought: Called with each thought when it is complete; its pieces are `Delta` events.
        on_action: Called with each tool call when it starts.
        on_dropped: Called with a path: the pieces of text received at that path and below it are void, because the call
            is tried again or was abandoned.
        on_event: Called with every event.
    """

    @checked
    def __init__(
        self,
        *,
        on_token: Callable[[str], object] | Callable[[str, str], object] | None = None,
        on_thought: Callable[[str], object] | Callable[[str, str], object] | None = None,
        on_action: Callable[[ToolCall], object] | Callable[[ToolCall, str], object] | None = None,
        on_dropped: Callable[[str], object] | None = None,
        on_event: Callable[[Event], object] | None = None,
    ) -> None:
        self._on_token = _with_path(on_token)
        self._on_thought = _with_path(on_thought)
        self._on_action = _with_path(on_action)
        self._on_dropped = on_dropped
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
                yield self._on_thought(thought, event.path)
        if self._on_token is not None and isinstance(event, Delta) and isinstance(event.delta, TextDelta):
            yield self._on_token(event.delta.text, event.path)
        if self._on_action is not None and isinstance(event, ToolStarted):
            yield self._on_action(event.call, event.path)
        if self._on_dropped is not None and isinstance(event, Dropped):
            yield self._on_dropped(event.path)
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


def _with_path(function: Callable[..., Any] | None) -> Callable[[Any, str], object] | None:
    """Return a function that passes the path on only if `function` has a parameter for it."""
    if function is None:
        return None
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some functions in C have no signature
        parameters = []
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if sum(each.default is each.empty for each in positional) > 1:
        return function
    return lambda value, path: function(value)
