"""Teams: several agents that work together, each team an agent again.

- `desk`: agents that hand a conversation over to each other, with the policies in `handoff`.
- Members that a leader starts in the background: `delegating`, with `assignments`.
- Members that speak in turn: `chatting`. A manager that plans and delegates: `planning`.
- Members that work at the same time: `voting` (`parallel`, `majority`) and `networks` (`star`, `mesh`, `ring`), with
  the code that they share, `rounds`; `debating`, `swarming`. What each has answered: `result`.
- `visibility`: what each member sees. `conversation`: the conversation of a team. `program`: its code as a Runnable.
- `replies`: values in the replies of models. `drawing`: who speaks to whom, for pictures.
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
        "teams.networks": ("mesh", "ring", "star"),
        "teams.planning": ("ledger_team",),
        "teams.program": ("TeamArguments",),
        "teams.result": ("TeamResult",),
        "teams.swarming": ("Subtask", "swarm"),
        "teams.visibility": ("Visibility",),
        "teams.voting": ("majority", "parallel"),
    },
)
