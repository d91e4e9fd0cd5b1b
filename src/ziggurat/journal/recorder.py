"""The base class of all journals: answers a call from the record, or makes it and records it.

A journal only finds and stores entries; the rest is here. Recording, resuming and replaying are one mechanism in
three modes: `record` and `resume` answer recorded calls and make the others; `replay` makes no calls and raises if
the record has no answer.
"""

from asyncio import Future
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.codec import Raw, as_type, decode
from ziggurat.core.containment import DONE, contained, contained_call
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, JournalCorrupt, JournalError, JournalMismatch, RecordEnds
from ziggurat.core.event import Diverged, NotRecorded, difference
from ziggurat.core.facts import must_be
from ziggurat.core.failures import mistake_in
from ziggurat.core.path import is_beneath, parent_of, step_of
from ziggurat.core.protocols import usage_of
from ziggurat.core.stopwatch import Stopwatch
from ziggurat.journal.entries import Ended, Failure, Intent, JournalEntry, Outcome, Record, RedactEntry, Result, Tried
from ziggurat.journal.lines import as_error, fingerprint
from ziggurat.journal.views import Composites, count, known

if TYPE_CHECKING:
    from ziggurat.journal.lines import Compared


class _Acts:
    """The acts in the entries of a run; entries added later are looked at when it is asked."""

    __slots__ = ("_begun", "_ended", "_entries", "_equal", "_failed", "_looked_at", "running")

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self._entries = entries
        self._looked_at = 0  # the number of entries seen
        self._begun: dict[str, tuple[int, Intent]] = {}  # by path, the index of the first intent, and the last one
        self._failed: dict[int, int] = {}  # the index of each failure, by its id
        self._ended: set[str] = set()  # the paths of those with a result
        self._equal: dict[str, dict[str, Intent]] = {}  # by digest and path, the intents that no later one replaces
        self.running: set[str] = set()  # the paths of those that run in this process

    def before(self, failure: Failure | None) -> list[Intent]:
        """Return the last intent of each act that had begun before a failure was recorded, all without one."""
        self._look()
        end = self._looked_at if failure is None else self._failed[id(failure)]
        return [intent for first, intent in self._begun.values() if first < end]

    def equal(self, digest: str) -> list[Intent]:
        """Return the last intent of each act with this digest, without those that had ended before another began."""
        # The other has begun because the outcome of these was known, or has taken their place.
        self._look()
        return [*self._equal.get(digest, {}).values()]

    def _look(self) -> None:
        for index, entry in enumerate(islice(self._entries, self._looked_at, None), self._looked_at):
            if isinstance(entry, Intent) and entry.once:
                first, _ = self._begun.get(entry.path, (index, entry))
                self._begun[entry.path] = (first, entry)
                equal = self._equal.setdefault(entry.digest, {})
                for path in self._ended.intersection(equal):
                    del equal[path]
                equal[entry.path] = entry
            elif isinstance(entry, Result) and entry.path in self._begun:
                self._ended.add(entry.path)
            elif isinstance(entry, Failure):
                self._failed[id(entry)] = index
        self._looked_at = len(self._entries)


Q = TypeVar("Q")
R = TypeVar("R")

Mode = Literal["record", "resume", "replay"]


_CUT_OFF = ("Cancelled", "Timeout", "Failed", "BudgetExceeded", "Denied")
"""The stops of runs whose record may end in the middle of a call."""


