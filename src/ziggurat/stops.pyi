# Written by tests/test_names.py from stops.py.
from ziggurat.messages.stops import BudgetExceeded as BudgetExceeded
from ziggurat.messages.stops import Cancelled as Cancelled
from ziggurat.messages.stops import Completed as Completed
from ziggurat.messages.stops import Failed as Failed
from ziggurat.messages.stops import Incomplete as Incomplete
from ziggurat.messages.stops import LoopDetected as LoopDetected
from ziggurat.messages.stops import MaxSteps as MaxSteps
from ziggurat.messages.stops import ModelCallDenied as ModelCallDenied
from ziggurat.messages.stops import Stop as Stop
from ziggurat.messages.stops import StopCondition as StopCondition
from ziggurat.messages.stops import Suspended as Suspended
from ziggurat.messages.stops import TimedOut as TimedOut
from ziggurat.messages.stops import ToolCalled as ToolCalled
from ziggurat.messages.stops import status_of as status_of

__all__: list[str]
