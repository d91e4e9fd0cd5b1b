"""A run in the background, and the hand upon it."""

__all__ = ["RunHandle"]

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from msgspec.structs import replace

from ziggurat.agents.drive import Prompt, partial_of, request_of
from ziggurat.agents.steering import Mailbox, Verb
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.event import Listener
from ziggurat.core.stream import EventStream
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.message import Message

T = TypeVar("T")

_PATIENCE = 1.0
"""Seconds after which another thread looks whether the event loop is still there."""

Begin = Callable[[Mailbox, Sequence[Listener]], Coroutine[Any, Any, AgentRun]]


class RunHandle:
    """Made by ``agent.start(...)``: steer the run while it goes on, await its `result`::

        handle = agent.start("Write a report")
        handle.inject("Mention the weather.")
        run = await handle.result()

    It may be steered from any thread; in another than that of its event loop, which must not wait for that one
    meanwhile, steering waits until it is done there. Its result and events are for that event loop.

    Args:
        begin: Makes the run, given where it is steered from and who listens.
        unbegun: Its result if it is cancelled before it has begun.
        permitted: How it may be steered; None for what has no loop of its own.
        depth: How many agents stand around it.
    """

    def __init__(self, begin: Begin, unbegun: AgentRun, permitted: frozenset[str] | None, depth: int = 0) -> None:
        self._begun = self._cancelled = self._at_once = False
        self._unbegun = unbegun
        self._permitted = permitted
        self._mailbox = Mailbox(depth)
        self._events: EventStream[AgentRun] | None = None
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise ConfigurationError("start() needs a running event loop; from other code use run_sync()") from None
        self._loop, self._thread = loop, threading.get_ident()
        self._task = loop.create_task(self._run(begin))

    async def _run(self, begin: Begin) -> AgentRun:
        if self._at_once:
            return self._unbegun
        self._begun = True
        try:
            return await begin(self._mailbox, () if self._events is None else (self._events,))
        except asyncio.CancelledError as error:
            if not self._cancelled:
                raise
            partial = partial_of(error)  # none while its record was being opened
            return self._unbegun if partial is None else replace(partial, stop=stops.Cancelled())

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._task.done()

    async def result(self) -> AgentRun:
        """Wait for the run to end and return it."""
        return await asyncio.shield(self._task)

    if not TYPE_CHECKING:  # a type checker refuses to await it without being told

        def __await__(self) -> NoReturn:
            """Refuse to be awaited: whoever holds it may want to steer first, and asks for the result by name."""
            raise ConfigurationError(
                "start() returns at once, with a handle upon the run: handle = agent.start(...), and where you need "
                "the run, run = await handle.result(); without steering, run = await agent.run(...)"
            )

    def events(self) -> EventStream[AgentRun]:
        """Return what happens in the run, to be read with ``async for`` by one reader.

        What is not read yet waits in memory, so a slow reader does not slow the run. Nothing comes any more once
        the run is cancelled.

        Raises:
            ConfigurationError: the run has begun, and what happened then was told to nobody.
        """
        if self._events is None:
            if self._begun or self.done:
                raise ConfigurationError("ask for events() right after start(), before anything is awaited")
            self._events = EventStream(sys.maxsize)
            self._events.follow(self._task)
        return self._events

    def cancel(self, *, after_step: bool = False) -> None:
        """Stop the run; its result says `Cancelled`, and it can be resumed. Harmless when it has ended.

        Args:
            after_step: Let the step that goes on be completed, its tools included, and begin no other. What it has
                cost and said is in the result. A run that is complete with that step is `Completed`.

        Raises:
            Denied: the agent may not be cancelled.
            ConfigurationError: there are no steps to wait for.
        """
        self._permit("cancel", loop=after_step)
        self._there(lambda: self._cancel(after_step), None)

    def _cancel(self, after_step: bool) -> None:
        if self._task.done():
            return
        if not after_step and self._events is not None:
            self._events.close()
        first, self._cancelled = not self._cancelled, True
        if after_step:
            if first:
                self._mailbox.put("cancel")
            return
        self._at_once = True
        if self._begun:
            self._task.cancel()

    def inject(self, prompt: Prompt) -> bool:
        """Tell the model something with its next question, never between a tool call and its result.

        A run that would have ended goes on to answer it, unless its steps are used up.

        Returns:
            Whether the run still went on; if not, nothing was done.

        Raises:
            Denied: nobody may tell the agent anything while it runs.
            ConfigurationError: there is nothing in it, or it is not a user's.
        """
        return self._tell("inject", prompt)

    def redirect(self, prompt: Prompt) -> bool:
        """Have the model drop what it is about, and tell it something else.

        Tool calls that run are cancelled, those that have not begun are not made, and both are answered as such. A
        reply that is on its way is waited for, but none of its calls is made. What was done before stays.

        Returns:
            Whether the run still went on; if not, nothing was done.

        Raises:
            Denied: the agent may not be redirected.
            ConfigurationError: there is nothing in it, or it is not a user's.
        """
        return self._tell("redirect", prompt)

    def _tell(self, verb: Verb, prompt: Prompt) -> bool:
        self._permit(verb, loop=True)
        messages: tuple[Message, ...] = request_of(prompt).messages
        if any(message.role != "user" for message in messages):
            raise ConfigurationError(f"{verb}() takes what a user says: text, parts, or messages made with user(...)")

        def put() -> bool:
            if self._task.done() or not self._mailbox.open:
                return False
            self._mailbox.put(verb, messages)
            return True

        return self._there(put, False)

    def _there(self, steer: Callable[[], T], over: T) -> T:
        """Do something in the thread of the run's event loop; answer `over` where that has ended, and the run too."""
        if threading.get_ident() == self._thread:
            return steer()
        outcome: Future[T] = Future()
        try:
            self._loop.call_soon_threadsafe(lambda: outcome.set_result(steer()))
        except RuntimeError:
            return over
        while True:
            try:
                return outcome.result(_PATIENCE)
            except TimeoutError:
                if self._loop.is_closed():
                    return over

    def _permit(self, verb: Verb, *, loop: bool) -> None:
        if self._permitted is None:
            if loop:
                raise ConfigurationError(
                    f"{self._unbegun.agent} has no loop of its own to be steered in; cancel() stops it at once"
                )
        elif verb not in self._permitted:
            allowed = ", ".join(sorted(self._permitted)) or "nothing"
            raise Denied(f"{self._unbegun.agent} may not be steered by {verb} (allowed: {allowed})")
