"""Directory: who can do what, and how well it is."""

from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr, replace

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.settings import CheckedStruct, NonEmptyText, NonNegativeFloat, Seconds, checked

Health = Literal["healthy", "degraded", "unhealthy", "unknown"]
"""How well somebody in a directory is. Degraded counts 0.6 times as much; unhealthy and unknown count nothing."""

Tags = Annotated[Iterable[str], Meta(title="list of texts")]

_WEIGHTS: dict[Health, float] = {"healthy": 1.0, "degraded": 0.6, "unhealthy": 0.0, "unknown": 0.0}


class Capability(CheckedStruct, frozen=True):
    """Something that somebody can do; who can do several things has several, each with its own tags and limits.

    Attributes:
        tags: What it is about, in any order.
        name, description: For those who read a match.
        latency: How long it usually takes, in seconds; None if that is unknown.
        cost: What a call usually costs, in any unit; None if that is unknown.
    """

    tags: Tags = ()
    name: str = ""
    description: str = ""
    latency: NonNegativeFloat | None = None
    cost: NonNegativeFloat | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "tags", frozenset(self.tags))


class Registration(Struct, frozen=True):
    """Somebody in a directory; `seen` is its registration or last heartbeat, in seconds of the clock's `monotonic`."""

    name: str
    capabilities: tuple[Capability, ...]
    value: object = None
    health: Health = "healthy"
    seen: float = 0.0


class Match(Struct, frozen=True):
    """A capability that fits a query, who has it, and how well it fits, from 0 to 1."""

    registration: Registration
    capability: Capability
    score: float

    @property
    def name(self) -> str:
        """The name that is registered."""
        return self.registration.name


class Directory:
    """Finds agents, or anything else, by what they can do::

        directory = Directory(ttl=30)
        directory.register("coder", Capability(["python", "sql"], latency=2.0), value=coder)
        best = directory.query(["python"], preferred=["fast"])[0].registration.value

    A registration counts as fresh for `ttl` seconds without a heartbeat; `evict` removes the others.
    """

    @checked
    def __init__(self, ttl: Seconds = 60.0, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.ttl = ttl
        self._clock = clock
        self._entries: dict[str, Registration] = {}

    @checked
    def register(self, name: NonEmptyText, *capabilities: Capability, value: object = None) -> Registration:
        """Add somebody, in place of an earlier registration of this name.

        Without capabilities it is found by queries that require nothing. The value, such as the agent, is kept with it.

        Raises:
            ConfigurationError: the name is empty, or something is no capability.
        """
        self._entries.pop(name, None)
        entry = Registration(name, capabilities or (Capability(),), value, "healthy", self._clock.monotonic())
        self._entries[name] = entry
        return entry

    def deregister(self, name: str) -> None:
        """Remove somebody, if it is there."""
        self._entries.pop(name, None)

    def heartbeat(self, name: NonEmptyText, health: Health = "healthy") -> None:
        """Note how well somebody is, and that it is there; no effect for an unknown name."""
        entry = self._entries.get(name)
        if entry is not None:
            self._entries[name] = replace(entry, health=health, seen=self._clock.monotonic())

    def evict(self) -> tuple[str, ...]:
        """Remove who has not been seen for `ttl` seconds, and return their names; until then they are found."""
        now = self._clock.monotonic()
        stale = tuple(name for name, entry in self._entries.items() if now - entry.seen >= self.ttl)
        for name in stale:
            del self._entries[name]
        return stale

    def query(
        self,
        required: Tags = (),
        *,
        preferred: Tags = (),
        max_latency: NonNegativeFloat | None = None,
        max_cost: NonNegativeFloat | None = None,
    ) -> list[Match]:
        """Return the capabilities with all that is required, the best first; of equals, what was registered first.

        The score is the similarity of Jaccard of the tags of one capability and all tags of the query, times the weight
        of the health of who has it. Who has several that fit is in several matches. What is known to take longer than
        `max_latency` seconds, or to cost more than `max_cost`, is left out.
        """
        needs = frozenset(required)
        tags = needs | frozenset(preferred)
        matches = [
            Match(entry, each, _jaccard(frozenset(each.tags), tags) * _WEIGHTS[entry.health])
            for entry in self._entries.values()
            for each in entry.capabilities
            if needs.issubset(each.tags) and _within(each.latency, max_latency) and _within(each.cost, max_cost)
        ]
        return sorted(matches, key=lambda match: -match.score)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __repr__(self) -> str:
        return f"Directory({', '.join(self._entries)})"


def _within(value: float | None, limit: float | None) -> bool:
    return value is None or limit is None or value <= limit


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one | other else 0.0
