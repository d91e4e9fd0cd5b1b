"""Ziggurat: models, tools, steps, agents and teams of agents are one thing, an async service.

``async (request, context) -> response``. Names are loaded when they are first used, so that importing costs little.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "agents.agent": ("Agent",),
        "agents.callbacks": ("Callbacks",),
        "agents.runnable": ("Runnable",),
        "agents.stop": ("loop_detection", "stop_when", "until_tool_called"),
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
