"""RunHandle: watch, steer, decide and wait for a run, whichever process drives it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic

from ziggurat.agents.starter import Driving, Starter
from ziggurat.agents.status import RunStatus, read_status
from ziggurat.core import errors
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.core.tasks import first_of
from ziggurat.core.verbs import verb
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun, Decisions, Out
from ziggurat.messages.prompts import Prompt, user_messages
from ziggurat.runs import drive, sending
from ziggurat.runs.control import RunControl, SteeringAct
from ziggurat.runs.options import Environment
from ziggurat.runs.waking import due

if TYPE_CHECKING:
    from ziggurat.runs.control import SubscribedItem


class RunHandle(Generic[Out]):
    """The handle of a run, returned by ``agent.start(...)``, ``agent.attach(run_id)`` and ``await agent.submit(...)``::

        handle = agent.start("Write a report", run_id="r-17")
        await handle.inject("Mention the weather.")
        run = await handle.result()

    Any number of handles may watch and control one run, from any process that has the store. A handle that has started
    its run drives it in the background of its event loop. A run that is driven elsewhere does what it is asked within
    half a second; one that nobody drives, when it is continued. Where the run continues as new, the handle goes on with
    the next one; its `id` stays that of the first.

    The verbs that steer it return whether it was in progress or waiting; if not, nothing was done.
    Every verb raises `RunNotFound` if there is no such run (without a store, one that has ended is not kept), those
    that read its record `JournalCorrupt` if that is damaged, and those that steer it `Denied` if a `Steerable` says so,
    or `RunNotFound` if it is of another agent.

    Every verb is a coroutine; from another thread, pass it to ``asyncio.run_coroutine_threadsafe(coroutine, loop)``.
    """

    def __init__(self, run_id: str, starter: Starter, driving: Driving | None = None) -> None:
        self.id = run_id
        self._starter = starter
        self._opener = starter.opener
        self._runs = starter.opener.runs
        self._newest = run_id  # as far as is known, of the runs as which it has continued
        self._driving = driving
        self._control: RunControl | None = None  # of the run while it is driven by this handle
        self._task: asyncio.Task[AgentRun] | None = None
        self._begun = self._cancelled = self._at_once = False
        self._error: BaseException | None = None  # that nobody knows of
        self._count = self._seen = 0  # entries when it began to wait for people, and the last item seen in its inbox
        if driving is not None:
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                text = "start() needs a running event loop; from other code use run_sync()"
                raise errors.ConfigurationError(text) from None
            self._control = driving.control
            self._task = self._begin_task(driving, again=False)

    def __repr__(self) -> str:
        return f"RunHandle({self.id!r})"

    def __del__(self) -> None:
        if self._error is not None:
            drive.log_raised(self._error, self.id)

    if not TYPE_CHECKING:  # type checkers already reject `await handle`

        def __await__(self) -> Any:
            """Refuse to be awaited: a handle may be used to steer first; ``handle.result()`` returns the run."""
            raise errors.ConfigurationError(
                "start() returns a handle on the run at once: handle = agent.start(...), and where you need "
                "the run, run = await handle.result(); without steering, run = await agent.run(...)"
            )

        def __getattr__(self, name: str) -> Any:
            hint = f": run = await handle.result(), then run.{name}" if hasattr(AgentRun, name) else ""
            raise AttributeError(f"a RunHandle has no attribute {name!r}{hint}")

    # -- driving -------------------------------------------------------------------------------------------------

    def _begin_task(self, driving: Driving, *, again: bool) -> "asyncio.Task[AgentRun]":
        task = asyncio.get_running_loop().create_task(self._drive(driving, again=again))
        task.add_done_callback(self._note_error)
        return task

    def _note_error(self, task: "asyncio.Task[AgentRun]") -> None:
        self._error = None if task.cancelled() else task.exception()

    async def _drive(self, driving: Driving, *, again: bool) -> AgentRun:
        assert self._task is not None
        while True:
            run: AgentRun | None = None
            try:
                run = await self._drive_once(driving, again)
            except errors.IN_PROGRESS:
                if not again:
                    raise
            if run is not None and (driving.joined or not isinstance(run.stop, (stops.Suspended, stops.Continued))):
                return run
            try:
                if run is not None and isinstance(run.stop, stops.Continued):
                    self._newest, self._seen = run.stop.run_id, 0
                if self._at_once:  # it was cancelled when its last turn was over
                    raise asyncio.CancelledError
                if run is not None and run.pending and not _goes_on_by_itself(run):
                    info = await self._runs.find(self._newest)
                    self._count = 0 if info is None else info.count
                    return run
                at = await due(self._runs, self._newest, driving.clock, self._seen)
                if at is None:  # somebody else has ended it
                    return await self._follow()
                self._newest, self._seen = at
            except asyncio.CancelledError:
                if not self._at_once:
                    raise
                self._at_once = False
                self._task.uncancel()
                await sending.post_cancel(self._runs, self._newest, after_step=False)
            again, self._control = True, self._opener.control(self._newest)

    async def _drive_once(self, driving: Driving, again: bool) -> AgentRun:
        control = self._control
        assert control is not None
        if self._at_once and not self._begun:
            return driving.unbegun
        self._begun = True
        try:
            return await driving.begin(control, again)
        except asyncio.CancelledError as error:
            if not self._cancelled:
                raise
            partial = drive.partial_of(error)  # None if its record was still being opened
            return driving.unbegun if partial is None else partial
        finally:
            self._control = None

    async def recorded(self) -> bool:
        """Wait until the run is on record, for other processes to find; return whether it is: not if it was cancelled.

        Raises:
            ZigguratError: it could not be opened: `RunExists`, `LeaseHeld`, `StoreError` or a mistake of the caller.
        """
        if self._driving is None or self._task is None:
            return await self._runs.find(self.id) is not None
        recorded = self._driving.control.recorded
        await first_of(recorded.wait(), asyncio.wait([self._task]))
        if not recorded.is_set():
            await self.result()
        return recorded.is_set()

    # -- watching ------------------------------------------------------------------------------------------------

    @verb
    async def result(self) -> AgentRun[Out]:
        """Wait until the run has ended, or only people can go on with it, and return it; of a chain the last run.

        A handle that has started its run drives it on through timers and events, and when this is called after a
        decision or a cancellation. Elsewhere this waits for whoever drives it or resumes it; limit that with
        `asyncio.timeout`.
        """
        if self._driving is None or self._task is None:
            await self._check_own()  # else it would wait for a run that it cannot return
            return await self._follow()
        try:
            run = await asyncio.shield(self._task)
            waits = self._task.done() and not self._driving.joined and isinstance(run.stop, stops.Suspended)
            if waits and await self._went_on():
                if self._task.done():  # no other caller was quicker
                    self._control = self._opener.control(self._newest)
                    self._task = self._begin_task(self._driving, again=True)
                run = await asyncio.shield(self._task)
            return run
        finally:
            if self._task.done():
                self._error = None

    async def _went_on(self) -> bool:
        info, items = await self._runs.find(self._newest), await self._runs.inbox(self._newest, self._seen)
        self._seen = items[-1].number if items else self._seen
        return info is not None and (info.count != self._count or bool(items))

    async def _follow(self) -> AgentRun[Out]:
        while True:
            count = await self._find_newest()
            run = await self._starter.drive_apart(lambda: self._opener.answer(self._newest), "read")
            if count is None or not (_goes_on_by_itself(run) or isinstance(run.stop, stops.Continued)):
                return run
            await self._runs.continued(self._newest, count)  # at once, if it has gone on since

    async def _find_newest(self) -> int | None:
        """Find the run that goes on, or was the last to end; return the number of its entries, None if it is gone."""
        info = await self._runs.newest(self._newest)
        self._newest = self._newest if info is None else info.id
        return None if info is None else info.count

    @verb
    async def status(self) -> RunStatus:
        """Read what is on record of the run so far; one that was just started is waited for until it is on record."""
        if self._control is not None:
            await self.recorded()
        await self._find_newest()
        return await read_status(self._opener, self._newest)

    def events(self, *, after: int = 0) -> "AsyncGenerator[SubscribedItem, None]":
        """Follow the run until it ends or waits, from its start or after a given entry::

            async for item in agent.attach("r-17").events(after=12):
                print(item.what)

        What is recorded comes complete, in order and once, whenever the reader joins and whichever process drives the
        run: as the events `AgentStarted`, `ModelEnded`, `ToolEnded`, `ApprovalRequested`, `ApprovalDecided`, `Steered`
        and `AgentEnded`, and as decoded entries of the record, such as `Opened` and `Ended`, where there is no event.
        Other events, such as pieces of a reply, come as they pass from the moment of this call; of a reader that is too
        slow for them, `Skipped` says how many it has missed. There can be any number of readers; none slows the run.
        When the last item has come, the lease of the run is free. Where a run continues as new, the items of the next
        one follow, numbered from 1; its `Opened` has its id.

        Raises:
            ConfigurationError: `after` is not the number of an entry, or the run is a part of the run around; follow
                that.
        """
        if type(after) is not int or after < 0:
            raise errors.ConfigurationError(f"after is the number of an entry, such as 12, got {after!r:.100}")
        control = self._control
        if control is None or self._newest != self.id:
            return self._opener.subscribe(self.id if self._runs.keeps_ended else self._newest, after)
        if self._driving is not None and self._driving.joined:
            raise errors.ConfigurationError(f"this run of {self._starter.name} is a part of {self.id!r}: follow that")
        return self._events(control, after, control.events())

    async def _events(
        self, control: RunControl, after: int, items: "AsyncGenerator[SubscribedItem, None]"
    ) -> "AsyncGenerator[SubscribedItem, None]":
        if await self.recorded():
            opened = control.broadcast
            async for item in self._opener.subscribe(self.id, after, None if opened is None else items):
                yield item
            if opened is not None:
                await self._runs.left(self.id, opened.journal)

    # -- controlling ---------------------------------------------------------------------------------------------

    async def cancel(self, *, after_step: bool = False) -> bool:
        """Stop the run; its result says `Cancelled`, and it can be resumed. One that waits ends when it is continued.

        It stops nothing that happens after the run has ended: if it is resumed later, it goes on.

        Args:
            after_step: Let the current step finish, its tools included, and start no other. The result includes that
                step. A run that is complete with that step is `Completed`.

        Raises:
            ConfigurationError: it has no steps to wait for.
        """
        act, runs = SteeringAct("cancel"), self._runs
        act.check(self._opener.steerable, self._starter.name, loop=after_step)
        control = self._here()
        first = control is None or not self._cancelled
        if control is not None:
            self._cancelled = control.cancelled = True
        if control is None or after_step:
            return not first or await self._steer(act, lambda: sending.post_cancel(runs, self._newest, after_step))
        self._at_once = True
        if self._begun and self._task is not None:
            self._task.cancel()
        return True

    @checked
    async def inject(self, prompt: Prompt) -> bool:
        """Add a message to the model's next request, never between a tool call and its result.

        A run that would have ended continues to answer it, unless its steps are used up. It is in the record once,
        however often the process of the run is lost. If the run ends elsewhere before it is read, it stays with the
        run, and is added when that is resumed.
        """
        return await self._tell(SteeringAct("inject", user_messages(prompt, "inject")))

    @checked
    async def redirect(self, prompt: Prompt) -> bool:
        """Make the model abandon its current plan, and give it a new message.

        Running tool calls are cancelled, those that have not started are skipped, and both get a result that says so.
        Calls that wait for a decision are abandoned too. A reply in progress is waited for, but none of its calls is
        made. What was done before is kept.
        """
        return await self._tell(SteeringAct("redirect", user_messages(prompt, "redirect")))

    @checked
    async def decide(self, decisions: Decisions, *, environment: Environment | None = None) -> None:
        """Record decisions on what waits in the run, whoever drives it; `resume` or a worker goes on with it.

        The decisions are as for `resume`; for a question ``Answer(value)``. Deciding again in the same way has no
        effect. While a process drives the run, because others of its calls go on, they are stored beside the record;
        answers are used at once, the others when those have ended.

        Raises:
            AlreadyDecided: a call was decided in another way before, or the run has ended, such as by `cancel`; then
                `resume` takes decisions.
            ConfigurationError: a decision does not fit, or names no pending item. None of them is recorded then.
        """
        await self._opener.deciding.decide(self.id, decisions, (environment or Environment()).clock)

    @checked
    async def send(
        self,
        name: NonEmptyText,
        value: Any = None,
        *,
        key: NonEmptyText | None = None,
        environment: Environment | None = None,
    ) -> bool:
        """Send the run an event; see `flows.send`."""
        await self._check_own()
        return await sending.send_to(self._runs, self._newest, name, value, key, environment)

    async def _tell(self, act: SteeringAct) -> bool:
        act.check(self._opener.steerable, self._starter.name, loop=True)
        whole = None if self._control is None else self._control.whole
        more = (act.verb, act.messages, self._opener.screened_entry, whole)
        return await self._steer(act, lambda: sending.post_messages(self._runs, self._newest, *more))

    async def _steer(self, act: SteeringAct, post: Callable[[], Awaitable[bool]]) -> bool:
        control = self._here()
        if control is None:
            return await self._post(post)
        if self._driving is not None and self._driving.joined:  # the run around has the inbox
            return control.put(act)

        async def taken_in() -> bool:
            posted = (control.recorded.is_set() or await self.recorded()) and await post()
            await control.read()
            return posted

        return control.open and await control.expect(asyncio.ensure_future(taken_in()))

    async def _post(self, post: Callable[[], Awaitable[bool]]) -> bool:
        await self._check_own()
        if self._driving is None:
            return await post()
        try:
            return not self._driving.joined and await post()
        except errors.RunNotFound:  # it has ended, and is not kept
            return False

    async def _check_own(self) -> None:
        if self._driving is None:  # else it was started here
            await self._opener.check_own(self._newest)

    def _here(self) -> RunControl | None:
        if self._control is not None and asyncio.get_running_loop() is not self._loop:
            raise errors.ConfigurationError(
                f"the run {self.id!r} is driven by another event loop; from here write "
                "asyncio.run_coroutine_threadsafe(handle.cancel(), loop)"
            )
        return self._control


def _goes_on_by_itself(run: AgentRun[Any]) -> bool:
    """Return whether a run waits for a time or an event, so that it can go on before anybody decides."""
    return isinstance(run.stop, stops.Suspended) and not all(item.needs_decision for item in run.pending)
