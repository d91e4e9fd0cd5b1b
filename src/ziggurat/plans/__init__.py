"""Plans: work that is planned ahead, and runs as a durable flow.

- `trees` makes a flow of `nodes`, with `variables` and conditions on them. `executing`: a model plans the steps. `htn`
  plans how to decompose tasks.
- `graph` declares nodes on a typed `state`, and builds a `state_graph`, which `graph_run` runs.
- `drawing`: both as diagrams; `statuses`: how far a run has come.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.plans.executing import plan_execute as plan_execute
    from ziggurat.plans.graph import Graph as Graph
    from ziggurat.plans.htn import (
        Compound as Compound,
        DepthExceeded as DepthExceeded,
        Method as Method,
        NoMethodFound as NoMethodFound,
        NoPlan as NoPlan,
        NoPreconditionSatisfied as NoPreconditionSatisfied,
        Planner as Planner,
        Primitive as Primitive,
        SearchLimitExceeded as SearchLimitExceeded,
        StepLimitExceeded as StepLimitExceeded,
        htn_flow as htn_flow,
    )
    from ziggurat.plans.nodes import (
        Branch as Branch,
        Loop as Loop,
        Map as Map,
        Parallel as Parallel,
        PlanResult as PlanResult,
        Sequence as Sequence,
        Task as Task,
    )
    from ziggurat.plans.state import append as append, merge as merge
    from ziggurat.plans.state_graph import StateGraph as StateGraph
    from ziggurat.plans.statuses import node_statuses as node_statuses
    from ziggurat.plans.trees import workflow as workflow
    from ziggurat.plans.variables import agent_condition as agent_condition, contains as contains, when as when
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
