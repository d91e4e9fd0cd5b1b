"""Supervisor: starts coroutines in order, restarts those that end, stops them in reverse order; after Erlang/OTP."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal

from msgspec import Struct

from ziggurat.core import tasks
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError, ServiceError, described
from ziggurat.core.event import ChildEnded, ChildStarted
from ziggurat.core.settings import CheckedStruct, NonEmptyText, NonNegativeInt, NonNegativeSeconds, Seconds, checked

Restart = Literal["always", "on_failure", "never"]
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one", "dynamic"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]
ChildState = Literal["starting", "running", "waiting", "stopped", "failed"]
Action = Callable[[], Awaitable[object]]


class Shutdown(Exception):
    """Raised by a child to end on purpose: with ``restart="on_failure"`` it is not restarted."""


class RestartsExceeded(ServiceError):
    """A supervisor gave up: its children needed more restarts than it allows in its period."""


class ChildNotStarted(ServiceError):
    """A child failed before it was ready."""


class Child(CheckedStruct, frozen=True):
    """A coroutine function that a supervisor starts, or another supervisor.

    Attributes:
        name: Its name, unique in the supervisor.
        start: Called without arguments, again at each restart; nothing is carried over. With `signals`, it is called
            with a function that it calls once it is ready.
        restart: `always`; `on_failure`, that is after an error, but not after a return or a `Shutdown`; or `never`.
        shutdown: Seconds that it gets to end after its cancellation; None for as long as it takes. A child that has not
            ended by then is left behind and counted as leaked, because a coroutine cannot be killed. A supervisor
            always gets the time that it needs.
        max_restarts: How often it is restarted in all; then it has failed, and the others go on. None for no limit.
        significant: Whether its end can end the supervisor; see `auto_shutdown`.
        signals: Whether it says itself when it is ready; the next child is started then.
    """

    name: NonEmptyText
    start: "Callable[..., Awaitable[object]] | Supervisor"
    restart: Restart = "always"
    shutdown: NonNegativeSeconds | None = 5.0
    max_restarts: NonNegativeInt | None = None
    significant: bool = False
    signals: bool = False


class ChildStatistics(Struct, frozen=True):
    name: str
    state: ChildState
    restarts: int


class SupervisorStatistics(Struct, frozen=True):
    """The figures of a supervisor; the children are in the order in which they are started.

    Attributes:
        total_restarts: How often children were restarted after they had ended by themselves.
        escalations: How often the supervisor gave up.
        leaked: The number of tasks that did not end when they were cancelled, and have not ended since.
    """

    running: int
    total_restarts: int
    escalations: int
    leaked: int
    children: tuple[ChildStatistics, ...]


class _Running(Struct, eq=False):
    child: Child
    task: "asyncio.Task[object] | None" = None
    state: ChildState = "stopped"
    restarts: int = 0

    @property
    def is_up(self) -> bool:
        return self.state in ("starting", "running", "waiting")


class Supervisor:
    """Keeps coroutines running::

        supervisor = Supervisor([Child("queue", queue.run), Child("server", serve)], strategy="rest_for_one")
        await supervisor.run()

    Children are started in their order and stopped in reverse order, one by one. One that ends by itself is restarted
    as its `restart` says, with others as the strategy says. When more restarts are needed than `max_restarts` in
    `period` seconds, all children are stopped and `run` raises RestartsExceeded: a supervisor above takes that as the
    failure of a child. However `run` ends, no child that can be cancelled is left running.

    As a context manager it runs beside a block, which starts when all children have started, and is cancelled if the
    supervisor gives up.

    Args:
        children: Those that it starts with. Children that are added later are forgotten when it is started again.
        name: Its name in the paths of events.
        strategy: `one_for_one` restarts the child that ended; `one_for_all` restarts all; `rest_for_one` restarts it
            and those after it; `dynamic` is `one_for_one` for many children of one kind, which are stopped at the same
            time. Children that have ended for good are not started again.
        max_restarts: The number of restarts in `period` seconds that are allowed.
        backoff: Returns how many seconds to wait before a restart, given the number of restarts within the period.
        auto_shutdown: Whether it ends when `any_significant` child has ended by itself and is not restarted, or when
            `all_significant` children have.

    Raises:
        ConfigurationError: two children have one name, or a child that is always restarted is significant. Of commands:
            it is not running, or has no such child.
    """

    @checked
    def __init__(
        self,
        children: Iterable[Child] = (),
        *,
        name: NonEmptyText = "supervisor",
        strategy: Strategy = "one_for_one",
        max_restarts: NonNegativeInt = 1,
        period: Seconds = 5.0,
        backoff: Callable[[int], float] | None = None,
        auto_shutdown: AutoShutdown = "never",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.name = name
        self.strategy = strategy
        self.max_restarts = max_restarts
        self.period = period
        self.auto_shutdown = auto_shutdown
        self._specification = tuple(children)
        self._backoff = backoff
        self._clock = clock
        self._children: dict[str, _Running] = {}
        self._restarts: deque[float] = deque()  # when, within the period
        self._total = 0
        self._escalations = 0
        self._leaked: set[asyncio.Task[object]] = set()
        self._actions: asyncio.Queue[Action] | None = None
        self._over = False
        self._block: _Block | None = None
        names = set()
        for child in self._specification:
            self._check(child)
            if child.name in names:
                raise ConfigurationError(f"two children are named {child.name!r}; give one of them another name")
            names.add(child.name)

    def _check(self, child: Child) -> None:
        if child.significant and (child.restart == "always" or self.auto_shutdown == "never"):
            raise ConfigurationError(
                f"the child {child.name!r} cannot be significant: it must not be restarted always, and the supervisor "
                "must have auto_shutdown='any_significant' or 'all_significant'"
            )

    # -- its life --------------------------------------------------------------------------------------------------

    async def run(self, ready: Callable[[], object] | None = None, ctx: Context | None = None) -> None:
        """Start the children, and supervise them until the supervisor is stopped or gives up.

        Args:
            ready: Called when all children have started.
            ctx: Events are emitted in this context; by default nobody receives them.

        Raises:
            ChildNotStarted: a child failed before it was ready; those before it were stopped.
            RestartsExceeded: more restarts were needed than are allowed.
            ConfigurationError: it is running already.
        """
        if self._actions is not None:
            raise ConfigurationError(f"the supervisor {self.name!r} is running already")
        actions: asyncio.Queue[Action] = asyncio.Queue()
        self._actions = actions
        self._ctx = (root(self.name) if ctx is None else ctx.under(self.name)).charging()
        self._children = {child.name: _Running(child) for child in self._specification}
        self._restarts.clear()
        self._over = False
        try:
            for running in self._children.values():
                await self._start(running)
            if ready is not None:
                ready()
            while not self._over:
                await (await actions.get())()
        finally:
            # Stopping goes on when the supervisor is cancelled meanwhile, else it would leave orphans.
            await tasks.finished(self._stop(self._children.values()))
            self._actions = None
            while not actions.empty():  # so that nobody waits for a command for ever
                await actions.get_nowait()()

    def shutdown(self) -> None:
        """Stop all children; `run` returns then. No effect if it is not running."""
        self._over = True
        if self._actions is not None:
            self._actions.put_nowait(_nothing)

    @property
    def statistics(self) -> SupervisorStatistics:
        """The figures at this moment."""
        children = [ChildStatistics(name, each.state, each.restarts) for name, each in self._children.items()]
        running = sum(each.state == "running" for each in children)
        return SupervisorStatistics(running, self._total, self._escalations, len(self._leaked), tuple(children))

    async def __aenter__(self) -> "Supervisor":
        self._block = _Block(self)
        await self._block.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._block is not None
        await self._block.leave(error)

    # -- commands --------------------------------------------------------------------------------------------------

    @checked
    async def add(self, child: Child) -> None:
        """Add a child after the others, and start it.

        Raises:
            ConfigurationError: there is a child of this name.
            ChildNotStarted: it failed before it was ready; it was not added.
        """

        async def action() -> None:
            self._check(child)
            if child.name in self._children:
                raise ConfigurationError(f"there is a child named {child.name!r} already")
            running = self._children[child.name] = _Running(child)
            try:
                await self._start(running)
            except ChildNotStarted:
                # Only then: when the supervisor is cancelled, the child must be stopped with the others.
                del self._children[child.name]
                raise

        await self._do(action)

    async def stop(self, name: str) -> None:
        """Stop a child; it stays known, and `restart` starts it again."""

        async def action() -> None:
            await self._stop([self._named(name)])

        await self._do(action)

    async def restart(self, name: str) -> None:
        """Start a child that has ended, or stop and start one that has not.

        Raises:
            ChildNotStarted: it failed before it was ready.
        """

        async def action() -> None:
            running = self._named(name)
            await self._stop([running])
            await self._start(running)

        await self._do(action)

    async def remove(self, name: str) -> None:
        """Stop a child, and forget it."""

        async def action() -> None:
            await self._stop([self._named(name)])
            del self._children[name]

        await self._do(action)

    def _named(self, name: str) -> _Running:
        running = self._children.get(name)
        if running is None:
            raise ConfigurationError(f"no child is named {name!r}; there are {', '.join(self._children) or 'none'}")
        return running

    async def _do(self, action: Callable[[], Awaitable[None]]) -> None:
        """Run an action of a caller between those of the supervisor itself: two never change the children at once."""
        actions = self._actions
        if actions is None:
            raise ConfigurationError(f"the supervisor {self.name!r} is not running")
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def serve() -> None:
            try:
                if self._actions is None:
                    raise ServiceError(f"the supervisor {self.name!r} has ended")
                await action()
            except Exception as error:  # noqa: BLE001 - raised for the caller
                if not answer.done():
                    answer.set_exception(error)
            except BaseException:
                answer.cancel()
                raise
            else:
                tasks.ring(answer)

        actions.put_nowait(serve)
        await answer

    # -- starting --------------------------------------------------------------------------------------------------

    async def _start(self, running: _Running) -> None:
        child, start = running.child, running.child.start
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        signal = partial(tasks.ring, ready)
        if isinstance(start, Supervisor):
            begin: Action = partial(start.run, signal, self._ctx)
        else:
            begin = partial(start, signal) if child.signals else partial(start)
        running.state = "starting"
        running.task = task = asyncio.create_task(tasks.in_task(begin), name=f"{self.name}/{child.name}")
        task.add_done_callback(partial(self._note_end, running))
        if child.signals or isinstance(start, Supervisor):
            first: list[asyncio.Future[Any]] = [task, ready]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not ready.done():
                running.task, running.state = None, "stopped"
                error = _error_of(task) or ServiceError("it ended before it was ready")
                await self._emit(ChildEnded(self._path(child), child.name, described(error)))
                raise ChildNotStarted(f"the child {child.name!r} has not started: {described(error)}") from error
        running.state = "running"
        await self._emit(ChildStarted(self._path(child), child.name, running.restarts))

    def _note_end(self, running: _Running, task: "asyncio.Task[object]") -> None:
        if self._actions is not None:
            self._actions.put_nowait(partial(self._ended, running, task))

    async def _start_waiting(self, group: Sequence[_Running]) -> None:
        """Start the children of a group that wait for it; after one that fails, the rest waits for its next try."""
        for running in group:
            if running.state == "waiting":
                try:
                    await self._start(running)
                except ChildNotStarted as error:
                    running.state = "waiting"
                    # Not at once: the supervisor serves commands between two tries.
                    assert self._actions is not None
                    self._actions.put_nowait(partial(self._restart, running, error))
                    return

    # -- ends ------------------------------------------------------------------------------------------------------

    async def _ended(self, running: _Running, task: "asyncio.Task[object]") -> None:
        if running.task is not task or not running.is_up:  # stopped or replaced since
            return
        running.task, child = None, running.child
        error = _error_of(task)
        await self._emit(ChildEnded(self._path(child), child.name, "" if error is None else described(error)))
        if child.restart == "always" or (child.restart == "on_failure" and error is not None):
            running.state = "waiting"
            await self._restart(running, error)
            return
        running.state = "stopped"
        if child.significant:
            others = [each for each in self._children.values() if each.child.significant and each.is_up]
            self._over = self._over or self.auto_shutdown == "any_significant" or not others

    async def _restart(self, running: _Running, error: BaseException | None) -> None:
        if running.state != "waiting":  # stopped by a command, or started with a group, since
            return
        child = running.child
        if child.max_restarts is not None and running.restarts >= child.max_restarts:
            running.state = "failed"
            return
        now = self._clock.monotonic()
        while self._restarts and now - self._restarts[0] > self.period:
            self._restarts.popleft()
        self._restarts.append(now)
        if len(self._restarts) > self.max_restarts:
            self._escalations += 1
            raise RestartsExceeded(
                f"the supervisor {self.name!r} gave up: {child.name!r} ended, after {self.max_restarts} restarts in "
                f"{self.period:g} s" + ("" if error is None else f": {described(error)}")
            ) from error
        running.restarts += 1
        self._total += 1
        group = self._group(running)
        await self._stop([each for each in group if each is not running])
        for each in group:
            if each.child.restart != "never" or each is running:
                each.state = "waiting"
        delay = 0.0 if self._backoff is None else self._backoff(len(self._restarts))
        start = partial(self._start_waiting, group)
        if delay <= 0:
            await start()
        else:
            assert self._actions is not None
            self._clock.call_at(now + delay, partial(self._actions.put_nowait, start))

    def _group(self, running: _Running) -> list[_Running]:
        all_children = list(self._children.values())
        if self.strategy in ("one_for_one", "dynamic"):
            return [running]
        first = 0 if self.strategy == "one_for_all" else all_children.index(running)
        return [each for each in all_children[first:] if each is running or each.is_up]

    # -- stopping --------------------------------------------------------------------------------------------------

    async def _stop(self, children: Iterable[_Running]) -> None:
        order = list(children)[::-1]
        if self.strategy == "dynamic":
            await asyncio.gather(*map(self._stop_one, order))
        else:
            for running in order:
                await self._stop_one(running)

    async def _stop_one(self, running: _Running) -> None:
        task, child = running.task, running.child
        if running.is_up:
            running.state = "stopped"
        if task is None:
            return
        task.cancel()
        if isinstance(child.start, Supervisor) or child.shutdown is None:
            await asyncio.wait([task])
        else:
            await tasks.first_of(asyncio.wait([task]), self._clock.sleep(child.shutdown))
        running.task = None  # not before: when the supervisor is cancelled meanwhile, the task is stopped once more
        if not task.done():
            self._leaked.add(task)
            task.add_done_callback(self._leaked.discard)
            why = f"it did not end within {child.shutdown:g} s and is left behind"
        else:
            error = _error_of(task)
            why = "" if error is None or isinstance(error, asyncio.CancelledError) else described(error)
        await self._emit(ChildEnded(self._path(child), child.name, why, stopped=True))

    # -- events ----------------------------------------------------------------------------------------------------

    def _path(self, child: Child) -> str:
        return self._ctx.at(child.name).path

    async def _emit(self, event: ChildStarted | ChildEnded) -> None:
        if self._ctx.listens(type(event)):
            await self._ctx.emit(event)

    def __repr__(self) -> str:
        return f"Supervisor({', '.join(self._children or [each.name for each in self._specification])})"


class _Block:
    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._body = asyncio.current_task()
        self._inside = False
        self._cancelled = False

    async def enter(self) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run = partial(self._supervisor.run, partial(tasks.ring, ready))
        self._task = asyncio.get_running_loop().create_task(tasks.in_task(run))
        try:
            await asyncio.wait({self._task, ready}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await tasks.end_all([self._task])
            raise
        if not ready.done():
            await self._task  # raises its error
        self._inside = True
        self._task.add_done_callback(self._cancel_body)

    def _cancel_body(self, task: "asyncio.Task[None]") -> None:
        if self._inside and self._body is not None and not task.cancelled() and task.exception() is not None:
            self._cancelled = self._body.cancel()

    async def leave(self, error: BaseException | None) -> None:
        self._inside = False
        self._supervisor.shutdown()
        try:
            await tasks.finished(self._task)
        except Exception as failure:
            if self._cancelled and self._body is not None:
                self._body.uncancel()
            if error is None or isinstance(error, asyncio.CancelledError):
                raise
            error.add_note(f"the supervisor {self._supervisor.name!r} failed, too: {described(failure)}")


def _error_of(task: "asyncio.Task[object]") -> BaseException | None:
    """Return the error with which a task has failed: a return and a Shutdown are none, a cancellation is one."""
    if task.cancelled():
        return asyncio.CancelledError("it was cancelled")
    error = task.exception()
    return None if isinstance(error, Shutdown) else error


async def _nothing() -> None:
    """Wakes the supervisor."""
