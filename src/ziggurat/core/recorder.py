"""The base class of all journals: answers a call from the record, or makes it and records it.

A journal only finds and stores entries; the rest is here. Recording, resuming and replaying are one mechanism in
three modes: `record` and `resume` answer recorded calls and make the others; `replay` makes no calls and raises if
the record has no answer.
"""

__all__ = ["ADMISSION", "Admission", "Mode", "Permit", "Recorder", "must_be"]

from asyncio import Future
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Literal, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import force_setattr

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.codec import Raw, as_type, decode
from ziggurat.core.containment import contained
from ziggurat.core.context import METER, Context
from ziggurat.core.entries import Entered, Entry, Failure, Outcome, Record, Result, Screen
from ziggurat.core.errors import ConfigurationError, JournalCorrupt, JournalMismatch
from ziggurat.core.event import Diverged, difference
from ziggurat.core.json_lines import as_error, fingerprint
from ziggurat.core.path import is_beneath, parent_of
from ziggurat.core.scope import Key

Q = TypeVar("Q")
R = TypeVar("R")

Mode = Literal["record", "resume", "replay"]


class Permit(Protocol):
    """A reservation for one live call."""

    def settle(self, usage: Iterable[object], /) -> None:
        """Replace the reservation by the actual usage of the call."""
        ...


class Admission(Protocol):
    """Decides whether a live call may be made: a budget, for instance."""

    def admit(self, request: object, ctx: Context, name: str, /) -> Permit:
        """Reserve for the call of the service `name`.

        Raises:
            LimitExceeded: the call is refused; the refusal is recorded, and replay repeats it.
        """
        ...


ADMISSION = Key[tuple[Admission, ...]]("admission")


class _WithUsage(Struct):
    """Decodes only the usage of a recorded value."""

    usage: Raw = Raw(b"null")


def _cost_of(outcome: Result | Failure) -> list[object]:
    """Return the usage in an outcome: of failed and lost tries, and of its value."""
    if isinstance(outcome, Failure):
        return [*outcome.spent]
    if isinstance(outcome.value, Raw):
        is_object = bytes(memoryview(outcome.value)).startswith(b"{")
        raw = decode(outcome.value, _WithUsage).usage if is_object else None
        usage = None if raw is None or bytes(memoryview(raw)) == b"null" else raw
    else:
        usage = getattr(outcome.value, "usage", None)
    return [*outcome.spent] if usage is None else [*outcome.spent, usage]


def must_be(value: object, returns: type, name: str, ctx: Context) -> None:
    """Raise ConfigurationError unless the answer of a call has the type `returns`."""
    if not isinstance(value, returns):
        raise ConfigurationError(
            f"{name} at {ctx.path} must answer with a {returns.__name__}, it did with {type(value).__name__}"
        )


