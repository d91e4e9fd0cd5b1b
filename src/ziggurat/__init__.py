"""Ziggurat: models, tools, steps, agents and teams of agents are one thing, an async service.

``async (request, context) -> response``. Names are loaded when they are first used, so that importing costs little.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.agent import Agent as Agent
    from ziggurat.agents.callbacks import Callbacks as Callbacks
    from ziggurat.agents.runnable import Runnable as Runnable
    from ziggurat.agents.stop import (
        loop_detection as loop_detection,
        stop_when as stop_when,
        until_tool_called as until_tool_called,
    )
    from ziggurat.core.context import Context as Context, Key as Key
    from ziggurat.core.errors import (
        ConfigurationError as ConfigurationError,
        Denied as Denied,
        Timeout as Timeout,
        ToolError as ToolError,
        ZigguratError as ZigguratError,
    )
    from ziggurat.core.event import Event as Event
    from ziggurat.core.service import Service as Service, layer as layer, stack as stack
    from ziggurat.core.stream import open_stream as open_stream
    from ziggurat.messages.agent import (
        AgentRequest as AgentRequest,
        AgentRun as AgentRun,
        Approve as Approve,
        Deny as Deny,
        Modify as Modify,
    )
    from ziggurat.messages.message import (
        Image as Image,
        Message as Message,
        Text as Text,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
        user as user,
    )
    from ziggurat.messages.middleware import Middleware as Middleware
    from ziggurat.messages.model import (
        ModelRequest as ModelRequest,
        ModelResponse as ModelResponse,
        ModelSettings as ModelSettings,
    )
    from ziggurat.messages.usage import Budget as Budget, Usage as Usage
    from ziggurat.tools.approval import Approvals as Approvals, Rule as Rule
    from ziggurat.tools.function import raw_tool as raw_tool, tool as tool
    from ziggurat.tools.toolbox import Toolbox as Toolbox
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
