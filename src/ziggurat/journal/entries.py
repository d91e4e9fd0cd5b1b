"""Journal entries, one frozen struct per kind; `Record`, the entries of one call; and views over those of a run."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from msgspec import Struct

from ziggurat.core.codec import Raw, as_type, decode
from ziggurat.core.path import by_paths_above, is_beneath, is_model_call, is_tool_call, name_at, parent_of, upwards


class JournalEntry(Struct, frozen=True, gc=False, tag=True, tag_field="entry"):
    """The base of all entries: something that happened to the call at `path`."""

    path: str

    @property
    def kind(self) -> str:
        """What happened, by the name that is written: ``Result``, ``Failure`` ..."""
        return str(self.__struct_config__.tag)


class Origin(Struct, frozen=True, gc=False):
    """The origin of a forked run."""

    run_id: str
    step: int
    effects: str = "refuse"
    earlier: tuple[str, ...] = ()
    """The runs from which that run was forked itself, the nearest first."""


class Opened(JournalEntry, frozen=True, gc=False):
    """A run was started, or continued in a new process."""

    run_id: str
    version: int
    at: float
    """POSIX seconds."""
    request: object = None
    """The request before any hook; not repeated when the run is continued."""
    forked: Origin | None = None
    """The origin of the run, if it is a fork."""
    labels: object = None
    """Values that the caller attached to the run: a mapping from names to plain values."""
    terms: object = None
    """The conditions that the run was started with and keeps: its grants, its session."""
    losses: int = 0
    """How often in a row the run's process was lost before, without another answer on record."""
    agent: str = ""
    """The name of the agent that the run belongs to; not repeated when the run is continued."""
    alone: bool = False
    """Whether it was continued while its process drove no other run, so that a loss can only be its own doing."""


class Entered(JournalEntry, frozen=True, gc=False):
    """A composite (an agent, a team) was entered; `request` is the request as its hooks returned it."""

    name: str
    request: object
    setup: object = None
    """The configuration of the composite, compared on re-entry: a mapping from names to plain values."""
    elapsed: float = 0.0
    """Seconds of the run's time allowance used when it was entered."""


class Intent(JournalEntry, frozen=True, gc=False):
    """A tool with effects is about to run with exactly this request."""

    name: str
    request: object
    digest: str
    once: str = ""
    """For a tool that acts once only, what is done if its outcome is unknown; empty for others."""


class Returned(JournalEntry, frozen=True, gc=False):
    """The value returned by a tool with ``effect="once"``, before layers and hooks process it."""

    value: object


class Result(JournalEntry, frozen=True, gc=True):
    """The final answer of a call, used whenever the call is repeated."""

    name: str
    request: object
    """The request object in this process; its fingerprint once written and read back."""
    value: object
    spent: tuple[object, ...] = ()
    """The usage of failed and lost tries below this call; the value's own usage is not included."""
    elapsed: float = 0.0
    """Seconds of the run's time allowance used at this point; 0 for a tool in memory that nothing ran beside."""


class PlainResult(Result, frozen=True, gc=False, tag="Result"):
    """The result of a call of a model or a tool, which is plain data. It is written as a `Result`, and read as one."""


class Failure(JournalEntry, frozen=True, gc=True):
    """A failed try of a call, or its failure as a whole (a timeout, a refusal)."""

    name: str
    request: object
    error: object
    spent: tuple[object, ...] = ()
    elapsed: float = 0.0
    mistake: bool = False
    """Whether it is a mistake of the programmer, which ends the outermost run."""
    run: object = None
    """The run of a composite as far as it had come, without what it was asked; None for others."""


class Unanswered(JournalEntry, frozen=True, gc=True):
    """A call was cancelled: it has no outcome and is made again, but it has cost something."""

    name: str
    spent: tuple[object, ...] = ()
    elapsed: float = 0.0
    """Seconds of the run's time allowance used at this point."""


class Pending(JournalEntry, frozen=True, gc=False):
    """A call waits for a decision; `id` is a digest of its path and request."""

    id: str
    name: str
    request: object
    reason: str = ""
    until: float | None = None
    """When the call is denied if there is no decision, in POSIX seconds."""
    elapsed: float = 0.0
    """Seconds of the run's time allowance used when it began to wait."""

    @property
    def asks(self) -> bool:
        """Whether somebody must decide; a timer and an event wait by themselves."""
        return is_tool_call(self.path) or name_at(self.path) not in ("sleep", "event")


