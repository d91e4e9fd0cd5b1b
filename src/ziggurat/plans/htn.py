"""Planning with a hierarchical task network: methods decompose compound tasks until only calls of tools are left."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

from ziggurat.agents.flow import Flow, FlowArguments
from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import digest, encode
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.failures import call_given
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.core.store import Store
from ziggurat.plans.building import plan_flow, prepared
from ziggurat.plans.htn_parts import (
    Asking,
    HtnPlan,
    HtnStep,
    HtnTask,
    Method,
    Primitive,
    Question,
    Search,
    World,
    comparable,
)
from ziggurat.plans.nodes import Task
from ziggurat.plans.result import PlanResult
from ziggurat.plans.variables import escaped, fill
from ziggurat.plans.working import output_of
from ziggurat.tools.toolbox import Tool, Toolbox

ORDER = """\
To do: <task>
What holds now: <world>
There are several ways to do it:
<methods>
Answer with the numbers of those that you would try, the best one first, such as 2, 1."""

_MAX_QUESTIONS = 20
"""How often an agent is asked for the order of methods in one run."""


class Planner:
    """Finds plans: for a task and what holds now, the calls of tools that do the task.

    ::

        planner = Planner([
            Method("Research", [Primitive("search"), Primitive("summarise")]),
            Method("Research", [Primitive("search"), Primitive("filings"), Primitive("summarise")],
                   preconditions={"company_type": "public"}),
        ])
        plan = planner.plan(Compound("Research"), {"company_type": "public"})
        [step.tool for step in plan.steps]                  # search, filings, summarise

    Of the methods whose preconditions hold, that with the most preconditions is tried first; of those with as many, the
    one that is listed first. If what follows fails, the next one is tried. The same arguments give the same plan.

    Args:
        methods: The ways to do compound tasks.
        max_depth: How many levels a task may be below the goal.
        max_steps: How many steps a plan may have.
        max_tasks: How many tasks the search looks at before it gives up; and 20 times as many preconditions, effects
            and methods.
    """

    @checked
    def __init__(
        self,
        methods: Iterable[Method],
        *,
        max_depth: PositiveInt = 16,
        max_steps: PositiveInt = 256,
        max_tasks: PositiveInt = 20_000,
    ) -> None:
        self.methods: tuple[Method, ...] = tuple(methods)
        self._limits = max_depth, max_steps, max_tasks
        self._by_task: dict[str, list[Method]] = {}
        for each in sorted(self.methods, key=lambda method: -len(method.preconditions)):
            self._by_task.setdefault(each.task, []).append(each)

    def plan(self, goal: HtnTask, world: World | None = None) -> HtnPlan:
        """Return a plan that does a task.

        Args:
            goal: The task.
            world: What holds before it.

        Raises:
            NoPlan: there is none: `NoMethodFound`, `NoPreconditionSatisfied`, `DepthExceeded`, `StepLimitExceeded`, as
                the last attempt has failed; or `SearchLimitExceeded`. Its `refused` says why each method was not used.
        """
        asking = self.search(goal, {} if world is None else world)
        outcome = _search_on(asking)
        while not isinstance(outcome, HtnPlan):
            _, methods, _ = outcome
            outcome = _search_on(asking, methods)
        return outcome

    def search(self, goal: HtnTask, world: World) -> Asking:
        """Return a search in steps, which asks for the order of methods where there are several."""
        return Search(self._by_task, self._limits, world).run(goal)


@checked
def htn_flow(
    planner: Planner,
    goal: HtnTask,
    *,
    tools: Iterable[Tool] = (),
    agent: Runnable[Any] | None = None,
    order: Runnable[Any] | None = None,
    name: NonEmptyText = "htn",
    store: str | Store | None = None,
    **arguments: Unpack[FlowArguments],
) -> Flow[dict[str, Any], PlanResult]:
    """Make a flow that plans how to do a task in the world it is run with, and then does the steps of the plan.

    ::

        research = htn_flow(planner, Compound("Research"), tools=[search, filings, summarise])
        run = await research.run({"company": "Acme", "company_type": "public"})

    Arguments of primitive tasks refer to what holds in the world by ``{name}``, and to the last output of a tool by the
    name of the tool, such as ``{search}``. A plan that is not found ends the run with the error of the planner.

    Args:
        planner: Finds the plan.
        goal: The task.
        tools: The tools of the primitive tasks.
        agent: Does the primitive tasks whose tool is not among `tools`; it gets the name and the arguments.
        order: Is asked in which order to try methods, where several can be used. Its answer is checked, and recorded;
            methods that it does not name come last, in the order of the planner.
        name: Its name in paths and in the store, and as a tool.
        store: Where its runs are kept.
        arguments: Those of all flows, see `flow`.

    Raises:
        ConfigurationError: there is neither a tool nor an agent for a primitive task.
    """
    named = {Toolbox([each]).specs[0].name: each for each in tools}
    if agent is None:
        _require_tools(planner, goal, named)

    async def run(ctx: Context, world: dict[str, Any]) -> PlanResult:
        """Find a plan and do its steps."""
        plan = await _find(planner.search(goal, world), order, ctx)
        tasks = [_task_of(each, named) for each in plan.steps]
        return await prepared(tasks, agent, alike=True).run(ctx, dict(world))

    return plan_flow(
        run,
        {"ctx": Context, "world": dict[str, Any], "return": PlanResult},
        {"goal": digest(comparable(goal)), "methods": digest([comparable(each) for each in planner.methods])},
        name=name,
        store=store,
        tools=named.values(),
        agents=[each for each in (agent, order) if each is not None],
        arguments=arguments,
    )


def _require_tools(planner: Planner, goal: HtnTask, tools: Iterable[str]) -> None:
    for task in (goal, *(each for method in planner.methods for each in method.subtasks)):
        if isinstance(task, Primitive) and task.tool not in tools:
            raise ConfigurationError(
                f"htn_flow() has no tool {task.tool!r}, which a primitive task needs; there are: "
                f"{', '.join(tools) or 'none'}. Pass it in tools=, or an agent= for such tasks"
            )


def _task_of(step: HtnStep, tools: "dict[str, Tool]") -> Task:
    name = re.sub(r"\W", "_", step.tool)
    name = name if name.isidentifier() else f"_{name}"
    if step.tool in tools:
        return Task(name, tool=tools[step.tool], arguments=step.arguments)
    return Task(name, prompt=f"{escaped(step.tool)} {encode(step.arguments).decode()}")


async def _find(asking: Asking, order: Runnable[Any] | None, ctx: Context) -> HtnPlan:
    """Return the plan of a search, in which an agent may order methods."""
    known: dict[tuple[int, ...], Sequence[Method]] = {}
    outcome = call_given(_search_on, ctx, asking)
    while not isinstance(outcome, HtnPlan):
        task, methods, world = outcome
        key = tuple(map(id, methods))
        if order is not None and key not in known and len(known) < _MAX_QUESTIONS:
            known[key] = await _ordered(task, methods, world, order)
        outcome = call_given(_search_on, ctx, asking, known.get(key, methods))
    return outcome


def _search_on(asking: Asking, methods: Sequence[Method] | None = None) -> Question | HtnPlan:
    """Return the next question of a search, or the plan that it has found."""
    try:
        return next(asking) if methods is None else asking.send(methods)
    except StopIteration as stop:
        plan: HtnPlan = stop.value
        return plan


async def _ordered(task: str, methods: Sequence[Method], world: World, order: Runnable[Any]) -> Sequence[Method]:
    """Return methods in the order in which an agent would try them; unchanged if its answer does not fit."""
    listed = "\n".join(f"{number}. {method.title}" for number, method in enumerate(methods, 1))
    values = {"task": task, "world": dict(world), "methods": listed}
    question = fill(re.sub(r"<(\w+)>", r"{\1}", ORDER), values, "the order of methods")
    answer = str(output_of(await order.run(question)))
    numbers = [int(each) for each in re.findall(r"\d{1,6}", answer)]
    if not numbers or len(set(numbers)) != len(numbers) or not set(numbers) <= set(range(1, len(methods) + 1)):
        return methods
    first = [methods[number - 1] for number in numbers]
    return [*first, *(each for number, each in enumerate(methods, 1) if number not in numbers)]
