"""Community detection by label propagation."""

from collections.abc import Mapping

from ziggurat.knowledge.algorithms import Links, Targets


def propagate(outgoing: Links, incoming: Links, rounds: int) -> list[list[str]]:
    """Return groups of entities that are more connected with each other than with the rest."""
    ids = list(outgoing)
    numbers = {name: number for number, name in enumerate(ids)}
    near = [_near(outgoing[name], incoming[name], numbers) for name in ids]
    labels = list(range(len(ids)))
    for _ in range(rounds):
        changed = False
        for number, others in enumerate(near):
            if not others:
                continue
            votes: dict[int, int] = {}
            for other in others:
                label = labels[other]
                votes[label] = votes.get(label, 0) + 1
            most = max(votes.values())
            chosen = min([label for label, count in votes.items() if count == most])
            changed = changed or chosen != labels[number]
            labels[number] = chosen
        if not changed:
            break
    groups: dict[int, list[str]] = {}
    for name, label in zip(ids, labels, strict=True):
        groups.setdefault(label, []).append(name)
    return list(groups.values())


def _near(one: Targets, other: Targets, numbers: Mapping[str, int]) -> list[int]:
    return [numbers[name] for side in (one, other) for name, relations in side.items() for _ in relations]
