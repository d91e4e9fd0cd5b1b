"""Cause: what a point in a graph's run follows from; the state there is the fold of all updates that led to it.

The points of a run form a graph without circles. Where branches meet, the state of the first branch takes up the
updates of the others that it does not have yet, in declared order, so it does not depend on which ended first.
"""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush

from msgspec import Struct

from ziggurat.core.codec import canonical
from ziggurat.core.errors import ConfigurationError
from ziggurat.plans.state import StateType, Values


class Update(Struct, frozen=True, eq=False, omit_defaults=True):
    changes: tuple[Values, ...]
    to: tuple[str, ...] = ()


class NodeCause(Struct, eq=False):
    parents: tuple["NodeCause", ...]
    depth: int
    name: str = ""
    update: object = None
    changes: tuple[Values, ...] = ()
    _digest: str = ""

    def fingerprint(self) -> str:
        waiting = [self]
        while waiting:
            unknown = [each for each in waiting[-1].parents if not each._digest]
            if unknown:
                waiting.extend(unknown)
            else:
                waiting.pop()._make_digest()
        return self._digest

    def _make_digest(self) -> None:
        update = self.update
        content = [self.name, update.changes, update.to] if isinstance(update, Update) else [self.name, update]
        digest = blake2b(canonical(content), digest_size=16)
        for each in self.parents:
            digest.update(each._digest.encode())
        self._digest = digest.hexdigest()


class Token(Struct, frozen=True, eq=False):
    cause: NodeCause
    values: Values

    def after(self, name: str, update: Update, changes: tuple[Values, ...], values: Values) -> "Token":
        cause = self.cause
        return Token(NodeCause((cause,), cause.depth + 1, name, update, changes), values)


def joined(tokens: Sequence[Token], state_type: StateType) -> Token:
    first = tokens[0]
    different = {id(each.cause): each for each in tokens}
    if len(different) == 1:
        return first
    causes = [each.cause for each in different.values()]
    reached, apart = _reached_from(causes)
    _check_writes(apart, state_type)
    values = first.values
    for cause in _new_in_others(causes, reached):
        values = state_type.apply_all(values, cause.changes)
    return Token(NodeCause(tuple(causes), 1 + max([each.depth for each in causes])), values)


def _new_in_others(causes: Sequence[NodeCause], reached: dict[int, int]) -> Iterator[NodeCause]:
    """Yield the causes of all branches but those of the first: branch by branch, each after its parents."""
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


def _check_writes(causes: Sequence[NodeCause], state_type: StateType) -> None:
    """Check that of causes, each after its parents, no two write a field without a reducer at the same time."""
    writers: list[NodeCause] = []
    of_field: dict[str, int] = {}  # which of these have written it, as bits
    before: dict[int, int] = {}  # which of them each cause follows
    for cause in causes:
        earlier = 0
        for parent in cause.parents:
            earlier |= before.get(id(parent), 0)
        fields = {name for changes in cause.changes for name in changes if state_type.fields[name].reducer is None}
        for field in fields:
            beside = of_field.get(field, 0) & ~earlier
            if beside:
                other = writers[beside.bit_length() - 1]
                raise ConfigurationError(
                    f"{' and '.join(sorted([other.name, cause.name]))} have run at the same time, and both write "
                    f"{state_type.name}.{field}, so its value would depend on timing: {state_type.advice(field)}, or "
                    "let an edge put one after the other"
                )
        if fields:
            own = 1 << len(writers)
            writers.append(cause)
            of_field |= {field: of_field.get(field, 0) | own for field in fields}
            earlier |= own
        before[id(cause)] = earlier


def _reached_from(causes: Sequence[NodeCause]) -> tuple[dict[int, int], list[NodeCause]]:
    """Return from which branches each cause is reached, as bits, and the causes since the branches parted, in order."""
    reached: dict[int, int] = {}
    apart: list[NodeCause] = []
    everywhere = (1 << len(causes)) - 1
    for number, cause in enumerate(causes):
        reached[id(cause)] = reached.get(id(cause), 0) | 1 << number
    heap = [(-each.depth, id(each), each) for each in causes]
    heapify(heap)
    open_branches = len(heap)  # causes in the heap that not all branches have reached
    while heap and open_branches:
        _, _, cause = heappop(heap)
        bits = reached[id(cause)]
        if bits != everywhere:
            open_branches -= 1
            apart.append(cause)
        for parent in cause.parents:
            before = reached.get(id(parent))
            after = (before or 0) | bits
            reached[id(parent)] = after
            if before is None:
                heappush(heap, (-parent.depth, id(parent), parent))
                open_branches += after != everywhere
            elif before != everywhere == after:
                open_branches -= 1
    return reached, apart[::-1]
