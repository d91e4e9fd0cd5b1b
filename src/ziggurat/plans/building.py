"""How flows are built of nodes: the nodes prepared to run, and what such a flow states about itself."""

from collections.abc import Callable, Iterable
from typing import Any, get_args

from msgspec import Struct

from ziggurat.agents.flow import Flow
from ziggurat.agents.flow_program import FlowArguments, flow_program
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.enter import parts_of
from ziggurat.core.codec import plain
from ziggurat.core.context import Context
from ziggurat.core.service import EFFECT, Effect, strongest
from ziggurat.journal.store import Store
from ziggurat.plans.nodes import Node, NodeResult, Place, PlanResult, Task, place_nodes
from ziggurat.plans.running import Execution
from ziggurat.plans.statuses import facts_of_plan
from ziggurat.plans.variables import text_of_value
from ziggurat.plans.working import Work, work_of
from ziggurat.tools.entry import Tool
from ziggurat.tools.toolbox import TOOLS, Toolbox


class Tree(Struct, frozen=True, eq=False):
    places: tuple[Place, ...]
    works: dict[Place, Work]

    async def run(self, ctx: Context, values: dict[str, Any]) -> PlanResult:
        results: list[NodeResult] = []
        output = await Execution(self.works, ctx).run_all(self.places, values, results)
        return PlanResult(plain(output), plain(values), tuple(results))


def prepared(nodes: Iterable[Node], agent: Runnable[Any] | None, *, alike: bool = False) -> Tree:
    places = place_nodes(nodes, alike=alike)
    tasks = [each for place in places for each in place if isinstance(each.node, Task)]
    return Tree(places, {each: work_of(each, agent) for each in tasks})


def plan_flow(
    function: Callable[..., Any],
    hints: dict[str, Any],
    setup: dict[str, str],
    *,
    name: str,
    store: str | Store | None,
    tools: Iterable[Tool],
    agents: list[Runnable[Any]],
    arguments: FlowArguments,
    places: tuple[Place, ...] = (),
) -> Flow[Any, Any]:
    box = Toolbox({id(each): each for each in tools}.values())
    needed = [frozenset(spec.permissions) for spec in box.specs] + [parts_of(each).permissions for each in agents]
    arguments.setdefault("description", "")
    program, takes = flow_program(
        function,
        hints,
        name,
        setup,
        arguments,
        frozenset().union(*needed),
        lambda result: text_of_value(result.output),
        (lambda place: _has(places, place)) if places else None,
    )
    program.facts |= {TOOLS: box, EFFECT: _strongest_effect(places, agents, box)}
    if places:
        program.facts |= facts_of_plan(places)
    return Flow(program, takes, name=name, store=store)


def _has(nodes: tuple[Place, ...], place: str) -> bool:
    name, _, rest = place.partition("/")
    node = next((each for each in nodes if each.name == name.partition("#")[0]), None)
    return node is not None and (not rest or node.kind != "Sequence" or _has(node.parts, rest))


def _strongest_effect(places: Iterable[Place], agents: Iterable[Runnable[Any]], tools: Toolbox) -> Effect:
    everything = [each.node for place in places for each in place]
    effects = [node.effect for node in everything if isinstance(node, Task) and node.function is not None]
    known: tuple[Effect, ...] = get_args(Effect)
    return max((tools.effect, strongest(agents), *effects), key=known.index)
