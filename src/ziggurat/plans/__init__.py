"""Plans: work that is planned ahead, and runs as a durable flow.

- `trees` makes a flow of `nodes`, with `conditions` and `variables`. `executing`: a model plans the steps. `htn` plans
  how to decompose tasks.
- `graph` declares nodes on a typed `state`, and builds a `state_graph`, which `graph_run` runs.
- `drawing`: both as diagrams; `statuses`: how far a run has come.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "plans.conditions": ("Condition", "asked", "contains", "when"),
        "plans.executing": ("ExecutedPlan", "ExecutedStep", "PlannedStep", "Verification", "plan_execute"),
        "plans.htn": (
            "Compound",
            "DepthExceeded",
            "HtnPlan",
            "HtnStep",
            "Method",
            "NoMethodFound",
            "NoPlan",
            "NoPreconditionSatisfied",
            "Planner",
            "Primitive",
            "Refusal",
            "SearchLimitExceeded",
            "StepLimitExceeded",
            "htn_flow",
        ),
        "plans.nodes": ("Branch", "Loop", "Map", "Node", "Parallel", "Sequence", "Task"),
        "plans.result": ("NodeResult", "PlanResult"),
        "plans.statuses": ("draw_plan", "node_statuses"),
        "plans.trees": ("workflow",),
        "plans.graph": ("Graph",),
        "plans.graph_parts": ("END", "START", "GraphPoint"),
        "plans.reducers": ("append", "merge"),
        "plans.state_graph": ("StateGraph",),
    },
)
