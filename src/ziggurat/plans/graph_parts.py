"""The parts of a graph as they were declared, the calls of its nodes, and the points of its runs."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import UNSET, Struct

from ziggurat.agents.flow import Flow
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.agent_call import place_of, program_at
from ziggurat.calls.gather import gather
from ziggurat.core.context import AMBIENT, Context, Key
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.failures import call_given
from ziggurat.core.settings import is_typed_dict
from ziggurat.journal.journal import journal_of
from ziggurat.plans.causes import Update
from ziggurat.plans.state import StateType, Values

START = "start"
"""Where a graph begins: ``graph.edge(START, "plan")``. Without such edges it begins at the node added first."""

END = "end"
"""Where a graph ends, as the target of an edge or a route. A node without edges ends there, too."""

Join = Literal["all", "any", "settled"]
"""When a node with several edges starts: when all of them were taken, when any of them was, or when each was taken,
passed over or has failed, and at least one was not passed over."""

S = typing.TypeVar("S")

NodeCall = Callable[[Any, Context], Coroutine[Any, Any, Any]]
"""Calls a node with a state of its own, and returns its changes: a mapping, or several of a map."""


class GraphNode(Struct, frozen=True, eq=False):
    index: int
    name: str
    call: NodeCall
    writes: frozenset[str] | None
    join: Join
    rounds: int
    items: bool = False


class Edge(Struct, frozen=True):
    source: str
    target: str
    chosen: bool = False


class GraphRoute(Struct, frozen=True, eq=False):
    choose: Callable[[Any], Any]
    targets: tuple[str, ...]
    single: bool | None


def plural(names: Iterable[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


class GraphPoint(Struct, typing.Generic[S], frozen=True):
    """A point of a run, at which a node has ended.

    Attributes:
        number: The number of the node in the order in which nodes were begun, from 1; a fork at ``number + 1`` goes on
            after it.
        changes: What it changed of the state; of a map, once for each item.
        to: The nodes that its route has chosen.
        state: The state after it, as the nodes that follow it see it.
    """

    number: int
    node: str
    path: str
    changes: tuple[dict[str, Any], ...]
    to: tuple[str, ...]
    state: S


HISTORY: Key[list[GraphPoint[Any]]] = Key("history of a graph")
"""Takes the points of a graph, as it is run again from its record."""


Changes = Mapping[str, Any]


def _changes(returned: object, field: str | None, name: str) -> Changes:
    if field is not None:
        return {field: returned}
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        return returned
    if isinstance(returned, Struct):
        values = ((each, getattr(returned, each)) for each in returned.__struct_fields__)
        return {each: value for each, value in values if value is not UNSET}
    if dataclasses.is_dataclass(returned):
        return {each.name: getattr(returned, each.name) for each in dataclasses.fields(returned)}
    raise ConfigurationError(
        f"the node {name} returned {returned!r:.200}; it returns a mapping of the fields that it changes, such as "
        "{'notes': [...]}, or the value of one field with node(writes='notes')"
    )


def _call_of(function: Callable[..., Any], name: str, writes: object, state: type | None) -> NodeCall:
    if not inspect.iscoroutinefunction(function):
        title = getattr(function, "__name__", name)
        raise ConfigurationError(
            f"a node is an async function: write async def {title}(...); or a Runnable; got {function!r:.200}"
        )
    hints, signature = typing.get_type_hints(function), inspect.signature(function)
    names = [each for each in signature.parameters if hints.get(each) is not Context]
    kind = hints.get(names[0]) if names else None
    if state and (len(names) != 1 or (kind not in (None, Any, state) and typing.get_origin(kind) is None)):
        raise ConfigurationError(
            f"the node {name} takes the state, as in async def {name}(state: {state.__name__}), got {signature}"
        )
    takes_context = len(names) < len(signature.parameters)
    field = writes if isinstance(writes, str) else None

    async def call(state: Any, ctx: Context) -> Sequence[Changes]:
        returned = await (function(ctx, state) if takes_context else function(state))
        return (_changes(returned, field, name),)

    return call


def _call_of_runnable(
    runnable: Runnable[Any],
    field: str | None,
    takes: Callable[[Any], Any] | None,
    gives: Callable[[Any], Any] | None,
) -> NodeCall:
    async def call(state: Any, ctx: Context) -> Sequence[Changes]:
        run = await runnable.run(state if takes is None else call_given(takes, ctx, state))
        run.raise_for_stop()
        output = run._output if gives is None else call_given(gives, ctx, run.output)
        return (_changes(output, field, runnable.name),)

    return call


def _call_of_items(
    call: NodeCall,
    items: str | Callable[[Any], Sequence[Any]],
    limit: int | None,
    checked: Callable[[Changes], Values],
    state_type: StateType,
) -> NodeCall:
    async def call_item(item: object, ctx: Context, /) -> Update:
        with program_at(ctx):
            return Update(state_type.recorded(tuple([checked(each) for each in await call(item, ctx)])))

    async def answer_item(item: object) -> Sequence[Changes]:
        ambient = AMBIENT.get()
        assert ambient is not None
        place = place_of(ambient, "item")
        update = await journal_of(place).once(place, "item", item, call_item, Update, True)
        return state_type.restored(update.changes, place.path)

    async def call_items(state: Any, ctx: Context) -> Sequence[Changes]:
        several = getattr(state, items) if isinstance(items, str) else call_given(items, ctx, state)
        if not isinstance(several, Iterable):
            raise ConfigurationError(f"the items of {ctx.path} are a list, got {several!r:.200}")
        answers = await gather(*[answer_item(item) for item in several], limit=limit)
        return [changes for one in answers for changes in one]

    return call_items


def _declared_writes(
    function: Callable[..., Any], name: str, writes: str | Sequence[str] | None, state_type: StateType
) -> frozenset[str] | None:
    kind = typing.get_type_hints(function).get("return")
    if isinstance(writes, str):
        state_type.require(writes, name)
        return frozenset([writes])
    if writes is not None:
        return frozenset(writes)
    if kind is state_type.kind:
        raise ConfigurationError(
            f"the node {name} returns a whole {state_type.name}, but a node returns only what it changes: a "
            "mapping, or a TypedDict or Struct of these fields"
        )
    if kind is type(None):
        return frozenset()
    if not isinstance(kind, type) or not (
        is_typed_dict(kind) or dataclasses.is_dataclass(kind) or issubclass(kind, Struct)
    ):
        return None
    hints = typing.get_type_hints(kind)
    for field in hints:
        state_type.require(field, name)
    return frozenset(hints)


def node_of(
    index: int,
    name: str,
    node: Any,
    state_type: StateType,
    writes: str | Sequence[str] | None = None,
    join: Join = "all",
    rounds: int = 100,
    takes: Callable[[Any], Any] | None = None,
    gives: Callable[[Any], Any] | None = None,
    items: tuple[str | Callable[[Any], Sequence[Any]], int | None] | None = None,  # of a map, with its limit
) -> GraphNode:
    if isinstance(node, Runnable):
        declared = None if writes is None else frozenset([writes] if isinstance(writes, str) else writes)
        if takes is None and items is None and not isinstance(node, Flow):
            raise ConfigurationError(f"the node {name} takes text: make it of the state, with takes=lambda state: ...")
        call = _call_of_runnable(node, writes if isinstance(writes, str) else None, takes, gives)
    else:
        if takes is not None or gives is not None:
            raise ConfigurationError(f"the node {name} is a function, so it needs neither takes= nor gives=")
        declared = _declared_writes(node, name, writes, state_type)
        call = _call_of(node, name, writes, state_type.kind if items is None else None)
    for field in declared or ():
        state_type.require(field, name)
    if items is not None:
        if isinstance(items[0], str):
            state_type.require(items[0], name)
        for field in declared or ():
            if state_type.fields[field].reducer is None:
                raise ConfigurationError(
                    f"the node {name} is called for several items at the same time, and each writes "
                    f"{state_type.name}.{field}: {state_type.advice(field)}"
                )
        checked = partial(state_type.checked, node=name, writes=declared)
        call = _call_of_items(call, *items, checked, state_type)
    return GraphNode(index, name, call, declared, join, rounds, items is not None)


def route_of(source: str, choose: Callable[[Any], Any], names: Sequence[str] | None) -> GraphRoute:
    kind = None if inspect.isclass(choose) else typing.get_type_hints(choose).get("return")
    single = typing.get_origin(kind) not in (list, tuple, Sequence) and kind not in (list, tuple)
    literal = kind if single else next(iter(typing.get_args(kind)), None)
    if names is None:
        names = typing.get_args(literal) if typing.get_origin(literal) is Literal else ()
    if inspect.iscoroutinefunction(choose) or not callable(choose):
        raise ConfigurationError(
            f"the route of {source} is an ordinary function of the state: what is awaited belongs into the node"
        )
    if not names:
        raise ConfigurationError(
            f"it is not known where the route of {source} leads: annotate its result, such as "
            "-> Literal['write', 'end'], or pass the nodes as targets"
        )
    return GraphRoute(choose, tuple(names), None if kind is None or kind is Any else single)
