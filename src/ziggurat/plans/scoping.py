"""Which variables the nodes of a plan refer to, checked when the plan is made."""

from collections.abc import Iterable
from inspect import Parameter, signature
from typing import Any

from msgspec import Struct

from ziggurat.calls.step import Step
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.plans.conditions import Asked
from ziggurat.plans.nodes import Branch, Loop, Map, Node, Parallel, Task
from ziggurat.plans.places import Place
from ziggurat.plans.variables import names_in

_Names = frozenset[str]


def names_of_input(kind: Any) -> _Names | None:
    """Return the variables that an input of a type becomes; None if that depends on the value."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return frozenset(kind.__struct_encode_fields__)
    if kind is None:
        return frozenset()
    return frozenset({"input"}) if kind in (str, int, float, bool) else None


def check_references(places: Iterable[Place], known: _Names) -> _Names:
    """Check nodes that run one after the other; return the variables that may have a value afterwards."""
    for place in places:
        known = _after(place, known)
    return known


def _after(place: Place, known: _Names) -> _Names:
    node = place.node
    _require(place, _references(place), known)
    if isinstance(node, Task):
        after = known
    elif isinstance(node, Map):
        check_references(place.parts, known | {node.item})
        after = known
    elif isinstance(node, (Branch, Parallel)):
        after = known.union(*(check_references((part,), known) for part in place.parts))
    else:
        after = check_references(place.parts, known)
    if isinstance(node, Loop):
        _require(place, _asked_in(node.until), after)
    if place.instead is not None:
        after = check_references((place.instead,), after | {"error"})
    return after if place.variable is None else after | {place.variable}


def _require(place: Place, names: Iterable[str], known: _Names) -> None:
    for name in names:
        if name not in known:
            raise ConfigurationError(
                f"{place.position} refers to the variable {name!r}, which nothing before it sets; there are: "
                f"{', '.join(sorted(known)) or 'none'}. {_advice(place.node, name)}"
            )


def _advice(node: Node, name: str) -> str:
    """Return what to do about a variable that nothing sets."""
    if isinstance(node, Map):
        return f"Write the name of a variable, without braces: Map({node.name!r}, {name.strip('{} ')!r}, ...)"
    if isinstance(node, Task) and node.function is not None and node.arguments is None:
        return "It is a parameter of the function: pass it in arguments= of the task or variables= of the plan"
    return f"Write {{{{{name}}}}} for the text {{{name}}}"


def _references(place: Place) -> Iterable[str]:
    """Return the variables that a node refers to itself, before the nodes in it run."""
    node = place.node
    if isinstance(node, Task):
        if node.function is not None and node.arguments is None:
            return _parameters_of(node.function)
        return names_in([node.prompt, node.arguments])
    if isinstance(node, Map):
        return (node.over,)
    return _asked_in(node.condition) if isinstance(node, Branch) else ()


def _parameters_of(function: Any) -> list[str]:
    """Return the parameters of a function that have no default, without that for the Context."""
    shape = function.signature if isinstance(function, Step) else signature(function)
    return [
        each.name
        for each in shape.parameters.values()
        if each.default is Parameter.empty and each.annotation not in (Context, "Context")
    ]


def _asked_in(condition: object) -> Iterable[str]:
    return names_in(condition.question) if isinstance(condition, Asked) else ()
