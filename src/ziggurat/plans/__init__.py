"""Plans: work that is planned ahead, and runs as a durable flow.

- `nodes`: the parts of a plan (`Task`, `Sequence`, `Branch`, `Parallel`, `Map`, `Loop`), with `conditions` and
  `variables`. `trees` makes a flow of them, with `building`; `places` are their positions, `working` prepares the
  tasks, and `running` runs them, with a `result`.
- `executing`: a model plans steps (`plan_text`), which are done and verified. `drawing`: plans as diagrams;
  `statuses`: how far a run has come.
- `htn` plans how to decompose tasks: `htn_parts`, `htn_search`.
- `graph` declares nodes on a typed state, and builds a `state_graph`: `graph_parts`, `graph_nodes` (how nodes are
  called), `graph_shape` (loops), `graph_checks`, `graph_run` (the execution), `graph_history`, `graph_drawing`; `state`
  and `reducers`: what takes up updates; `causes`: what a point of a run follows from.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "plans.conditions": ("Condition", "asked", "contains", "when"),
        "plans.drawing": ("draw_plan",),
        "plans.executing": ("ExecutedPlan", "ExecutedStep", "plan_execute"),
        "plans.htn": ("Planner", "htn_flow"),
        "plans.htn_parts": (
            "Compound",
            "DepthExceeded",
            "HtnPlan",
            "HtnStep",
            "Method",
            "NoMethodFound",
            "NoPlan",
            "NoPreconditionSatisfied",
            "Primitive",
            "Refusal",
            "SearchLimitExceeded",
            "StepLimitExceeded",
        ),
        "plans.nodes": ("Branch", "Loop", "Map", "Node", "Parallel", "Sequence", "Task"),
        "plans.plan_text": ("PlannedStep", "Verification"),
        "plans.result": ("NodeResult", "PlanResult"),
        "plans.statuses": ("node_statuses",),
        "plans.trees": ("workflow",),
        "plans.graph": ("Graph",),
        "plans.graph_history": ("GraphPoint",),
        "plans.graph_parts": ("END", "START"),
        "plans.reducers": ("append", "merge"),
        "plans.state_graph": ("StateGraph",),
    },
)
