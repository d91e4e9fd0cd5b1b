"""Agents: a model and tools in a loop; the verbs that run, resume, replay, fork and steer it."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.agent import Agent as Agent
    from ziggurat.agents.checkpoints import Checkpoints as Checkpoints
    from ziggurat.agents.handle import RunHandle as RunHandle
    from ziggurat.agents.output import Output as Output
    from ziggurat.agents.remote_agent import a2a as a2a
    from ziggurat.agents.runnable import Runnable as Runnable
    from ziggurat.agents.steering import Steerable as Steerable
    from ziggurat.agents.stop import (
        Advice as Advice,
        Progress as Progress,
        max_steps as max_steps,
        stop_when as stop_when,
        until_no_tool_calls as until_no_tool_calls,
        until_tool_called as until_tool_called,
    )
    from ziggurat.agents.tool_input import AGENT_INPUT as AGENT_INPUT
    from ziggurat.messages.agent import (
        AgentRequest as AgentRequest,
        AgentRun as AgentRun,
        Answer as Answer,
        Approve as Approve,
        Decision as Decision,
        Deny as Deny,
        DidNotHappen as DidNotHappen,
        Happened as Happened,
        Modify as Modify,
        PendingItem as PendingItem,
    )
    from ziggurat.messages.usage import Budget as Budget
    from ziggurat.runs.options import Environment as Environment
    from ziggurat.runs.runs import runs_of as runs_of
    from ziggurat.tools.approval import Approvals as Approvals, Rule as Rule
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
