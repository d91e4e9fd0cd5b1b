"""Teams: several agents that work together, each team an agent again.

- Patterns: `desk` (handoffs, with the policies in `handoff`), `delegating` (members in the background), `chatting`,
  `planning`, `rounds`, `debating`, `swarming`.
- What they share: the `conversation` of a team and its `visibility`, and `program`, its code as a Runnable.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "teams.delegating": ("background",),
        "teams.chatting": ("group_chat",),
        "teams.debating": ("debate",),
        "teams.handoff": (
            "Handoff",
            "HandoffPolicy",
            "HandoffState",
            "HandoffTool",
            "any_handoff",
            "composite_handoff",
            "explicit_handoff",
            "multi_handoff",
            "sequential_handoff",
        ),
        "teams.desk": ("handoffs",),
        "teams.planning": ("ledger_team",),
        "teams.program": ("TeamArguments",),
        "teams.result": ("TeamResult",),
        "teams.swarming": ("Subtask", "swarm"),
        "teams.visibility": ("Visibility",),
        "teams.rounds": ("majority", "mesh", "parallel", "ring", "star"),
    },
)