class Decided(JournalEntry, frozen=True, gc=False):
    """A decision on a pending call, written before it is carried out; each is used once."""

    id: str
    decision: object
    elapsed: float = 0.0
    """Seconds of the run's time allowance used when it was made; 0 if the run did not work then."""
    worked: dict[str, float] | None = None
    """The seconds that nested agents around the call had worked then, by path, without what others did meanwhile."""
    posted: int = 0
    """The number of the item in the run's inbox that brought it; 0 for none."""
    digest: str = ""
    """That of the arguments as they were changed, which may be masked before they are kept; empty for none."""


class Ended(JournalEntry, frozen=True, gc=True):
    """The run ended; `stop` names the reason."""

    stop: str
    elapsed: float = 0.0
    run: object = None
    """The run as it was returned, if it ended with an error; otherwise it is the result of its agent."""
    interrupted: bool = False
    """Whether the run was cancelled from outside, such as by the end of its process, and not through its handle."""
    due: float | None = None
    """When the run goes on by itself, in POSIX seconds; None for never."""
    waits: tuple[int, ...] | None = None
    """The numbers of the entries with which began what the run waits for; None if it waits for nothing."""


class LossAccepted(JournalEntry, frozen=True, gc=False):
    """Somebody accepted that later entries, which had been acknowledged, were lost: those up to `acknowledged`."""

    acknowledged: int
    at: float
    """POSIX seconds."""


Outcome = Result | Failure

Tried = Outcome | Unanswered

RedactEntry = Callable[[JournalEntry], JournalEntry]
"""Returns an entry without what must not be stored, such as secrets."""


class Record(Struct, eq=False):
    """The entries of the call at one path: failed tries, then perhaps a result, and the steps that led to them."""

    outcomes: list[Outcome] = []
    withdrawn: list[Tried] = []
    """Earlier tries that do not answer the call any more, as it was made again; only what they have cost counts."""
    cursor: int = 0
    counted: int = 0
    """The number of outcomes whose usage was added to the meters of this process."""
    recounted: int = 0
    """The same for what is withdrawn."""
    entered: Entered | None = None
    intent: Intent | None = None
    returned: Returned | None = None
    pending: Pending | None = None
    decided: Decided | None = None

    def add(self, entry: JournalEntry) -> None:
        if isinstance(entry, (Result, Failure)):
            self.outcomes.append(entry)
        elif isinstance(entry, Unanswered):
            self.withdrawn.append(entry)
        elif isinstance(entry, Entered):
            self.entered = entry
        elif isinstance(entry, Intent):
            self.intent = entry
            self.pending = self.decided = None  # the decision is carried out now, and must not be used again
        elif isinstance(entry, Returned):
            self.returned = entry
        elif isinstance(entry, Pending):
            self.pending, self.decided = entry, None
        elif isinstance(entry, Decided):
            self.decided = entry

    def happened(self, entry: JournalEntry) -> None:
        """Add an entry made by this process: its usage is counted already, and its failure needs no answer again."""
        if isinstance(entry, Unanswered):
            self.withdrawn.insert(self.recounted, entry)  # behind it are those that were not counted
            self.recounted += 1
            return
        self.add(entry)
        self.counted = len(self.outcomes)
        if isinstance(entry, Failure):
            self.cursor = self.counted

    def answer(self) -> Outcome | None:
        """Return the next outcome to answer with: each failed try once, in order, then always the result."""
        if self.cursor >= len(self.outcomes):
            return None
        outcome = self.outcomes[self.cursor]
        if isinstance(outcome, Failure):
            self.cursor += 1
        return outcome

    def withdraw(self) -> None:
        """Let no outcome answer the call any more, so that it is made again."""
        self.withdrawn += self.outcomes
        self.outcomes.clear()

    @property
    def tries(self) -> list[Tried]:
        return [*self.withdrawn, *self.outcomes]

    @property
    def waits(self) -> bool:
        return self.pending is not None and self.decided is None and self.result is None

    @property
    def never_began(self) -> bool:
        """Whether the call was cancelled between its intent and its beginning: that was decided without being asked."""
        return self.intent is not None and self.decided is not None and self.pending is None

    @property
    def has_failed(self) -> bool:
        return bool(self.outcomes) and isinstance(self.outcomes[-1], Failure)

    def number(self, outcome: Tried) -> int:
        """Return the position of an outcome, from 1; 0 if it was withdrawn."""
        return next((number for number, known in enumerate(self.outcomes, 1) if known is outcome), 0)

    @property
    def result(self) -> Result | None:
        last = self.outcomes[-1] if self.outcomes else None
        return last if isinstance(last, Result) else None

    @property
    def made(self) -> Result | None:
        """The result, also if the call has ended its agent with a failure after it."""
        return next((outcome for outcome in reversed(self.outcomes) if isinstance(outcome, Result)), None)


R = TypeVar("R")


class _WithUsage(Struct):
    usage: Raw = Raw(b"null")