class Recorder:
    """The base of all journals: a subclass defines `find`, `paths` and `append`.

    Args:
        mode: Whether calls without a record are made (`record`, `resume`) or refused (`replay`).
        strict: Raise on a request that differs from the recorded one, rather than emit `Diverged`.
        clock: Measures the run's time allowance.
    """

    __slots__ = (
        "_charges", "_composite", "_elapsed", "_looked_at", "_mark", "_monotonic", "_readers", "_reading", "_screens",
        "_since", "durable", "entries", "known", "mode", "refusing", "reopened", "replaying", "strict",
    )  # fmt: skip

    def __init__(self, mode: Mode = "record", *, strict: bool = False, clock: Clock = SYSTEM_CLOCK) -> None:
        self.mode = mode
        self.replaying = self.refusing = mode == "replay"
        self.strict = strict or mode == "replay"
        self.durable = False
        self.entries: list[Entry] = []
        self.known: dict[str, Entry | list[Entry] | Record] | None = None  # entries by path, once built
        self._monotonic = clock.monotonic
        self._since = clock.monotonic()
        self._elapsed = 0.0
        self._composite: set[str] | None = None
        self._looked_at = 0  # the number of entries searched for composites
        self._charges: list[tuple[str, object]] | None = None
        self._mark: object | None = None  # set on errors that this journal has recorded
        self._screens: dict[str, tuple[Screen, ...]] | None = None
        self._readers: deque[Future[None]] | None = None
        self._reading = False  # while entries written before are read in
        self.reopened = False  # whether it has entries from before the run was continued

    def find(self, path: str, /) -> Record | None:
        """Return the record of the call at `path`, or None."""
        raise NotImplementedError

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all recorded calls."""
        raise NotImplementedError

    def append(self, entry: Entry, /) -> Awaitable[None] | None:
        """Record an entry; if an awaitable is returned, await it before acting on the entry."""
        raise NotImplementedError

    def screen(self, path: str, screen: Screen, /) -> None:
        """Apply `screen` from now on to each entry at or below `path`, before the entry is stored anywhere."""
        if self._screens is None:
            self._screens = {}
        if screen not in self._screens_of(path):
            self._screens[path] = (*self._screens.get(path, ()), screen)

    def _screens_of(self, path: str) -> Iterable[Screen]:
        """Yield the screens for entries at a path, those registered at the deepest path first."""
        while self._screens is not None:
            yield from self._screens.get(path, ())
            if not path:
                return
            path = parent_of(path)

    def screened(self, entry: Entry, /) -> Entry:
        """Return an entry after all screens for its path were applied; every journal's `append` stores only this.

        Screens registered at deeper paths are applied first.
        """
        for screen in self._screens_of(entry.path):
            entry = screen(entry)
        return entry

    @property
    def original(self) -> Sequence[Entry]:
        """The entries with which differing requests are compared."""
        return self.entries

    @property
    def elapsed(self) -> float:
        """Seconds of the run's time allowance used, in this process and all before; waiting for people excluded."""
        return self._elapsed + self._monotonic() - self._since

    def missing(self, path: str, what: str, /) -> None:
        """Raise JournalMismatch in `replay`, because the record has no answer for this call."""
        if self.mode == "replay":
            raise JournalMismatch(f"replay came to {path} ({what}), which the record does not hold")

    def diverged(self, path: str, what: str, recorded: str, asked: str, /) -> Diverged | None:
        """Return the event that reports a difference, None if there is none; raise if the journal is strict."""
        if recorded == asked:
            return None
        if self.strict:
            raise JournalMismatch(f"first divergence at {path}: {what}\n{difference(recorded, asked)}")
        return Diverged(path, what, recorded, asked)

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
        """Answer the call from the record, or check admission, make it and record it."""
        record = self.find(ctx.path)
        if record is not None:
            outcome = record.answer()
            if outcome is not None and (record.entered is None or isinstance(outcome, Failure)):
                return await self._answer_from_record(ctx, name, request, outcome, returns, composite)
        if composite:
            return await self._call_composite(ctx, name, request, call)
        if self.refusing:
            self.missing(ctx.path, name)
        permits: list[Permit] | None = None
        force_setattr(ctx, "_beneath", True)
        try:
            admission = ctx.scope.get(ADMISSION)
            if admission is not None:
                permits = []
                for each in admission:
                    permits.append(each.admit(request, ctx, name))
            value = await call(request, ctx)
            if value.__class__ is not returns:
                must_be(value, returns, name, ctx)
        except BaseException as raised:  # noqa: BLE001 - raised again
            error = contained(raised)
            await self._record_error(ctx, name, request, error, permits)
            raise error  # noqa: B904 - it has its cause already
        finally:
            force_setattr(ctx, "_beneath", False)  # the context may be used for another call
        elapsed = self._elapsed + self._monotonic() - self._since
        kept = getattr(request, "kept", request)
        usage = getattr(value, "usage", None)
        alone = permits is None and self._charges is None
        spent = () if alone else tuple(self._take_charges(ctx.path))
        waiting = self.append(Result(ctx.path, name, kept, value, spent, elapsed))
        if waiting is not None:
            await waiting
        if not alone:
            self._settle(ctx, permits, spent if usage is None else (*spent, usage))
            return value
        meter = ctx.scope.get(METER)
        if meter is not None:
            meter.add(usage)
        return value

    async def _record_error(
        self, ctx: Context, name: str, request: object, error: BaseException, permits: list[Permit] | None
    ) -> None:
        """Settle a call that failed, and record its failure."""
        waiting = self._settle_error(ctx, name, request, error, permits)
        if waiting is not None:
            await waiting

    def _settle_error(
        self, ctx: Context, name: str, request: object, error: BaseException, permits: list[Permit] | None
    ) -> Awaitable[None] | None:
        """Settle a call that failed, and append its failure; a cancelled call has none."""
        if not isinstance(error, Exception):
            self._settle(ctx, permits, self._take_charges(ctx.path))
            return None
        spent = self._take_charges(ctx.path, getattr(error, "usage", None))
        self._settle(ctx, permits, spent)
        return self._record_failure(Failure(ctx.path, name, request, error, tuple(spent), self.elapsed), error)

    def charge(self, path: str, usage: object, /) -> None:
        """Keep the usage of a failed or lost try at `path`, for the record of the call it is a part of."""
        if self._charges is None:
            self._charges = []
        self._charges.append((path, usage))

    def _take_charges(self, path: str, usage: object | None = None) -> list[object]:
        """Remove and return the usage charged at and below a call, followed by the call's own."""
        charges = self._charges or []
        taken = [cost for at, cost in charges if is_beneath(at, path)]
        self._charges = [(at, cost) for at, cost in charges if not is_beneath(at, path)] or None
        return taken if usage is None else [*taken, usage]

    async def _call_composite(
        self, ctx: Context, name: str, request: Q, call: Callable[[Q, Context], Awaitable[R]]
    ) -> R:
        """Call a composite, and record its outcome unless it has recorded that itself."""
        try:
            value = await call(request, ctx)
        except Exception as error:
            record = self.find(ctx.path)
            if record is None or not record.outcomes or getattr(record.outcomes[-1], "error", None) is not error:
                waiting = self._record_failure(Failure(ctx.path, name, request, error, (), self.elapsed), error)
                if waiting is not None:
                    await waiting
            raise
        record = self.find(ctx.path)
        if record is None or record.result is None:
            waiting = self.append(Result(ctx.path, name, request, value, (), self.elapsed))
            if waiting is not None:
                await waiting
        return value

    def pass_over(self, outcome: Result | Failure, /) -> list[object]:
        """Use a recorded outcome for its call and all calls below it; return the usage not counted yet.

        The list has the usage of each call, or its outcome if it has no usage. The calls below will not be made
        again, so failures recorded there before the outcome are marked as answered.
        """
        record = self.find(outcome.path)
        spent = [] if record is None else self._take_uncounted(record, outcome)
        if outcome.path not in self._composites():
            return spent
        for entry in self.entries:
            if entry is outcome:
                break
            if not isinstance(entry, (Result, Failure)) or not is_beneath(entry.path, outcome.path):
                continue
            record = self.find(entry.path)
            if record is None or entry.path == outcome.path:
                continue
            spent.extend(self._take_uncounted(record, entry))
            if isinstance(entry, Failure):
                record.cursor = max(record.cursor, record.number(entry))
        return spent

    def _take_uncounted(self, record: Record, outcome: Result | Failure) -> list[object]:
        """Return the usage of an outcome unless it was counted before; for a composite, its parts have the usage."""
        number = record.number(outcome)
        if record.counted >= number:  # also when it was removed, with number 0
            return []
        record.counted = number
        cost = [] if outcome.path in self._composites() else _cost_of(outcome)
        return cost or [outcome]

    def _composites(self) -> set[str]:
        """Return the paths at or below which a composite was entered."""
        composite = self._composite
        if composite is None:
            composite = self._composite = set()
        for at in range(self._looked_at, len(self.entries)):
            entry = self.entries[at]
            if isinstance(entry, Entered):
                path = entry.path
                while path and path not in composite:
                    composite.add(path)
                    path = parent_of(path)
        self._looked_at = len(self.entries)
        return composite

    def failed(self, path: str, name: str, request: object, error: Exception, spent: tuple[object, ...] = ()) -> None:
        """Record a failed call; an error that this journal recorded already is not recorded again."""
        if self._mark is None or vars(error).get("_recorded") is not self._mark:
            self._record_failure(Failure(path, name, request, error, spent, self.elapsed), error)

    def _record_failure(self, failure: Failure, error: Exception) -> Awaitable[None] | None:
        waiting = self.append(failure)
        self._mark = self._mark or object()
        vars(error)["_recorded"] = self._mark  # not by setattr(), which a frozen dataclass forbids
        return waiting

    @staticmethod
    def _settle(ctx: Context, permits: list[Permit] | None, spent: Sequence[object]) -> None:
        for permit in permits or ():
            permit.settle(spent)
        meter = ctx.scope.get(METER)
        if meter is not None:
            for usage in spent:
                meter.add(usage)

    async def _answer_from_record(
        self,
        ctx: Context,
        name: str,
        request: object,
        outcome: Result | Failure,
        returns: type[R],
        composite: bool,
    ) -> R:
        event = self.diverged(ctx.path, "service", outcome.name, name)
        if event is None and (self.strict or ctx.listens(Diverged)):  # else nobody would be notified
            was = outcome.request
            recorded = decode(was, str) if isinstance(was, Raw) else fingerprint(was)
            asked = fingerprint(request)
            if recorded != asked:
                event = self.diverged(ctx.path, *self._difference_of(ctx.path, request, recorded, asked))
        if event is not None and ctx.listens(Diverged):
            await ctx.emit(event)
        spent = self.pass_over(outcome)
        if isinstance(outcome, Failure):
            self._settle(ctx, [], spent)
            error = as_error(outcome.error)
            self._mark = self._mark or object()
            vars(error).update(_recorded=self._mark, _answered=True)  # _answered: retry does not pause after it
            raise error
        try:
            value = as_type(outcome.value, returns)
        except JournalCorrupt as error:
            raise JournalCorrupt(f"the result of {ctx.path} ({name}): {error}") from error
        self._settle(ctx, [], spent)
        return value

    def _difference_of(self, path: str, request: object, recorded: str, asked: str) -> tuple[str, str, str]:
        """Return what differs and both sides as text: the request's own `compared()` if possible, else fingerprints."""
        own: Callable[[Sequence[Entry], str, str], tuple[str, str, str] | None] | None
        own = getattr(request, "compared", None)
        return (None if own is None else own(self.original, path, recorded)) or ("request", recorded, asked)

    # -- what calls have cost ------------------------------------------------------------------------------------

    def spent(self, path: str, /) -> list[tuple[Outcome, list[object]]]:
        """Return every recorded try at or below `path` with its usage; a composite has none, its parts have it."""
        composites = self._composites()
        spent: list[tuple[Outcome, list[object]]] = []
        for known in self.paths():
            record = self.find(known) if is_beneath(known, path) else None
            for outcome in () if record is None else record.outcomes:
                spent.append((outcome, [] if known in composites else _cost_of(outcome)))
        return spent
