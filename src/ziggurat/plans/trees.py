"""workflow: a tree of nodes as a durable flow."""

from collections.abc import Iterable, Iterator
from typing import Any, Unpack

from ziggurat.agents.flow import Flow
from ziggurat.agents.flow_program import FlowArguments
from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import digest, plain
from ziggurat.core.context import Context
from ziggurat.core.settings import checked
from ziggurat.journal.store import Store
from ziggurat.plans.building import plan_flow, prepared
from ziggurat.plans.nodes import Branch, Loop, Node, Place, PlanResult, Task
from ziggurat.plans.variables import Asked, Variables, condition_text


@checked
def workflow(
    *nodes: Node,
    agent: Runnable[Any] | None = None,
    input: Any = str,  # noqa: A002 - the word for it, as in `schedule`
    variables: Variables | None = None,
    name: str = "workflow",
    store: str | Store | None = None,
    **arguments: Unpack[FlowArguments],
) -> Flow[Any, PlanResult]:
    """Make a durable flow of nodes that run one after the other.

    ::

        review = workflow(
            Task("draft", prompt="Write a text about {input}."),
            Branch("draft:TODO", Task("final", prompt="Complete {draft}"), Task("final", prompt="Shorten {draft}")),
            agent=Agent("demo"),
            store="sqlite:///plans.db",
        )
        run = await review.run("ziggurats", run_id="text-1")

    A flow is a `Runnable`: the plan is run, resumed at the node it had come to, replayed and forked as an agent is. Its
    output is a `PlanResult`, and the text of its answer is the output of the last node. Each change of a node's status
    is a `NodeChanged` event.

    Args:
        agent: Does the tasks that have only a prompt.
        input: The type of what the plan is run with. Text becomes the variable ``input``; the fields of an object, such
            as a Struct or a ``dict[str, Any]``, become variables as plain data. None if it takes nothing.
        arguments: Those of all flows, see `flow`.
    """
    tree = prepared(nodes, agent)
    everything = [each for place in tree.places for each in place]
    initial = dict(variables or {})

    async def run(ctx: Context, value: Any) -> PlanResult:
        return await tree.run(ctx, initial | _variables_of(value))

    hints = {"ctx": Context, "value": input, "return": PlanResult}
    if input is None:
        del hints["value"]
    return plan_flow(
        (lambda ctx: run(ctx, {})) if input is None else run,
        hints,
        {"nodes": digest([_shape_of(each) for each in everything])},
        name=name,
        store=store,
        tools=[tool for each in everything if (tool := getattr(each.node, "tool", None)) is not None],
        agents=[*_agents_in(everything), *((agent,) if agent is not None else ())],
        arguments=arguments,
        places=tree.places,
    )


def _variables_of(value: Any) -> dict[str, Any]:
    fields = plain(value)
    return fields if isinstance(fields, dict) else {"input": fields}


def _agents_in(everything: Iterable[Place]) -> Iterator[Runnable[Any]]:
    for each in everything:
        condition = getattr(each.node, "condition", None) or getattr(each.node, "until", None)
        asks = condition.agent if isinstance(condition, Asked) else getattr(each.node, "agent", None)
        if asks is not None:
            yield asks


def _shape_of(place: Place) -> list[Any]:
    """Return what of a node is compared when a run is continued: what it does, not how."""
    node = place.node
    shape: list[Any] = [place.position, place.kind]
    if isinstance(node, Task):
        shape += [node.prompt, node.arguments]
    elif isinstance(node, Branch):
        shape.append(condition_text(node.condition))
    elif isinstance(node, Loop):
        shape += [node.max_rounds, None if node.until is None else condition_text(node.until)]
    return shape