def _cost_of(tried: Tried) -> list[object]:
    if not isinstance(tried, Result):
        return [*tried.spent]
    if isinstance(tried.value, Raw):
        is_object = bytes(memoryview(tried.value)).startswith(b"{")
        raw = decode(tried.value, _WithUsage).usage if is_object else None
        usage = None if raw is None or bytes(memoryview(raw)) == b"null" else raw
    else:
        usage = getattr(tried.value, "usage", None)
    return [*tried.spent] if usage is None else [*tried.spent, usage]


class Composites:
    """The composites (agents, teams) in the entries of a run; entries added later are looked at when it is asked."""

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self._entries = entries
        self._looked_at = 0  # the number of entries seen
        self._entered: set[str] = set()  # the paths of composites
        self._above: set[str] = set()  # the paths of composites, and of all calls around them
        self._around: set[str] = set()  # the paths of calls that others were made in
        self._first: dict[str, int] = {}  # the index of the first entry at or below each path

    def __contains__(self, path: str) -> bool:
        self._look()
        return path in self._above

    def costs(self, tried: Tried) -> list[object]:
        """Return the usage in a try of a call, with that of lost ones, or the try itself if it has none."""
        # A composite has none, as its parts have it.
        path = tried.path
        composite = path in self and (path in self._entered or not is_model_call(path))
        return (not composite and _cost_of(tried)) or [tried]

    def tries_below(self, path: str, until: JournalEntry | None) -> Iterator[Tried]:
        """Yield the tries of the calls below a path that were recorded before an entry."""
        self._look()
        if path not in self._around:
            return
        for entry in islice(self._entries, self._first[path], None):
            if entry is until:
                return
            if isinstance(entry, (Result, Failure, Unanswered)) and entry.path != path and is_beneath(entry.path, path):
                yield entry

    def _look(self) -> None:
        first, above = self._first, self._above
        for at in range(self._looked_at, len(self._entries)):
            entry = self._entries[at]
            path = entry.path
            while path and path not in first:
                first[path] = at
                path = parent_of(path)
            if isinstance(entry, (Result, Failure, Unanswered)):
                path = parent_of(entry.path)
                while path and path not in self._around:
                    self._around.add(path)
                    path = parent_of(path)
            if isinstance(entry, Entered):
                path = entry.path
                self._entered.add(path)
                while path and path not in above:
                    above.add(path)
                    path = parent_of(path)
        self._looked_at = len(self._entries)


class Acts:
    """The acts in the entries of a run; entries added later are looked at when it is asked."""

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


class Durations:
    """The seconds that composites (agents, teams) have worked; entries added later are read when it is asked."""

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self._entries = entries
        self._read = 0  # the number of entries read
        self._run = self._began = 0.0  # the time of the run, at the last entry and when its last process began
        self._worked: dict[str, float] = {}  # by the path of each composite
        self._last: dict[str, float] = {}  # the time of the run up to which that counts, in the last process

    def of(self, path: str) -> float:
        """Return the seconds that the composite at `path` has worked so far; 0 if there is none."""
        for entry in islice(self._entries, self._read, None):
            self._add(entry)
        self._read = len(self._entries)
        return self._worked.get(path, 0.0)

    def _add(self, entry: JournalEntry) -> None:
        elapsed: float = getattr(entry, "elapsed", 0.0)
        self._run = max(self._run, elapsed)
        if isinstance(entry, Opened):
            self._began = self._run
            self._last.clear()
        elif isinstance(entry, Entered) and entry.path not in self._worked:
            self._worked[entry.path], self._last[entry.path] = 0.0, elapsed
        measured = (entry.worked if isinstance(entry, Decided) else None) or {}
        for path in upwards(entry.path) if elapsed else ():
            if path in self._worked:
                since = max(0.0, elapsed - self._last.get(path, self._began))
                self._worked[path] = measured.get(path, self._worked[path] + since)
                self._last[path] = elapsed


