"""Places: the nodes of a plan at their positions, checked, with what is needed to run them."""

from collections.abc import Iterable, Iterator
from itertools import chain, count
from typing import Any

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.plans.nodes import Branch, Loop, Map, Node, Parallel, Sequence

_MAX_DEPTH = 100


class Place(Struct, frozen=True, eq=False):
    """A node at its position in a plan."""

    node: Node
    name: str
    position: str
    variable: str | None
    parts: tuple["Place", ...]
    instead: "Place | None"

    @property
    def kind(self) -> str:
        """The name of its class."""
        return type(self.node).__name__

    def __iter__(self) -> Iterator["Place"]:
        """Yield it and all places in it, in order."""
        yield self
        for part in (*self.parts, *((self.instead,) if self.instead is not None else ())):
            yield from part


def place_nodes(nodes: Iterable[Node], *, alike: bool = False) -> tuple[Place, ...]:
    """Return the places of the outermost nodes of a plan, each with those in it."""
    names: set[str] = set()
    return tuple(_place(node, "", names, 0, alike=alike) for node in nodes)


def _place(node: Any, above: str, siblings: set[str], depth: int, *, alike: bool = False) -> Place:
    """Return the place of a node; with `alike`, siblings may have the same name, as only one of them runs."""
    if not isinstance(node, Node):
        raise ConfigurationError(f"a part of a plan is a node, such as Task(...); got {node!r:.200}")
    if depth > _MAX_DEPTH:
        raise ConfigurationError(f"the nodes of a plan are nested at most {_MAX_DEPTH} deep: {above[:200]} is deeper")
    variable: str | None = getattr(node, "name", None)
    name = _name_among(siblings, variable or type(node).__name__.lower(), above, numbered=alike or not variable)
    position = f"{above}/{name}" if above else name
    names: set[str] = set()
    parts = tuple(_place(part, position, names, depth + 1, alike=isinstance(node, Branch)) for part in _parts_of(node))
    policy = node.on_failure
    instead = None if isinstance(policy, str) else _place(policy, position, names, depth + 1, alike=True)
    return Place(node, name, position, variable, parts, instead)


def _name_among(siblings: set[str], name: str, above: str, *, numbered: bool) -> str:
    if "/" in name or "#" in name or ":" in name:
        raise ConfigurationError(f"the name of a node has no '/', '#' or ':'; got {name!r}")
    if name in siblings and not numbered:
        raise ConfigurationError(f"two nodes of {above or 'the plan'} are named {name!r}: give each its own name")
    free = next(each for each in chain((name,), (f"{name}-{number}" for number in count(2))) if each not in siblings)
    siblings.add(free)
    return free


def _parts_of(node: Node) -> tuple[Node, ...]:
    if isinstance(node, (Sequence, Parallel)):
        return tuple(node.nodes)
    if isinstance(node, Branch):
        return (node.if_true,) if node.if_false is None else (node.if_true, node.if_false)
    return (node.node,) if isinstance(node, (Map, Loop)) else ()
