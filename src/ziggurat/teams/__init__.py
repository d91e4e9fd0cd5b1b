"""Teams: several agents that work together, each team an agent again.

- `desk`: agents that hand a conversation over to each other, with the policies in `handoff`.
- `visibility`: what each member sees. `conversation`: the conversation of a team. `program`: its code as a Runnable.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
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
        "teams.program": ("TeamArguments",),
        "teams.visibility": ("Visibility",),
    },
)
