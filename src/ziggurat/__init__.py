"""Ziggurat: models, tools, steps, agents and teams of agents are one thing, an async service.

``async (request, context) -> response``. Names are loaded when they are first used, so that importing costs little.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ziggurat.agents.agent import Agent
    from ziggurat.agents.callbacks import Callbacks
    from ziggurat.agents.loop_detection import loop_detection
    from ziggurat.agents.runnable import Runnable
    from ziggurat.agents.stop import stop_when, until_tool_called
    from ziggurat.core.context import Context
    from ziggurat.core.errors import ConfigurationError, Denied, Timeout, ToolError, ZigguratError
    from ziggurat.core.event import Event
    from ziggurat.core.layer import layer, stack
    from ziggurat.core.scope import Key
    from ziggurat.core.service import Service
    from ziggurat.core.stream import open_stream
    from ziggurat.messages.agent import AgentRequest, AgentRun, Approve, Deny, Modify
    from ziggurat.messages.budget import Budget
    from ziggurat.messages.message import Message, user
    from ziggurat.messages.middleware import Middleware
    from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings
    from ziggurat.messages.parts import Image, Text, ToolCall, ToolResult
    from ziggurat.messages.usage import Usage
    from ziggurat.tools.approval import Approvals, Rule
    from ziggurat.tools.function import raw_tool, tool
    from ziggurat.tools.toolbox import Toolbox

_HOMES = {
    "Agent": "agents.agent",
    "AgentRequest": "messages.agent",
    "AgentRun": "messages.agent",
    "Approvals": "tools.approval",
    "Approve": "messages.agent",
    "Budget": "messages.budget",
    "Callbacks": "agents.callbacks",
    "ConfigurationError": "core.errors",
    "Context": "core.context",
    "Denied": "core.errors",
    "Deny": "messages.agent",
    "Event": "core.event",
    "Image": "messages.parts",
    "Key": "core.scope",
    "Message": "messages.message",
    "Middleware": "messages.middleware",
    "ModelRequest": "messages.model",
    "ModelResponse": "messages.model",
    "ModelSettings": "messages.model",
    "Modify": "messages.agent",
    "Rule": "tools.approval",
    "Runnable": "agents.runnable",
    "Service": "core.service",
    "Text": "messages.parts",
    "Timeout": "core.errors",
    "ToolCall": "messages.parts",
    "ToolError": "core.errors",
    "ToolResult": "messages.parts",
    "Toolbox": "tools.toolbox",
    "Usage": "messages.usage",
    "ZigguratError": "core.errors",
    "layer": "core.layer",
    "loop_detection": "agents.loop_detection",
    "open_stream": "core.stream",
    "raw_tool": "tools.function",
    "stack": "core.layer",
    "stop_when": "agents.stop",
    "tool": "tools.function",
    "until_tool_called": "agents.stop",
    "user": "messages.message",
}

__all__ = [
    "Agent",
    "AgentRequest",
    "AgentRun",
    "Approvals",
    "Approve",
    "Budget",
    "Callbacks",
    "ConfigurationError",
    "Context",
    "Denied",
    "Deny",
    "Event",
    "Image",
    "Key",
    "Message",
    "Middleware",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "Modify",
    "Rule",
    "Runnable",
    "Service",
    "Text",
    "Timeout",
    "ToolCall",
    "ToolError",
    "ToolResult",
    "Toolbox",
    "Usage",
    "ZigguratError",
    "layer",
    "loop_detection",
    "open_stream",
    "raw_tool",
    "stack",
    "stop_when",
    "tool",
    "until_tool_called",
    "user",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ziggurat' has no attribute {name!r}")
    value = getattr(import_module(f"ziggurat.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