class Recorder:
    """The base of all journals: a subclass defines `find`, `paths` and `append`.

    Args:
        mode: Whether calls without a record are made (`record`, `resume`) or refused (`replay`).
        strict: Raise on a request that differs from the recorded one, rather than emit `Diverged`.
        clock: Measures the run's time allowance.
    """

    __slots__ = (
        "_acts", "_errors", "_known_composites", "_readers", "_screens",
        "charges", "durable", "entries", "mistakes", "mode", "refusing", "reopened", "replaying", "strict", "watch",
    )  # fmt: skip

    def __init__(self, mode: Mode = "record", *, strict: bool = False, clock: Clock = SYSTEM_CLOCK) -> None:
        self.mode = mode
        self.replaying: bool = mode == "replay"
        self.refusing: bool = self.replaying
        self.strict: bool = strict or mode == "replay"
        self.durable: bool = False
        self.entries: list[JournalEntry] = []
        self.watch: Stopwatch = Stopwatch(clock)  # measures the run, in this process and all before
        self._acts: _Acts | None = None
        self._known_composites: Composites | None = None
        self.charges: list[tuple[str, object]] | None = None  # usage not yet taken, by path
        self._errors: dict[int, tuple[BaseException, str, Failure | None]] | None = None  # where; of which entry
        self.mistakes: dict[int, BaseException] | None = None  # of the programmer, raised in the run, by id
        self._screens: dict[str, tuple[RedactEntry, ...]] | None = None
        self._readers: deque[Future[None]] | None = None
        self.reopened: bool = False  # whether it has entries from before the run was continued

    def find(self, path: str, /) -> Record | None:
        """Return the record of the call at `path`, or None."""
        raise NotImplementedError

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all recorded calls."""
        raise NotImplementedError

    def append(self, entry: JournalEntry, /) -> Awaitable[None] | None:
        """Record an entry; if an awaitable is returned, await it before acting on the entry."""
        raise NotImplementedError

    def keep_costs(self, path: str, name: str, error: BaseException, spent: tuple[object, ...], /) -> None:
        """Record what a call has cost that was cancelled, so that it has no outcome; written with the next entry."""
        raise NotImplementedError

    def screen(self, path: str, screen: RedactEntry, /) -> None:
        """Apply `screen` from now on to each entry at or below `path`, before the entry is stored anywhere."""
        if self._screens is None:
            self._screens = {}
        if screen not in self._screens_of(path):
            self._screens[path] = (*self._screens.get(path, ()), screen)

    def _screens_of(self, path: str) -> Iterable[RedactEntry]:
        while self._screens is not None:
            yield from self._screens.get(path, ())
            if not path:
                return
            path = parent_of(path)

    def screened(self, entry: JournalEntry, /) -> JournalEntry:
        """Return an entry after all screens for its path were applied; every journal's `append` stores only this.

        Screens registered at deeper paths are applied first.
        """
        for screen in self._screens_of(entry.path):
            try:
                entry = screen(entry)
            except BaseException as error:  # noqa: BLE001 - raised again
                self.note_mistake(error)
                raise contained(error)  # noqa: B904 - it has its cause already
        return entry

    @property
    def original(self) -> Sequence[JournalEntry]:
        """The entries with which differing requests are compared."""
        return self.entries

    def missing(self, path: str, what: str, /) -> None:
        """Raise in `replay`, because the record has no answer for this call.

        Raises:
            RecordEnds: the run broke off here, or nothing more was recorded yet.
            NotRecorded: it did not.
        """
        if self.mode == "replay":
            if self.breaks_off_at(path, *_CUT_OFF):
                raise RecordEnds(self._last_stop())
            raise NotRecorded(f"replay came to {path} ({what}), which is not in the record")

    def breaks_off_at(self, path: str, *stops: str) -> bool:
        """Return whether the record ends with one of the stops, and its agent has done nothing after the call."""
        return self._last_stop() in stops and not self._goes_on_after(path)

    def _last_stop(self) -> str:
        return next((entry.stop for entry in reversed(self.entries) if isinstance(entry, Ended)), "")

    def _goes_on_after(self, path: str) -> bool:
        """Return whether something is recorded that follows the call at `path` in the steps of its agent."""
        agent, step, place = step_of(path)
        others = (step_of(known, agent) for known in self.paths() if step)
        return any(
            other > step or (other == step and place == "model" and then.startswith("tool-"))
            for _, other, then in others
        )

    def diverged(self, path: str, what: str, recorded: str, current: str, /) -> Diverged | None:
        """Return the event that reports a difference, None if there is none; raise if the journal is strict."""
        if recorded == current:
            return None
        if self.strict:
            raise JournalMismatch(f"first divergence at {path}: {what}\n{difference(recorded, current)}")
        return Diverged(path, what, recorded, current)

    # -- the call ------------------------------------------------------------------------------------------------

    async def once(
        self,
        ctx: Context,
        name: str,
        request: Q,
        call: Callable[[Q, Context], Awaitable[R]],
        returns: type[R],
        composite: bool = False,
        /,
    ) -> R:
        """Answer the call from the record, or make it and record it."""
        record = self.find(ctx.path)
        if record is not None:
            outcome = self.next_outcome(ctx, record)
            entered = record.entered is not None  # then the agent there answers itself
            # A failure is an answer for an agent, too; its result it makes again from its own entries, with all events.
            if outcome is not None and not (entered and isinstance(outcome, Result)):
                return await self.answer(ctx, outcome, name, request, returns)
        if composite:
            return await self._call_composite(ctx, name, request, call, returns)
        if self.refusing:
            self.missing(ctx.path, name)
        try:
            value = await call(request, ctx if ctx.leaf else ctx.as_leaf())
            if type(value) is not returns:
                must_be(value, returns, name, ctx)
        except BaseException as raised:  # noqa: BLE001 - raised again
            # Also of a cancelled call, which has no outcome: what it has cost must be in the sums of the run.
            error = contained_call(raised, name, ctx.path)
            usage = None if self.is_from_below(ctx.path, error) else usage_of(error)
            spent = known(self.take_charges(ctx.path, usage))
            count(ctx, name, spent, True)
            if isinstance(error, Exception):
                await self.write_failure(ctx, name, request, error, spent)
            else:
                self.keep_costs(ctx.path, name, error, spent)
            raise error  # noqa: B904 - it has its cause already
        spent = () if self.charges is None else known(self.take_charges(ctx.path))
        waiting = self.append(Result(ctx.path, name, request, value, spent, self.watch.elapsed))
        usage = getattr(value, "usage", None)
        # Counted before the entry is durable: another call may be admitted meanwhile, and must see this usage.
        if spent or usage is not None:
            count(ctx, name, (*spent, usage), True)
        if waiting is not None:
            await waiting
        return value

    async def _call_composite(
        self, ctx: Context, name: str, request: Q, call: Callable[[Q, Context], Awaitable[R]], returns: type[R]
    ) -> R:
        """Call a composite, and record its outcome unless it has recorded that itself."""
        try:
            value = await call(request, ctx)
        except Exception as error:
            last = None if (record := self.find(ctx.path)) is None else next(reversed(record.outcomes), None)
            if not (isinstance(last, Failure) and last.error is error):
                await self.write_failure(ctx, name, request, error)
            raise
        # An agent has written its result itself, with the end of its run; it must not be written twice.
        if (record := self.find(ctx.path)) is None or record.result is None:
            must_be(value, returns, name, ctx, stored=self.durable)
            await self.write(Result(ctx.path, name, request, value, (), self.watch.elapsed))
        return value

    def write(self, entry: JournalEntry) -> Awaitable[None]:
        """Record an entry; the awaitable, to be awaited before acting on it, ends when it is durable.

        Raises:
            StoreError: it cannot be stored; everything later is refused with the same error.
        """
        return self.append(entry) or DONE

    async def write_failure(
        self, ctx: Context, name: str, request: object, error: Exception, spent: Sequence[object] = ()
    ) -> None:
        """Record a failed try of a call, and wait until it is durable; a mistake of the caller is no outcome."""
        if isinstance(error, (ConfigurationError, JournalError)):
            return
        self._note_error(error, ctx.path)
        mistake = mistake_in(error, self.mistakes) is not None
        await self.write(Failure(ctx.path, name, request, error, tuple(spent), self.watch.elapsed, mistake))

    def _note_error(self, error: BaseException, path: str, answer: Failure | None = None) -> None:
        self._errors = self._errors or {}
        # By identity, since equal errors may come from different calls; the error is kept, so its id is not used again.
        self._errors[id(error)] = (error, path, answer)

    def note_mistake(self, error: BaseException, /) -> None:
        """Remember an error as a mistake of the programmer, which ends the run."""
        self.mistakes = self.mistakes or {}
        self.mistakes[id(error)] = error

    def is_known(self, error: BaseException) -> bool:
        """Return whether an error was recorded by this journal, or came from it."""
        return self._errors is not None and id(error) in self._errors

    def is_from_below(self, path: str, error: BaseException, /) -> bool:
        """Return whether an error came from a recorded call below that at `path`, which has counted what it cost."""
        _, below, _ = (self._errors or {}).get(id(error), (error, path, None))
        return below != path and is_beneath(below, path)

    def is_answer(self, error: BaseException, /) -> bool:
        """Return whether an error came from the record."""
        return self._answer_of(error) is not None

    def _answer_of(self, error: BaseException) -> Failure | None:
        return None if self._errors is None else self._errors.get(id(error), (error, "", None))[2]

    def answers_next(self, path: str, /) -> bool:
        """Return whether the next recorded outcome of the call at `path` is its result."""
        record = self.find(path)
        return record is not None and record.result is not None and record.cursor == len(record.outcomes) - 1

    def charge(self, path: str, usage: object, error: BaseException | None = None, /) -> None:
        """Keep the usage of a failed or lost try at `path`, for the record of the call it is a part of."""
        cost = error if usage is None else usage
        if cost is None or (error is not None and self.is_from_below(path, error)):
            return
        self.charges = self.charges or []
        self.charges.append((path, cost))

    def take_charges(self, path: str, usage: object | None = None) -> tuple[object, ...]:
        """Remove and return the usage charged at and below a call, followed by the call's own.

        A failed try whose usage is unknown is represented by its error.
        """
        own = () if usage is None else (usage,)
        charges = self.charges
        if charges is None:
            return own
        # Also those below: the tries of calls inside have charged their own paths.
        costs = [cost for at, cost in charges if is_beneath(at, path)]
        self.charges = [(at, cost) for at, cost in charges if not is_beneath(at, path)] or None
        return (*costs, *own)

    def skip(self, ctx: Context, until: JournalEntry | None = None, *, count_only: bool = False) -> None:
        """Use the outcomes of the calls below this one that were recorded before an entry; they are not made again.

        Their usage is counted, and unless `count_only`, their failures are marked as answered.
        """
        for tried in self._composites.tries_below(ctx.path, until):
            record = self.find(tried.path)
            if record is not None:
                self._count_once(ctx, record, tried)
                if isinstance(tried, Failure) and not count_only:
                    record.cursor = max(record.cursor, record.number(tried))

    def _count_once(self, ctx: Context, record: Record, outcome: Tried) -> None:
        """Count the usage of an outcome, or the outcome itself if it has none, unless it was counted before."""
        self._count_withdrawn(ctx, record)
        number = record.number(outcome)
        if record.counted < number:  # not when it was withdrawn, with number 0
            record.counted = number
            count(ctx, outcome.name, self._composites.own_cost(outcome) or [outcome])

    def next_outcome(self, ctx: Context, record: Record) -> Outcome | None:
        """Return the next outcome to answer with; if the call is made instead, count what it has cost before."""
        outcome = record.answer()
        if outcome is None:
            self._count_withdrawn(ctx, record)
        return outcome

    def _count_withdrawn(self, ctx: Context, record: Record) -> None:
        while record.recounted < len(record.withdrawn):
            record.recounted += 1
            tried = record.withdrawn[record.recounted - 1]
            count(ctx, tried.name, self._composites.own_cost(tried) or [tried])

    @property
    def _composites(self) -> Composites:
        if self._known_composites is None:
            self._known_composites = Composites(self.entries)
        return self._known_composites

    @property
    def acts(self) -> _Acts:
        """The calls in the record that act once only."""
        if self._acts is None:
            self._acts = _Acts(self.entries)
        return self._acts

    def acts_before(self, error: BaseException, /) -> list[Intent]:
        """Return the last intent of each call that acts once only and had begun when an error came, in their order.

        An error that came from the record came before all that is recorded after it.
        """
        return self.acts.before(self._answer_of(error))

    def is_entered(self, path: str, /) -> bool:
        """Return whether a composite was entered at or below `path`."""
        return path in self._composites

    async def answer(self, ctx: Context, outcome: Outcome, name: str, request: object, returns: type[R]) -> R:
        """Answer a call with its recorded outcome: compare the requests, count the usage, pass over the calls below.

        Args:
            ctx: The context of the call.
            outcome: Its next recorded outcome.
            request: What it is asked now; None to compare nothing.

        Raises:
            JournalMismatch: the call differs, and the journal is strict; or its answer does not fit the type of today.
            Exception: the recorded failure.
        """
        if request is not None:
            event = self._compare(ctx, outcome, name, request)
            if event is not None and ctx.listens(Diverged):
                await ctx.emit(event)
        if (record := self.find(ctx.path)) is not None:
            self._count_once(ctx, record, outcome)
        self.skip(ctx, outcome)
        if isinstance(outcome, Failure):
            error = as_error(outcome.error)
            self._note_error(error, ctx.path, outcome)
            if outcome.mistake:
                self.note_mistake(error)
            raise error
        try:
            return as_type(outcome.value, returns)
        except JournalCorrupt as error:
            why = f"the result of {ctx.path} ({name}) does not fit its type any more: {error}"
            raise JournalMismatch(why) from error

    def _compare(self, ctx: Context, outcome: Outcome, name: str, request: object) -> Diverged | None:
        event = self.diverged(ctx.path, "service", outcome.name, name)
        if event is not None or not (self.strict or ctx.listens(Diverged)):  # nobody would be notified
            return event
        was = outcome.request
        recorded = decode(was, str) if isinstance(was, Raw) else fingerprint(was)
        current = fingerprint(request)
        if recorded == current:
            return None
        return self.diverged(ctx.path, *self._difference_of(ctx.path, request, recorded, current))

    def _difference_of(self, path: str, request: object, recorded: str, current: str) -> tuple[str, str, str]:
        """Return what differs and both sides as text: the request's own `compared()` if possible, else fingerprints."""
        own = None
        if hasattr(request, "compared"):
            own = cast("Compared", request).compared(self.original, path, recorded)
        return own or ("request", recorded, current)

    # -- what calls have cost ------------------------------------------------------------------------------------

    def spent(self, path: str, /) -> list[tuple[Tried, list[object]]]:
        """Return every recorded try at or below `path` with its usage; a composite has none, its parts have it."""
        records = [self.find(each) for each in self.paths() if is_beneath(each, path)]
        tries = [tried for record in records if record is not None for tried in record.tries]
        return [(tried, self._composites.own_cost(tried)) for tried in tries]
