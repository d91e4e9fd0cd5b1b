# Written by tests/test_names.py from flows.py.
from ziggurat.agents.flow import Flow as Flow
from ziggurat.agents.flow import flow as flow
from ziggurat.agents.schedule import Schedule as Schedule
from ziggurat.agents.schedule import schedule as schedule
from ziggurat.calls.call_decision import Question as Question
from ziggurat.calls.call_decision import question_of as question_of
from ziggurat.calls.event import event as event
from ziggurat.calls.gather import first as first
from ziggurat.calls.gather import gather as gather
from ziggurat.calls.gather import quorum as quorum
from ziggurat.calls.gather import settled as settled
from ziggurat.calls.question import ask as ask
from ziggurat.calls.step import Arguments as Arguments
from ziggurat.calls.step import Step as Step
from ziggurat.calls.step import step as step
from ziggurat.calls.waiting import sleep as sleep
from ziggurat.core.clock import Cron as Cron
from ziggurat.core.clock import Every as Every
from ziggurat.core.clock import Recurrence as Recurrence
from ziggurat.core.clock import cron as cron
from ziggurat.core.clock import due_ticks as due_ticks
from ziggurat.core.clock import every as every
from ziggurat.runs.sending import send as send

__all__: list[str]
