"""Teams: several agents that work together, each team an agent again."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.teams.delegating import background as background
    from ziggurat.teams.desk import handoffs as handoffs
    from ziggurat.teams.handoff import (
        Handoff as Handoff,
        HandoffPolicy as HandoffPolicy,
        HandoffState as HandoffState,
        HandoffTool as HandoffTool,
        any_handoff as any_handoff,
        composite_handoff as composite_handoff,
        explicit_handoff as explicit_handoff,
        multi_handoff as multi_handoff,
        sequential_handoff as sequential_handoff,
    )
    from ziggurat.teams.result import TeamResult as TeamResult
    from ziggurat.teams.rounds import (
        debate as debate,
        majority as majority,
        mesh as mesh,
        parallel as parallel,
        ring as ring,
        star as star,
    )
    from ziggurat.teams.swarming import swarm as swarm
    from ziggurat.teams.turns import group_chat as group_chat, ledger_team as ledger_team
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
