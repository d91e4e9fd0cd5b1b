"""Journal entries, one frozen struct per kind, and `Record`, the entries of one call taken together."""

from collections.abc import Callable

from msgspec import Struct

from ziggurat.core.path import is_tool_call, name_at


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
        """Add an entry."""
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
        """All tries, those withdrawn first."""
        return [*self.withdrawn, *self.outcomes]

    @property
    def waits(self) -> bool:
        """Whether a decision is missing."""
        return self.pending is not None and self.decided is None and self.result is None

    @property
    def never_began(self) -> bool:
        """Whether the call was cancelled between its intent and its beginning: that was decided without being asked."""
        return self.intent is not None and self.decided is not None and self.pending is None

    @property
    def has_failed(self) -> bool:
        """Whether the last try failed."""
        return bool(self.outcomes) and isinstance(self.outcomes[-1], Failure)

    def number(self, outcome: Tried) -> int:
        """Return the position of an outcome, from 1; 0 if it was withdrawn."""
        return next((number for number, known in enumerate(self.outcomes, 1) if known is outcome), 0)

    @property
    def result(self) -> Result | None:
        """The result, if there is one."""
        last = self.outcomes[-1] if self.outcomes else None
        return last if isinstance(last, Result) else None

    @property
    def made(self) -> Result | None:
        """The result, also if the call has ended its agent with a failure after it."""
        return next((outcome for outcome in reversed(self.outcomes) if isinstance(outcome, Result)), None)