class Waits:
    """The calls in the entries of a run that wait for a decision.

    A wait in a part of a group that was not needed is over with the group, although nothing was decided; one that the
    code of today did not come to is over with the end of the run.
    """

    def __init__(self, entries: Sequence[JournalEntry], find: Callable[[str], Record | None]) -> None:
        self._entries = entries
        self._find = find
        self._among = -1  # the number of entries of which `_at` is made
        self._at: Mapping[str, list[Pending]] = {}  # those at and below each path

    def numbered(self) -> dict[int, Pending]:
        """Return them by the numbers of their entries, in the order in which they started waiting."""
        numbered: dict[int, Pending] = {}
        start = len(self._entries)
        while start and not (isinstance(entry := self._entries[start - 1], Ended) and entry.waits is not None):
            start -= 1
        if start and isinstance(ended := self._entries[start - 1], Ended):  # what waited before is over, or in there
            waits = ((each, self._entries[each - 1]) for each in ended.waits or ())
            numbered = {each: wait for each, wait in waits if isinstance(wait, Pending)}
        for number, entry in enumerate(self._entries[start:], start + 1):
            if isinstance(entry, Pending):
                numbered[number] = entry
            elif numbered and isinstance(entry, Result):
                numbered = {each: wait for each, wait in numbered.items() if not is_beneath(wait.path, entry.path)}
        return {number: entry for number, entry in numbered.items() if self._lasts(entry)}

    def of(self, ids: Collection[str]) -> tuple[int, ...]:
        """Return the numbers of the entries with which calls of these ids last began to wait."""
        numbers = {entry.id: number for number, entry in enumerate(self._entries, 1) if isinstance(entry, Pending)}
        return tuple(sorted(numbers[each] for each in ids if each in numbers))

    def at(self, path: str = "") -> list[Pending]:
        """Return those at and below a path, in the order in which they started waiting; all of them by default."""
        if self._among != len(self._entries):
            self._among = len(self._entries)
            self._at = by_paths_above((entry.path, entry) for entry in self.numbered().values())
        return self._at.get(path, [])

    def _lasts(self, entry: Pending) -> bool:
        record = self._find(entry.path)
        return record is not None and record.waits and record.pending is entry


def flows_in(entries: Iterable[JournalEntry]) -> frozenset[str]:
    """Return the paths of the composites that are flows: programs that call one thing after the other."""
    return frozenset(path for path, setup in _setups_in(entries) if "flow" in setup)


def _setups_in(entries: Iterable[JournalEntry]) -> Iterator[tuple[str, Mapping[object, object]]]:
    """Yield the paths of composites, and what is recorded of how each is set up."""
    for entry in entries:
        if isinstance(entry, Entered) and isinstance(setup := as_type(entry.setup, object), dict):
            yield entry.path, setup


def _handled_failures(entries: Sequence[JournalEntry]) -> set[int]:
    """Return the ids of the failures after which a flow around them has made other calls, so that it knows of them."""
    setups = {path: setup for path, setup in _setups_in(entries) if "flow" in setup}
    handled: set[int] = set()
    if not setups:
        return handled
    went_on: dict[str, bool] = {}  # for each call that has failed as a whole, whether its flow went on then
    later: dict[str, set[str]] = {}  # of each flow, up to two of the calls in it that come later
    for entry in reversed(entries):
        if not isinstance(entry, (Entered, Failure, Intent, Pending, Result)):
            continue
        call, flow = entry.path, parent_of(entry.path)
        while flow:
            if flow in setups:
                calls = later.setdefault(flow, set())
                if isinstance(entry, Failure):
                    if call == entry.path:
                        went_on[call] = bool(calls - {call})
                    if went_on.get(call, bool(calls - {call})) and _may_go_on(setups[flow], call, entry):
                        handled.add(id(entry))
                if len(calls) < 2:
                    calls.add(call)
            call, flow = flow, parent_of(flow)
    return handled


def _may_go_on(setup: Mapping[object, object], call: str, failure: Failure) -> bool:
    """Return whether a flow that is set up so may go on after a failure in a call: a team, plan or graph not always."""
    if failure.mistake:
        return setup.keys() <= {"flow", "input"}
    node = call.rpartition("/")[2].partition("#")[0]
    return "graph" not in setup or node in str(setup.get("tolerant", "")).split(", ")


BROKEN_OFF = frozenset({"Failed", "Denied", "BudgetExceeded", "Timeout"})
"""The stops after which the call that ended the run is made again when the run is resumed."""


def withdraw_failures(entries: Sequence[JournalEntry], records: dict[str, Record]) -> None:
    """Withdraw the failures that ended a run, so that their calls are made again."""
    answered = {path for path, record in records.items() if record.result is not None}
    for path in answered:
        if not parent_of(path):
            records[path].withdraw()  # the agent's own, such as a run that stopped at a budget: it goes on now
    failed = {path: record for path, record in records.items() if record.has_failed}
    decided = {parent_of(path) for path in answered if _is_alternative(path)}
    handled = _handled_failures(entries) if failed else set()
    for path, record in failed.items():
        if id(record.outcomes[-1]) in handled:
            continue
        at = path
        while at and parent_of(at) not in answered and not (_is_alternative(at) and parent_of(at) in decided):
            at = parent_of(at)
        if not at:
            record.withdraw()  # with a result before the failure, if its run failed because of it


def _is_alternative(path: str) -> bool:
    """Return whether `path` is that of one of a combinator's alternatives, such as ``alt-1``."""
    return path.rpartition("/")[2].startswith("alt-")
