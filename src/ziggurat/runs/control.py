"""RunControl: how a run that is driven is cancelled and steered, by its handle and by what others post to it."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING

from msgspec import Struct

from ziggurat.core.context import Key
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.log import logger
from ziggurat.core.tasks import StopSignal
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.message import Message
from ziggurat.messages.posted import PostedCancel, PostedMessages
from ziggurat.messages.steer import Verb

if TYPE_CHECKING:
    from ziggurat.calls.inbox import Inbox, Inboxes
    from ziggurat.runs.broadcast import EventBroadcast, SubscribedItem, Unread


def check_steerable(steerable: frozenset[str] | None, verb: str, agent: str, *, loop: bool) -> None:
    """Check that a run may be steered in a way."""
    if steerable is None:
        if loop:
            raise ConfigurationError(f"{agent} has no loop of its own to be steered in; cancel() stops it at once")
    elif verb not in steerable:
        allowed = ", ".join(sorted(steerable)) or "nothing"
        raise Denied(f"{agent} may not be steered by {verb} (allowed: {allowed})")


class SteeringAct(Struct, frozen=True, eq=False):
    """An act of steering that has not taken effect yet; see `Steer`."""

    verb: Verb
    messages: tuple[Message, ...] = ()
    posted: int = 0


class Interruption:
    """A way to cancel what the current task does now, and not the task: until `end`."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[object] | None = task
        self._cancels = task.cancelling()  # by others, before
        self._interrupts = False

    def interrupt(self) -> None:
        """Cancel what the task does; the second time has no effect."""
        if self._task is not None and not self._interrupts:
            self._interrupts = self._task.cancel()

    def end(self, error: asyncio.CancelledError | None = None) -> bool:
        """Have no effect any more; return whether an error that the task has caught comes from here only."""
        task, self._task = self._task, None
        if task is None:
            return False
        cancels = task.uncancel() if self._interrupts else task.cancelling()
        return (self._interrupts or isinstance(error, StopSignal)) and cancels <= self._cancels


class Mailbox:
    """Steering acts that have not taken effect yet."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.open = True
        self.arriving: set[asyncio.Future[bool]] = set()  # what is being posted, and the run takes in before it ends
        self._waiting: deque[SteeringAct] = deque()
        self._interruption: Interruption | None = None

    def put(self, act: SteeringAct) -> bool:
        """Add an act, unless the run ends; a ``"redirect"`` also ends what is `interrupted` by it."""
        if self.open:
            self._waiting.append(act)
            if act.verb == "redirect" and self._interruption is not None:
                self._interruption.interrupt()
        return self.open

    async def expect(self, arriving: "asyncio.Future[bool]") -> bool:
        """Have the run take in what is being posted to it before it ends; return whether it was posted."""
        self.arriving.add(arriving)
        arriving.add_done_callback(self.arriving.discard)
        return await asyncio.shield(arriving)

    def take(self, verbs: tuple[str, ...]) -> SteeringAct | None:
        """Remove and return the first act with one of these verbs, None if there is none."""
        for act in self._waiting:
            if act.verb in verbs:
                self._waiting.remove(act)
                return act
        return None

    @property
    def has_redirect(self) -> bool:
        """Whether the run is to be redirected."""
        return any(act.verb == "redirect" for act in self._waiting)

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Cancel the block, and nothing else, when the run is redirected."""
        self._interruption = interruption = Interruption()
        try:
            yield
        except asyncio.CancelledError as error:
            if not interruption.end(error):
                raise
        finally:
            self._interruption = None
            interruption.end()


STEERING = Key[Mailbox]("steering")


class RunControl:
    """What a run shares with those who control it: the handle that started it, and other processes."""

    def __init__(self, run_id: str, depth: int = 0, steerable: frozenset[str] | None = None) -> None:
        self.run_id = run_id
        self.mailbox: Mailbox = Mailbox(depth)
        self.steerable = steerable
        self.recorded: asyncio.Event = asyncio.Event()
        self.cancelled: bool = False
        self.withdrawn = False
        self.inboxes: Inboxes | None = None
        self.broadcast: EventBroadcast | None = None
        self.whole: list[tuple[tuple[Message, ...], ...]] = []  # messages as they are posted from here, and as they are
        self.readers: list[Unread] = []  # those that follow the run since before it was opened
        self._inbox: Inbox | None = None
        self._driving: Interruption | None = None
        self._posted = False  # whether it was cancelled from elsewhere

    def events(self) -> "AsyncGenerator[SubscribedItem, None]":
        """Return the items of the run from its start, and its other events from now on; read them when it is opened."""
        from ziggurat.runs.broadcast import Unread

        unread = Unread() if self.broadcast is None else None
        if unread is not None:
            self.readers.append(unread)
        return self._events(unread)

    async def _events(self, unread: "Unread | None") -> "AsyncGenerator[SubscribedItem, None]":
        from ziggurat.runs.broadcast import subscribe

        assert self.broadcast is not None
        async with aclosing(subscribe(self.broadcast.journal, self.broadcast, unread=unread)) as items:
            async for item in items:
                yield item

    def inbox(self, run_id: str, journal: LocalJournal) -> "Inbox":
        """Return the inbox of the run, always the same; it is made when it is first needed."""
        if self._inbox is None:
            from ziggurat.calls.inbox import Inbox

            assert self.inboxes is not None  # set when the run is opened
            self._inbox = Inbox(self.inboxes, run_id, journal, self.receive)
        return self._inbox

    async def read(self) -> None:
        """Take in what was posted to the run."""
        if self._inbox is not None:
            await self._inbox.read()
        elif self.broadcast is not None:  # else it is read when the run is opened
            await self.inbox(self.run_id, self.broadcast.journal).read()

    # -- from elsewhere --------------------------------------------------------------------------------------------

    def receive(self, number: int, posted: PostedCancel | PostedMessages, end: int) -> bool:
        """Do what others have posted, unless the run has ended since, with this entry; return whether it waits."""
        act = self._act_of(number, posted)
        at_once = isinstance(posted, PostedCancel) and not posted.after_step
        try:
            check_steerable(self.steerable, act.verb, "the agent", loop=not at_once)
        except (Denied, ConfigurationError) as error:
            logger.warning("what was posted to the run %s as number %d is refused: %s", self.run_id, number, error)
            return False
        if isinstance(posted, PostedCancel) and posted.entries < end:
            return False
        if at_once:
            self._cancel()
        else:
            self.mailbox.put(act)
        return not at_once

    def _act_of(self, number: int, posted: PostedCancel | PostedMessages) -> SteeringAct:
        if isinstance(posted, PostedCancel):
            return SteeringAct("cancel", posted=number)
        mine = next((each for each in self.whole if each[0] == posted.messages), None)
        if mine is not None:
            self.whole.remove(mine)
        return SteeringAct(posted.verb, posted.messages if mine is None else mine[1], number)

    def _cancel(self) -> None:
        self._posted = True
        self.cancelled = True
        if self._driving is not None:
            self._driving.interrupt()

    def begin(self, journal: LocalJournal) -> None:
        """Let the current task, which drives the run, be cancelled from elsewhere until `end`."""
        self._driving = Interruption()
        if self._posted:  # before it was continued
            journal.cancel_calls()

    def end(self, error: asyncio.CancelledError | None = None) -> bool:
        """Let the task be cancelled no more; return whether an error that ended the run cancels only the run."""
        return self._driving is not None and self._driving.end(error)
