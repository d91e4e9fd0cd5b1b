"""The nodes of a plan, done one after the other, at the same time, by a condition or again; and what became of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count
from typing import Annotated, Any, Literal, Union

from msgspec import Meta, Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Effect, Service
from ziggurat.core.settings import CheckedStruct, NonEmptyText, PositiveInt
from ziggurat.messages.events import NodeStatus
from ziggurat.plans.variables import Condition
from ziggurat.tools.entry import Tool

OnFailure = Union[Literal["raise", "continue"], "Node"]
"""What follows when a node has failed: the plan fails, it continues without the node's output, or another node."""


class Node(CheckedStruct, frozen=True, eq=False, kw_only=True):
    """A node of a plan; see its subclasses."""

    on_failure: OnFailure = "raise"


class Task(Node, frozen=True, eq=False):
    """One piece of work; its output becomes the variable of its name.

    ::

        Task("research", prompt="Summarise {topic}")                                  # the plan's agent
        Task("review", agent=critic, prompt="Find the errors in: {research}")
        Task("prices", tool=lookup, arguments={"product": "{topic}", "limit": 3})
        Task("total", function=add_up, layers=[retry(attempts=3), timeout(seconds=10)])

    Prompts and arguments refer to variables by ``{name}``; an argument that is nothing but ``"{name}"`` is the value
    itself. A plan is an agent, so a task can run another plan.

    Args:
        prompt: The question to the agent; for a flow or a plan, perhaps data.
        agent: An agent, a team, a flow or another plan; by default the agent of the plan, if there is a prompt.
        tool: A tool, which is called as a model would call it: with permissions, approvals and a record.
        arguments: Those of the tool or the function.
        function: An async function, or a step; by default its arguments are the variables named as its parameters. As
            a step does, it needs a return annotation. What it returns is recorded; if it was interrupted, it is called
            again, and the steps, agents and questions in it are answered from the record.
        layers: Layers around the agent, the tool or the function, such as retries and time limits.
        effect: Of a function, as for `step`; one that acts ``"once"`` only is recorded as a whole, and cannot wait.
        on_failure: ``"raise"`` the error, so that the node around it fails as well; ``"continue"`` without an output;
            or a node to run instead, whose output is used, with the text of the error in the variable ``error``.

    Raises:
        ConfigurationError: the name is no identifier, or the arguments do not go together.
    """

    name: NonEmptyText
    prompt: Any = None
    agent: Runnable[Any] | None = None
    tool: Annotated[Tool | None, Meta(title="typed function or a tool")] = None
    arguments: Mapping[str, Any] | None = None
    function: Annotated[Callable[..., Any] | None, Meta(title="async function")] = None
    layers: Iterable[Callable[[Service[Any, Any]], Service[Any, Any]]] = ()
    effect: Effect = "repeatable"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.name.isidentifier() or self.name == "model":
            raise ConfigurationError(
                f"the name of a task is an identifier other than 'model', as it names a variable; got {self.name!r}"
            )
        kinds = [self.tool is not None, self.function is not None, self.agent is not None or self.prompt is not None]
        if sum(kinds) != 1:
            raise ConfigurationError(
                f"the task {self.name!r} takes one of prompt= (with or without agent=), tool= and function="
            )
        if self.arguments is not None and kinds[2]:
            raise ConfigurationError(f"the task {self.name!r} takes arguments= with tool= or function= only")


class Sequence(Node, frozen=True, eq=False):
    """Nodes that run one after the other; its output, the variable of its name if it has one, is that of the last one.

    If one fails, the nodes after it are skipped, and `on_failure` is as of a `Task`.
    """

    nodes: Iterable[Node]
    name: NonEmptyText | None = None


class Branch(Node, frozen=True, eq=False):
    """One of two nodes, as a condition says; its output is that of the node that ran.

    The condition is ``"variable:substring"``, a function of the variables (see `when`), or an `agent_condition`. If it
    does not hold, and there is no `if_false`, nothing is done. `name` and `on_failure` are as of a `Sequence`.
    """

    condition: Condition
    if_true: Node
    if_false: Node | None = None
    name: NonEmptyText | None = None


class Parallel(Node, frozen=True, eq=False):
    """Nodes that run at the same time; its output is the list of theirs, in the order of the nodes.

    Each node has the variables as they were before, and sees nothing of the others. What they have set is taken over
    when all have ended, in the order of the nodes. If one fails, the others finish; then the error of the first of
    those that failed, in the order of the nodes, is raised. At most `limit` run at the same time. `name` and
    `on_failure` are as of a `Sequence`.
    """

    nodes: Iterable[Node]
    limit: PositiveInt | None = None
    name: NonEmptyText | None = None


class Map(Node, frozen=True, eq=False):
    """A node that runs for each item of a list, at the same time; its output is the list of outputs, in their order.

    Each has the variables as they were before, and its item. What they set is not taken over. A failure is as in
    `Parallel`.

    Args:
        name: Of the variable for its output.
        over: The variable that has the list, or a JSON list as text.
        node: Runs for each item.
        item: The variable for the item.
        limit: How many run at the same time; None for all.
    """

    name: NonEmptyText
    over: NonEmptyText
    node: Node
    item: NonEmptyText = "item"
    limit: PositiveInt | None = None


class Loop(Node, frozen=True, eq=False):
    """A node that runs again until a condition holds, checked after each round; its output is that of the last round.

    If the condition does not hold after `max_rounds`, the loop fails with `LimitExceeded`. Without a condition it runs
    exactly so often. `name` and `on_failure` are as of a `Sequence`.
    """

    node: Node
    max_rounds: PositiveInt
    until: Condition | None = None
    name: NonEmptyText | None = None


_MAX_DEPTH = 100


class Place(Struct, frozen=True, eq=False):
    node: Node
    name: str
    position: str
    variable: str | None
    parts: tuple["Place", ...]
    instead: "Place | None"

    @property
    def kind(self) -> str:
        return type(self.node).__name__

    def __iter__(self) -> Iterator["Place"]:
        yield self
        for part in (*self.parts, *((self.instead,) if self.instead is not None else ())):
            yield from part


def place_nodes(nodes: Iterable[Node], *, alike: bool = False) -> tuple[Place, ...]:
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


class NodeResult(Struct, frozen=True):
    """What became of a node of a plan, each time it was reached.

    Attributes:
        node: Its position in the plan, such as ``checks/spelling``.
        path: The path of its calls in the run, such as ``review/checks/settled/1/spelling``.
        name: Of the node; that of the variable that has its output, if it has one.
        output: Its output as plain data; None unless it has completed.
    """

    node: str
    path: str
    name: str
    kind: str
    status: NodeStatus
    output: Any = None
    error: str | None = None


class PlanResult(Struct, frozen=True):
    """The output of a run of a plan: that of the last node, and the variables at the end, as plain data.

    `nodes` has each node, each time it was reached, in the order of the plan.
    """

    output: Any
    variables: dict[str, Any]
    nodes: tuple[NodeResult, ...] = ()

    @property
    def outputs(self) -> dict[str, Any]:
        """The outputs of the tasks that have completed, by name; of a task that ran several times, the last."""
        tasks = [each for each in self.nodes if each.kind == "Task" and each.status == "completed"]
        return {each.name: each.output for each in tasks}

    @property
    def steps(self) -> int:
        """How many tasks were run, at all levels."""
        return sum(each.kind == "Task" and each.status != "skipped" for each in self.nodes)
