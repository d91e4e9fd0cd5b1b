# Written by tests/test_names.py from __init__.py.
from ziggurat.teams.chatting import group_chat as group_chat
from ziggurat.teams.debating import debate as debate
from ziggurat.teams.delegating import background as background
from ziggurat.teams.desk import handoffs as handoffs
from ziggurat.teams.handoff import Handoff as Handoff
from ziggurat.teams.handoff import HandoffPolicy as HandoffPolicy
from ziggurat.teams.handoff import HandoffState as HandoffState
from ziggurat.teams.handoff import HandoffTool as HandoffTool
from ziggurat.teams.handoff import any_handoff as any_handoff
from ziggurat.teams.handoff import composite_handoff as composite_handoff
from ziggurat.teams.handoff import explicit_handoff as explicit_handoff
from ziggurat.teams.handoff import multi_handoff as multi_handoff
from ziggurat.teams.handoff import sequential_handoff as sequential_handoff
from ziggurat.teams.planning import ledger_team as ledger_team
from ziggurat.teams.program import TeamArguments as TeamArguments
from ziggurat.teams.result import TeamResult as TeamResult
from ziggurat.teams.rounds import majority as majority
from ziggurat.teams.rounds import mesh as mesh
from ziggurat.teams.rounds import parallel as parallel
from ziggurat.teams.rounds import ring as ring
from ziggurat.teams.rounds import star as star
from ziggurat.teams.swarming import Subtask as Subtask
from ziggurat.teams.swarming import swarm as swarm
from ziggurat.teams.visibility import Visibility as Visibility

__all__: list[str]
