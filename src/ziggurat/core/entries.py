"""Journal entries: one frozen record per thing that happened, and the record of one call made of them."""

__all__ = [
    "LABELS",
    "Decided",
    "Ended",
    "Entered",
    "Entry",
    "Failure",
    "Intent",
    "Opened",
    "Origin",
    "Outcome",
    "Pending",
    "Record",
    "Result",
    "Returned",
    "Screen",
]

from collections.abc import Callable, Mapping

from msgspec import Struct

from ziggurat.core.scope import Key


class Entry(Struct, frozen=True, gc=False, tag=True, tag_field="entry"):
    """Something that happened to the call at `path`.

    Entries are not looked at by the garbage collector: a process with thousands of runs holds many of them, and
    nothing that is recorded refers back to the journal, but for failures, by their tracebacks: those are looked at.
    """

    path: str


class Origin(Struct, frozen=True, gc=False):
    """Where a forked run comes from.

    Attributes:
        run_id: The run whose record it began with.
        step: The first step of that run that is not in it.
        effects: What becomes of calls with side effects.
    """

    run_id: str
    step: int
    effects: str = "refuse"


class Opened(Entry, frozen=True, gc=False):
    """A run began, or went on in a new process."""

    run_id: str
    version: int
    at: float
    """POSIX seconds."""
    request: object = None
    """What was asked, before any hook; where the run goes on it is not said again."""
    forked: Origin | None = None
    """Where the run comes from, if it is a fork."""
    labels: object = None
    """What whoever began the run wanted to be kept with it: a mapping from names to plain values."""
    terms: object = None
    """What the run was begun under and goes on under: its grants, its session."""


class Entered(Entry, frozen=True, gc=False):
    """A composite (an agent, a team) was entered; `request` is what its hooks left of the request."""

    name: str
    request: object
    setup: object = None
    """What the composite was made of, compared on re-entry: a mapping from names to plain values."""
    elapsed: float = 0.0
    """Seconds of the run's allowance used up when it was entered."""


class Intent(Entry, frozen=True, gc=False):
    """A tool with effects is about to run with exactly this request."""

    name: str
    request: object
    digest: str


class Returned(Entry, frozen=True, gc=False):
    """What a tool that acts once has returned, before layers and hooks had their say."""

    value: object


class Result(Entry, frozen=True, gc=False):
    """A call's answer: from now on it is this, whoever asks."""

    name: str
    request: object
    """The request by reference while it lives here, its fingerprint once written."""
    value: object
    spent: tuple[object, ...] = ()
    """What failed and lost tries below it have cost, besides the value's own usage."""
    elapsed: float = 0.0
    """Seconds of the run's allowance used up when this was written; 0 for a tool's in memory: its model's tells."""


class Failure(Entry, frozen=True, gc=True):
    """A try of a call that failed, or a verdict on it (a timeout, a refusal)."""

    name: str
    request: object
    error: object
    spent: tuple[object, ...] = ()
    elapsed: float = 0.0


class Pending(Entry, frozen=True, gc=False):
    """A call waits for a decision; `id` is a digest of its path and frozen request."""

    id: str
    name: str
    request: object
    reason: str = ""
    until: float | None = None
    """When it is denied unless somebody has decided, in POSIX seconds."""


class Decided(Entry, frozen=True, gc=False):
    """A decision on a pending call, written before it is acted on; each counts once."""

    id: str
    decision: object


class Ended(Entry, frozen=True, gc=False):
    """The run came to an end here, for the reason that `stop` names."""

    stop: str
    elapsed: float = 0.0


Outcome = Result | Failure

LABELS = Key[Mapping[str, object]]("labels")
"""Plain values to be kept with a stored run from its beginning: ``run(..., deps={LABELS: {"asked by": "ada"}})``."""

Screen = Callable[[Entry], Entry]
"""Returns an entry as it may be kept, without what must not be written down."""


class Record(Struct, eq=False):
    """What is known of the call at one path: tries that failed, then perhaps a result, and what led to them."""

    outcomes: list[Outcome] = []
    cursor: int = 0
    counted: int = 0
    """How many outcomes have been added to the meters of this process."""
    entered: Entered | None = None
    intent: Intent | None = None
    returned: Returned | None = None
    pending: Pending | None = None
    decided: Decided | None = None

    def add(self, entry: Entry) -> None:
        """Take in an entry."""
        if isinstance(entry, (Result, Failure)):
            self.outcomes.append(entry)
        elif isinstance(entry, Entered):
            self.entered = entry
        elif isinstance(entry, Intent):
            self.intent = entry
            self.pending = self.decided = None  # what was decided is carried out from here on, and counts no more
        elif isinstance(entry, Returned):
            self.returned = entry
        elif isinstance(entry, Pending):
            self.pending, self.decided = entry, None
        elif isinstance(entry, Decided):
            self.decided = entry

    def happened(self, entry: Entry) -> None:
        """Take in an entry that happened in this process, where it was counted and a try that failed was seen."""
        self.add(entry)
        self.counted = len(self.outcomes)
        if isinstance(entry, Failure):
            self.cursor = self.counted

    def answer(self) -> Outcome | None:
        """Return the next outcome to answer with: each failed try once, in order, then the result forever."""
        if self.cursor >= len(self.outcomes):
            return None
        outcome = self.outcomes[self.cursor]
        if isinstance(outcome, Failure):
            self.cursor += 1
        return outcome

    @property
    def waits(self) -> bool:
        """Whether a decision is missing."""
        return self.pending is not None and self.decided is None and self.result is None

    @property
    def has_failed(self) -> bool:
        """Whether the last try failed."""
        return bool(self.outcomes) and isinstance(self.outcomes[-1], Failure)

    def number(self, outcome: Outcome) -> int:
        """Return which of the outcomes this is, from 1; 0 for one that was forgotten."""
        return next((number for number, known in enumerate(self.outcomes, 1) if known is outcome), 0)

    @property
    def result(self) -> Result | None:
        """The result, if there is one."""
        last = self.outcomes[-1] if self.outcomes else None
        return last if isinstance(last, Result) else None
