"""The path with the fewest relations, searched from both ends so that few entities are visited."""

from collections.abc import Mapping

Near = Mapping[str, Mapping[str, object]]
"""For each entity, those next to it, in declared order."""


def fewest(outgoing: Near, incoming: Near, source: str, target: str) -> list[str] | None:
    """Return the shortest path; of several, the one declared first at the first fork; None if there is none."""
    ahead, behind = {source: 0}, {target: 0}
    before, after = [source], [target]
    while before and after and before[-1] not in behind:
        if len(before) <= len(after):
            before = _next(outgoing, before, ahead)
            met = [name for name in before if name in behind]
        else:
            after = _next(incoming, after, behind)
            met = [name for name in after if name in ahead]
        if met:
            return _join(outgoing, incoming, source, ahead, behind, met)
    return [source] if source == target else None


def _next(near: Near, front: list[str], seen: dict[str, int]) -> list[str]:
    """Return the entities one step further, and store their distance in `seen`."""
    far = seen[front[0]] + 1
    following: list[str] = []
    for name in front:
        for other in near[name]:
            if other not in seen:
                seen[other] = far
                following.append(other)
    return following


def _join(
    outgoing: Near, incoming: Near, source: str, ahead: Mapping[str, int], behind: Mapping[str, int], met: list[str]
) -> list[str]:
    """Walk from the source along the shortest paths, each time to the entity declared first."""
    good = set(met)
    layers = [good]
    for far in range(ahead[met[0]] - 1, 0, -1):
        good = {other for name in good for other in incoming[name] if ahead.get(other) == far}
        layers.append(good)
    path = [source]
    if ahead[met[0]]:
        for layer in reversed(layers):
            path.append(next(name for name in outgoing[path[-1]] if name in layer))
    for left in range(behind[path[-1]] - 1, -1, -1):
        path.append(next(name for name in outgoing[path[-1]] if behind.get(name) == left))
    return path
