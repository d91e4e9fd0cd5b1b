"""Tools: services from a `ToolCall` to a `ToolResult`."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "messages.parts": ("ToolCall", "ToolResult", "tool_call"),
        "tools.approval": ("Approvals", "Approver", "Rule"),
        "tools.builtin": ("calculator", "echo", "timestamp"),
        "tools.function": ("FunctionTool", "raw_tool", "tool"),
        "tools.permissions": ("PERMISSIONS", "PermissionCheck", "PermissionLog", "Permissions"),
        "tools.signature": ("RawSchema", "Signature"),
        "tools.toolbox": ("Quorum", "Tool", "ToolStatistics", "Toolbox", "quorum"),
        "tools.validator": ("SchemaValidator",),
    },
)
