"""Cause: what a point in a graph's run follows from; the state there is the fold of all updates that led to it.

The points of a run form a graph without circles. Where branches meet, the state of the first branch takes up the
updates of the others that it does not have yet, in declared order, so it does not depend on which ended first.
"""

__all__ = ["Cause", "Token", "Update", "joined"]

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import Any

from msgspec import Struct

from ziggurat.core.codec import canonical
from ziggurat.core.errors import JournalCorrupt
from ziggurat.plans.state import StateType, Values


class Update:
    """What a node has returned, as it is recorded: its changes of the state, and which edges are taken then.

    Attributes:
        changes: By field; a map has one mapping for each item.
        to: The nodes that the node's route has chosen.
        raw: Whether the values are plain data, as read from a record.
    """

    __slots__ = ("changes", "raw", "state_type", "to")

    def __init__(
        self, changes: Sequence[Values], to: Sequence[str] = (), state_type: StateType | None = None, raw: bool = False
    ) -> None:
        self.changes: Sequence[Values] = changes
        self.to: Sequence[str] = to
        self.state_type: StateType | None = state_type
        self.raw: bool = raw

    def to_json(self) -> dict[str, object]:
        """Return it as it is recorded."""
        return {"changes": self.content, "to": self.to} if self.to else {"changes": self.content}

    @property
    def content(self) -> Sequence[Mapping[str, object]]:
        """The changes as values that have a JSON form."""
        if self.state_type is None or not self.state_type.dumps:
            return self.changes
        dumps = self.state_type.dumps
        return [
            {name: dumps[name].plain(value) if name in dumps else value for name, value in each.items()}
            for each in self.changes
        ]

    @classmethod
    def from_json(cls, value: Any) -> "Update":
        """Return a recorded one, whose values are plain data until `typed`."""
        return cls(value["changes"], value.get("to", ()), raw=True)

    def typed(self, state_type: StateType, path: str) -> "Update":
        """Return it with the values in the types of their fields.

        Raises:
            JournalCorrupt: a recorded value does not fit.
        """
        if not self.raw:
            return self
        fields = state_type.fields
        try:
            changes = [
                {name: fields[name].parameter.restore(value) for name, value in each.items()} for each in self.changes
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise JournalCorrupt(
                f"the update recorded at {path} does not fit {state_type.name} as it is now: {error!r}"
            ) from error
        return Update(changes, self.to, state_type)

    def __repr__(self) -> str:
        return f"Update({', '.join(map(repr, self.changes))})"


class Cause:
    """A point in a graph's run: the start, the end of a node, or where branches meet.

    It is also the request of the node that comes next, compared with the record by a digest of all that led here; that
    is made from those of the points before, so its cost does not grow with the state.

    Attributes:
        parents: The points that it follows from directly, in declared order.
        name: The node that has ended; empty where branches meet.
        update: The update of the node.
        depth: One more than that of the deepest parent.
    """

    __slots__ = ("_digest", "depth", "name", "parents", "update")

    def __init__(self, parents: "tuple[Cause, ...]", name: str = "", update: object = None) -> None:
        self.parents: tuple[Cause, ...] = parents
        self.name: str = name
        self.update: object = update
        self.depth: int = 1 + max([each.depth for each in parents]) if parents else 0
        self._digest = ""

    def fingerprint(self) -> str:
        """Return a digest of all that led here."""
        waiting = [self]
        while waiting:
            cause = waiting[-1]
            unknown = [each for each in cause.parents if not each._digest]
            if cause._digest or unknown:
                waiting.extend(unknown) if unknown else waiting.pop()
                continue
            update = cause.update
            content = [cause.name, update.content, update.to] if isinstance(update, Update) else [cause.name, update]
            digest = blake2b(canonical(content), digest_size=16)
            for each in cause.parents:
                digest.update(each._digest.encode())
            cause._digest = digest.hexdigest()
        return self._digest


class Token(Struct, frozen=True, eq=False):
    """What travels along an edge: a point of the run, and the values of the state there."""

    cause: Cause
    values: Values

    def after(self, name: str, update: Update, state_type: StateType) -> "Token":
        """Return the token after a node has ended with an update."""
        values = self.values
        for changes in update.changes:
            values = state_type.apply(values, changes)
        return Token(Cause((self.cause,), name, update), values)


def joined(tokens: Sequence[Token], state_type: StateType) -> Token:
    """Return the token where branches meet, which are listed in declared order."""
    first = tokens[0]
    different = {id(each.cause): each for each in tokens}
    if len(different) == 1:
        return first
    causes = [each.cause for each in different.values()]
    values = first.values
    for cause in _new_in_others(causes):
        if isinstance(cause.update, Update):
            for changes in cause.update.changes:
                values = state_type.apply(values, changes)
    return Token(Cause(tuple(causes)), values)


def _new_in_others(causes: Sequence[Cause]) -> Iterator[Cause]:
    """Yield the causes of all branches but those of the first: branch by branch, each after its parents."""
    reached = _reached_from(causes)
    done: set[int] = set()
    for number, branch in enumerate(causes):
        earlier = (1 << number) - 1
        waiting = [branch] if number else []
        while waiting:
            cause = waiting[-1]
            missing = (
                []
                if id(cause) in done
                else [
                    each
                    for each in reversed(cause.parents)
                    if id(each) not in done and id(each) in reached and not reached[id(each)] & earlier
                ]
            )
            if id(cause) not in done and not reached[id(cause)] & earlier:
                if missing:
                    waiting.extend(missing)
                    continue
                yield cause
            done.add(id(cause))
            waiting.pop()


def _reached_from(causes: Sequence[Cause]) -> dict[int, int]:
    """Return from which branches each cause is reached, as bits, back to where all of them have met before."""
    reached: dict[int, int] = {}
    everywhere = (1 << len(causes)) - 1
    for number, cause in enumerate(causes):
        reached[id(cause)] = reached.get(id(cause), 0) | 1 << number
    heap = [(-each.depth, id(each), each) for each in causes]
    heapify(heap)
    open_branches = len(heap)  # causes in the heap that not all branches have reached
    while heap and open_branches:
        _, _, cause = heappop(heap)
        bits = reached[id(cause)]
        open_branches -= bits != everywhere
        for parent in cause.parents:
            before = reached.get(id(parent))
            after = (before or 0) | bits
            reached[id(parent)] = after
            if before is None:
                heappush(heap, (-parent.depth, id(parent), parent))
                open_branches += after != everywhere
            elif before != everywhere == after:
                open_branches -= 1
    return reached
