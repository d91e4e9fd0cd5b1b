"""The journal of a run: it answers a call from the record, or makes it and records it.

Recording, resuming and replaying are one mechanism in two modes: `resume` answers recorded calls and makes the others;
`replay` makes no calls and raises if the record has no answer. Entries are kept in memory, by reference; a
`LogWriter` behind the journal also writes them to a store.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, Self, TypeVar

from ziggurat.core import errors, failures
from ziggurat.core.clock import SYSTEM_CLOCK, Clock, Stopwatch
from ziggurat.core.codec import SHAPE_VERSION, as_type
from ziggurat.core.context import JOURNAL, Charges, Context, count
from ziggurat.core.event import Diverged, NotRecorded, difference
from ziggurat.core.path import is_beneath
from ziggurat.core.service import must_be
from ziggurat.core.tasks import contained_call
from ziggurat.journal import entries
from ziggurat.journal.record import RunRecord
from ziggurat.journal.withdrawn import withdraw_failures

Q = TypeVar("Q")
R = TypeVar("R")

Mode = Literal["resume", "replay"]

_CUT_OFF = ("Cancelled", "Timeout", "Failed", "BudgetExceeded", "Denied")
"""The stops of runs whose record may end in the middle of a call."""


class Charged(Charges):
    """The usage that the parts of a recorded call have stated, that of its lost tries included."""

    def __init__(self, journal: "LocalJournal", path: str) -> None:
        self._journal = journal
        self._path = path
        self._open = 1  # the tries that have not ended
        self.spent: list[object] = []

    def charge(self, cost: object, /) -> None:
        if isinstance(cost, BaseException):
            cost = None if self._journal.is_from_below(self._path, cost) else failures.usage_of(cost)
        if cost is not None:
            self.spent.append(cost)

    def lose(self, cost: object, /) -> None:
        if self._open or not isinstance(cost, BaseException):
            self._open = max(0, self._open - 1)
            self.charge(cost)

    def admit(self) -> None:
        self._open += 1


class LocalJournal(RunRecord):
    """The record of a run that is made or replayed; ``LocalJournal.load(lines).entries`` reads an exported one.

    Args:
        mode: Whether calls without a record are made (`resume`) or refused (`replay`).
        record: The entries of a run that is taken over, to be continued or replayed; None for a new run.
        strict: Raise on a request that differs from the recorded one, rather than emit `Diverged`.
        clock: Measures the run's time allowance.
    """

    def __init__(
        self,
        mode: Mode = "resume",
        record: Iterable[entries.JournalEntry] | None = None,
        *,
        strict: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        super().__init__(clock)
        self.mode = mode
        self.replaying: bool = mode == "replay"
        self.refusing: bool = self.replaying
        self.strict: bool = strict or mode == "replay"
        self.mismatch: errors.JournalMismatch | None = None  # of code that does not fit the record
        self.incomplete: bool = False  # whether it replays a record without an end: its process was lost, or is at work
        self._given: frozenset[str] = frozenset()  # the ids of what was decided when it was opened
        self._errors: dict[int, tuple[BaseException, str, entries.Failure | None]] = {}  # where; of which entry
        if record is not None:
            self.take_over(record)

    # -- reading -------------------------------------------------------------------------------------------------

    def withdraws(self, item_id: str, /) -> bool:
        """Return whether the decision on an item is as if it was never made if the run does not go on now."""
        return item_id in self._given and not self.went_on

    def answers_next(self, path: str, /) -> bool:
        """Return whether the next recorded outcome of the call at `path` is its result."""
        record = self.find(path)
        return record is not None and record.result is not None and record.cursor == len(record.outcomes) - 1

    def acts_before(self, error: BaseException, /) -> list[entries.Intent]:
        """Return the last intent of each call that acts once only and had begun when an error came, in their order."""
        # An error that came from the record came before all that is recorded after it.
        return self.index.acts_before(self._answer_of(error))

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
            if outcome is not None and not (entered and isinstance(outcome, entries.Result)):
                return await self.answer(ctx, outcome, name, request, returns)
        if composite:
            return await self._call_composite(ctx, name, request, call, returns)
        if self.refusing or self.calm:
            self.begin_call(ctx.path, name)
        charged = Charged(self, ctx.path)
        try:
            value = await call(request, ctx.charging(charged))
            if type(value) is not returns:
                must_be(value, returns, name, ctx)
        except BaseException as raised:  # noqa: BLE001 - raised again
            # Also of a cancelled call, which has no outcome: what it has cost must be in the sums of the run.
            error = contained_call(raised, name, ctx.path)
            charged.lose(error)
            spent = tuple(charged.spent)
            count(ctx, name, spent)
            await self.write_failure(ctx, name, request, error, spent)
            raise error  # noqa: B904 - it has its cause already
        spent = tuple(charged.spent)
        waiting = self.append(entries.Result(ctx.path, name, request, value, spent, self.watch.elapsed))
        usage = getattr(value, "usage", None)
        # Counted before the entry is durable: another call may be admitted meanwhile, and must see this usage.
        if spent or usage is not None:
            count(ctx, name, (*spent, usage))
        if waiting is not None:
            await waiting
        return value

    async def _call_composite(
        self, ctx: Context, name: str, request: Q, call: Callable[[Q, Context], Awaitable[R]], returns: type[R]
    ) -> R:
        try:
            value = await call(request, ctx)
        except Exception as error:
            last = None if (record := self.find(ctx.path)) is None else next(reversed(record.outcomes), None)
            # The last failure may be that of an earlier try: only this very error is on record already.
            if not (isinstance(last, entries.Failure) and last.error is error):
                await self.write_failure(ctx, name, request, error)
            raise
        # An agent has written its result itself, with the end of its run; it must not be written twice.
        if (record := self.find(ctx.path)) is None or record.result is None:
            must_be(value, returns, name, ctx, stored=self.writer is not None)
            await self.write(entries.Result(ctx.path, name, request, value, (), self.watch.elapsed))
        return value

    def next_outcome(self, ctx: Context, record: entries.Record) -> entries.Outcome | None:
        """Return the next outcome to answer with; if the call is made instead, count what it has cost before."""
        outcome = record.answer()
        if outcome is None:
            self._count_recorded(ctx, record)
        return outcome

    async def answer(self, ctx: Context, outcome: entries.Outcome, name: str, request: object, returns: type[R]) -> R:
        """Answer a call with its recorded outcome: compare the requests, count the usage, pass over the calls below."""
        if request is not None:
            await self.compare(ctx, outcome, name, request)
        if (record := self.find(ctx.path)) is not None:
            self._count_recorded(ctx, record, outcome)
        self.skip(ctx, outcome)
        if isinstance(outcome, entries.Failure):
            error = entries.error_of(outcome)
            self._note_error(error, ctx.path, outcome)
            raise error
        try:
            return as_type(outcome.value, returns)
        except errors.JournalCorrupt as error:
            why = f"the result of {ctx.path} ({name}) does not fit its type any more: {error}"
            raise errors.JournalMismatch(why) from error

    async def compare(self, ctx: Context, outcome: entries.Outcome, name: str, request: object, /) -> None:
        """Report how a call differs from its record, if it does; raise if the journal is strict."""
        event = self.diverged(ctx.path, "service", outcome.name, name)
        binding = getattr(request, "must_match", False) and self.mode != "replay"
        if event is None and (binding or self.strict or ctx.listens(Diverged)):  # otherwise nobody would be notified
            recorded, current = entries.fingerprint(outcome.request), entries.fingerprint(request)
            if binding and recorded != current:
                raise self.refuse(
                    f"{ctx.path}: the code calls {request!r:.200}, and the record has {name} with another request "
                    "there: resume with the code as it was"
                )
            own: tuple[str, str, str] | None = None  # what differs, how it was, and how it is now
            if recorded != current and hasattr(request, "compared"):
                own = request.compared(self.compared_with, ctx.path, recorded)
            event = self.diverged(ctx.path, *(own or ("request", recorded, current)))
        if event is not None and ctx.listens(Diverged):
            await ctx.emit(event)

    def diverged(self, path: str, what: str, recorded: str, current: str, /) -> Diverged | None:
        """Return the event that reports a difference, None if there is none; raise if the journal is strict."""
        if recorded == current:
            return None
        if self.strict:
            raise errors.JournalMismatch(f"first divergence at {path}: {what}\n{difference(recorded, current)}")
        return Diverged(path, what, recorded, current)

    def refuse(self, why: str, /) -> errors.JournalMismatch:
        """Return the error of code that does not fit the record; no call is made any more, whoever catches it."""
        self.mismatch, self.refusing = self.mismatch or errors.JournalMismatch(why), True
        return self.mismatch

    # -- calls that are not made -----------------------------------------------------------------------------------

    def begin_call(self, path: str, what: str, /) -> None:
        """Note that a call is made, so that what began to wait before it is written; raise if none is made any more."""
        if self.refusing:
            self.missing(path, what)
        if self.calm and max(self.index.waits(), default=0) > self.stable:
            self._begun = min(self._begun, self.stable)  # with it the run has gone on
            self.settled(flush=True)
        self.calm = False

    def missing(self, path: str, what: str, /) -> None:
        """Raise if no live call is made any more; the call at `path` has no answer on record."""
        if self.mismatch is not None:
            raise self.mismatch
        if self.failed is not None:
            raise self.failed
        if self.incomplete and not self.goes_on_after(path):
            raise errors.RecordEnds("Cancelled")
        if self.mode == "replay":
            if self.breaks_off_at(path, *_CUT_OFF):
                raise errors.RecordEnds(self.last_stop)
            raise NotRecorded(f"replay came to {path} ({what}), which is not in the record")

    # -- failures ------------------------------------------------------------------------------------------------

    async def write_failure(
        self,
        ctx: Context,
        name: str,
        request: object,
        error: BaseException,
        spent: tuple[object, ...] = (),
        run: object = None,
    ) -> None:
        """Record a failed try of a call, and wait until it is durable; a mistake of the caller is no outcome."""
        # A call that was cancelled has none either: only what it has cost is recorded, with the next entry.
        if isinstance(error, failures.NO_OUTCOMES) or not (spent or isinstance(error, Exception)):
            return
        # Noted, or the calls around, which the error passes next, would count its usage once more.
        self._note_error(error, ctx.path)
        if not isinstance(error, Exception):
            if not isinstance(self.failed, errors.LeaseLost) and self.ended is None:
                self.append(entries.Unanswered(ctx.path, name, spent, self.watch.elapsed), hold=True)
            return
        mistake = failures.mistake_in(error) is not None
        await self.write(entries.Failure(ctx.path, name, request, error, spent, self.watch.elapsed, mistake, run))

    def _note_error(self, error: BaseException, path: str, answer: entries.Failure | None = None) -> None:
        # By identity, since equal errors may come from different calls; the error is kept, so its id is not used again.
        self._errors[id(error)] = (error, path, answer)

    def is_known(self, error: BaseException) -> bool:
        """Return whether an error was recorded by this journal, or came from it."""
        return id(error) in self._errors

    def is_from_below(self, path: str, error: BaseException, /) -> bool:
        """Return whether an error came from a recorded call below that at `path`, which has counted what it cost."""
        _, below, _ = self._errors.get(id(error), (error, path, None))
        return below != path and is_beneath(below, path)

    def is_answer(self, error: BaseException, /) -> bool:
        return self._answer_of(error) is not None

    def _answer_of(self, error: BaseException) -> entries.Failure | None:
        return self._errors.get(id(error), (error, "", None))[2]

    # -- costs ---------------------------------------------------------------------------------------------------

    def skip(self, ctx: Context, until: entries.JournalEntry | None = None, *, count_only: bool = False) -> None:
        """Use the outcomes of the calls below this one that were recorded before an entry; they are not made again."""
        # Their usage is counted, and unless `count_only`, their failures are marked as answered.
        for tried in self.index.tries_below(ctx.path, until):
            record = self.find(tried.path)
            if record is not None:
                self._count_recorded(ctx, record, tried)
                if isinstance(tried, entries.Failure) and not count_only:
                    record.cursor = max(record.cursor, record.number(tried))

    def pass_over(self, ctx: Context, /) -> None:
        """Use what is on record of an alternative that was not the one that won, and of the calls below it."""
        if (record := self.find(ctx.path)) is not None:
            self._count_recorded(ctx, record, record.answer())
        self.skip(ctx)

    def _count_recorded(self, ctx: Context, record: entries.Record, tried: entries.Tried | None = None) -> None:
        """Count what a call has cost before: its tries that were withdrawn, and one that is used; each once."""
        # What a try has cost was spent, although its call was made again.
        tries = [*record.withdrawn[record.recounted :]]
        record.recounted = len(record.withdrawn)
        number = 0 if tried is None else record.number(tried)
        if tried is not None and record.counted < number:  # not when it was withdrawn, with number 0
            record.counted = number
            tries.append(tried)
        for each in tries:
            count(ctx, each.name, self.index.costs(each), new=False)

    # -- continuing ----------------------------------------------------------------------------------------------

    def dump(self) -> bytes:
        """Write the record as versioned JSON lines."""
        return b"".join(entries.write_entry(entry) + b"\n" for entry in self.entries)

    @classmethod
    def load(cls, data: bytes, mode: Mode = "resume", *, strict: bool = False, clock: Clock = SYSTEM_CLOCK) -> Self:
        """Read a record that `dump` wrote, to answer calls from it.

        Raises:
            JournalCorrupt: a line cannot be read; the message names it.
        """
        return cls(mode, entries.read_entries(data.splitlines()), strict=strict, clock=clock)

    def reopen(
        self,
        run_id: str,
        at: float,
        decided: Sequence[entries.Decided] = (),
        losses: int = 0,
        alone: bool = False,
    ) -> None:
        """Continue a run that was taken over.

        Time since it stopped does not count, and calls whose failure ended it are made again.
        """
        # What this appends becomes durable together with the next entry: a run that does not go on is left unchanged.
        if self.mode != "replay":
            withdraw_failures(self.entries, self._calls)
        self.watch: Stopwatch = Stopwatch(self.watch.clock, earlier=self._earlier)
        self._given = self._given.union(entry.id for entry in decided)
        for entry in decided:
            self.append(entry, hold=True)
        self.append(entries.Opened("", run_id, SHAPE_VERSION, at, losses=losses, alone=alone), hold=True)
        self._begun = len(self.entries)
        self.calm: bool = self.mode != "replay"


def journal_of(ctx: Context) -> LocalJournal:
    """Return the journal of the run that a context belongs to."""
    journal = ctx.scope.get(JOURNAL)
    if not isinstance(journal, LocalJournal):
        raise errors.ConfigurationError(f"{ctx.path} is not part of a run: call the agent with run() or stream()")
    return journal
