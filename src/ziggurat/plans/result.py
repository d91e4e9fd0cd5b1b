"""The result of a plan: its output, its variables, and what became of each node."""

from typing import Any

from msgspec import Struct

from ziggurat.messages.events import NodeStatus


class NodeResult(Struct, frozen=True):
    """What became of a node of a plan, each time it was reached.

    Attributes:
        node: Its position in the plan, such as ``checks/spelling``.
        path: The path of its calls in the run, such as ``review/checks/settled/1/spelling``.
        name: Of the node; that of the variable that has its output, if it has one.
        kind: Such as ``"Task"`` or ``"Branch"``.
        status: ``"completed"``, ``"failed"`` or ``"skipped"``.
        output: Its output as plain data; None unless it has completed.
        error: Why it failed.
    """

    node: str
    path: str
    name: str
    kind: str
    status: NodeStatus
    output: Any = None
    error: str | None = None


class PlanResult(Struct, frozen=True):
    """The output of a run of a plan.

    Attributes:
        output: The output of the last node.
        variables: The variables at the end, as plain data.
        nodes: Each node, each time it was reached, in the order of the plan.
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
