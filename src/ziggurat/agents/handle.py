"""The handle of a run in the background: its result, its events, and ways to steer it."""

import asyncio
import sys
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Listener
from ziggurat.core.stream import EventStream
from ziggurat.messages.agent import AgentRun, Out
from ziggurat.messages.steer import Verb
from ziggurat.runs.control import RunControl, SteeringAct, check_steerable
from ziggurat.runs.drive import partial_of
from ziggurat.runs.options import Prompt, user_messages

T = TypeVar("T")

_PATIENCE = 1.0
"""Seconds between another thread's checks that the event loop still exists."""

Begin = Callable[[Sequence[Listener]], Coroutine[Any, Any, AgentRun]]


class RunHandle(Generic[Out]):
    """The handle of a run in the background, returned by ``agent.start(...)``::

        handle = agent.start("Write a report")
        handle.inject("Mention the weather.")
        run = await handle.result()

    It may be steered from any thread. From a thread other than that of its event loop, a steering call blocks until
    that loop has handled it, so the loop must not wait for that thread meanwhile. Await its result and read its events
    on its own event loop.

    Args:
        begin: Makes the run, given its listeners.
        unbegun: The result if it is cancelled before it has begun.
        control: Shared with the run.
    """

    def __init__(self, begin: Begin, unbegun: AgentRun, control: RunControl) -> None:
        self._control = control
        self._begun = self._cancelled = self._at_once = False
        self._unbegun = unbegun
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
            return await begin(() if self._events is None else (self._events,))
        except asyncio.CancelledError as error:
            if not self._cancelled:
                raise
            partial = partial_of(error)  # None if its record was still being opened
            return self._unbegun if partial is None else partial

    @property
    def id(self) -> str:
        """The id of the run, also before it is on record; inside another run, that of the other."""
        return self._control.run_id

    async def recorded(self) -> bool:
        """Wait until the run is on record, so that it survives its process and other processes find it.

        Returns:
            Whether it is; not if it was cancelled before.

        Raises:
            ZigguratError: it could not be opened: `RunExists`, `LeaseHeld`, `StoreError` or a mistake of the caller.
        """
        recorded = self._control.recorded
        waiting = asyncio.ensure_future(recorded.wait())
        try:
            await asyncio.wait([waiting, self._task], return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not recorded.is_set():
            await self.result()
        return recorded.is_set()

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._task.done()

    async def result(self) -> AgentRun[Out]:
        """Wait for the run to end and return it."""
        return await asyncio.shield(self._task)

    if not TYPE_CHECKING:  # type checkers already reject `await handle`

        def __await__(self) -> NoReturn:
            """Refuse to be awaited: a handle may be used to steer first; ``handle.result()`` returns the run."""
            raise ConfigurationError(
                "start() returns a handle on the run at once: handle = agent.start(...), and where you need "
                "the run, run = await handle.result(); without steering, run = await agent.run(...)"
            )

    def events(self) -> EventStream[AgentRun[Out]]:
        """Return the events of the run, for one reader with ``async for``.

        Unread events are buffered in memory, so a slow reader does not slow the run. No more events come once the run
        is cancelled.

        Raises:
            ConfigurationError: the run has already begun, so its first events are lost; call this right after `start`.
        """
        if self._events is None:
            if self._begun or self.done:
                raise ConfigurationError("ask for events() right after start(), before anything is awaited")
            self._events = EventStream(sys.maxsize)
            self._events.follow(self._task)
        return self._events

    def cancel(self, *, after_step: bool = False) -> None:
        """Stop the run; its result says `Cancelled`, and it can be resumed. Does nothing if it has ended.

        Args:
            after_step: Let the current step finish, its tools included, and start no other. The result includes that
                step. A run that is complete with that step is `Completed`.

        Raises:
            Denied: the agent may not be cancelled.
            ConfigurationError: it has no steps to wait for.
        """
        self._check("cancel", loop=after_step)
        self._call_on_loop(lambda: self._cancel(after_step), None)

    def _cancel(self, after_step: bool) -> None:
        if self._task.done():
            return
        if not after_step and self._events is not None:
            self._events.close()
        self._control.cancelled = True
        first, self._cancelled = not self._cancelled, True
        if after_step:
            if first:
                self._control.mailbox.put(SteeringAct("cancel"))
            return
        self._at_once = True
        if self._begun:
            self._task.cancel()

    def inject(self, prompt: Prompt) -> bool:
        """Add a message to the model's next request, never between a tool call and its result.

        A run that would have ended continues to answer it, unless its steps are used up.

        Returns:
            Whether the run was still in progress; if not, nothing was done.

        Raises:
            Denied: the agent does not accept messages while it runs.
            ConfigurationError: the prompt is empty, or not a user's.
        """
        return self._tell("inject", prompt)

    def redirect(self, prompt: Prompt) -> bool:
        """Make the model abandon its current plan, and give it a new message.

        Running tool calls are cancelled, those that have not started are skipped, and both get a result that says so. A
        reply in progress is waited for, but none of its calls is made. What was done before is kept.

        Returns:
            Whether the run was still in progress; if not, nothing was done.

        Raises:
            Denied: the agent may not be redirected.
            ConfigurationError: the prompt is empty, or not a user's.
        """
        return self._tell("redirect", prompt)

    def _tell(self, verb: Verb, prompt: Prompt) -> bool:
        self._check(verb, loop=True)
        messages = user_messages(prompt, verb)

        def put() -> bool:
            mailbox = self._control.mailbox
            if self._task.done() or not mailbox.open:
                return False
            mailbox.put(SteeringAct(verb, messages))
            return True

        return self._call_on_loop(put, False)

    def _check(self, verb: str, *, loop: bool) -> None:
        check_steerable(self._control.steerable, verb, self._unbegun.agent, loop=loop)

    def _call_on_loop(self, steer: Callable[[], T], over: T) -> T:
        """Call `steer` in the thread of the run's event loop and return its result; `over` if that loop is closed."""
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
