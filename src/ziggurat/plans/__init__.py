"""Plans: work that is planned ahead, and runs as a durable flow.

- `graph` declares nodes on a typed state and builds a `StateGraph` of them: `graph_parts`, `graph_nodes` (how they are
  called), `graph_shape` (loops), `graph_checks`, `graph_run` (the execution). `state` and `reducers`: what takes up
  updates; `causes`: what a point of a run follows from.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "plans.graph": ("Graph", "StateGraph"),
        "plans.graph_parts": ("END", "START"),
        "plans.graph_run": ("NodeEnded", "NodeStarted"),
        "plans.reducers": ("append", "merge"),
    },
)
