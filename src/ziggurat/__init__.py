"""Ziggurat: models, tools, steps, agents and teams of agents are one thing, an async service.

``async (request, context) -> response``. Names are loaded when they are first used, so that importing costs little.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

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
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "agents.agent": ("Agent",),
            "agents.callbacks": ("Callbacks",),
            "agents.loop_detection": ("loop_detection",),
            "agents.runnable": ("Runnable",),
            "agents.stop": ("stop_when", "until_tool_called"),
            "core.context": ("Context",),
            "core.errors": ("ConfigurationError", "Denied", "Timeout", "ToolError", "ZigguratError"),
            "core.event": ("Event",),
            "core.layer": ("layer", "stack"),
            "core.scope": ("Key",),
            "core.service": ("Service",),
            "core.stream": ("open_stream",),
            "messages.agent": ("AgentRequest", "AgentRun", "Approve", "Deny", "Modify"),
            "messages.budget": ("Budget",),
            "messages.message": ("Message", "user"),
            "messages.middleware": ("Middleware",),
            "messages.model": ("ModelRequest", "ModelResponse", "ModelSettings"),
            "messages.parts": ("Image", "Text", "ToolCall", "ToolResult"),
            "messages.usage": ("Usage",),
            "tools.approval": ("Approvals", "Rule"),
            "tools.function": ("raw_tool", "tool"),
            "tools.toolbox": ("Toolbox",),
        },
    )

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
