"""Tools: services from a `ToolCall` to a `ToolResult`.

- From a function: `function`, with `signature`, `inspection`, `docstring`, `parameter` and `schema`;
  `type_parts` and `pydantic_types` for the types of other libraries. From a JSON Schema written by hand: `raw_schema`.
- Checking arguments: `arguments`, `normal_form` with `plain`, `validator`, `schema_cost`, `schema_errors`; names that
  are `similar`.
- What a call needs: `permissions`, `approval` rules, `fork_effects`. The user's code runs in a `guarded_call`
  (`threads`, `thread_guard`), and only the `frozen` call; `results` makes its value fit for a conversation,
  `outcome` judges errors.
- A set of tools: `toolbox`. Ready-made ones: `builtin`, with `arithmetic`.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.messages.parts import ToolCall, ToolResult, tool_call
    from ziggurat.tools.approval import Approvals, Approver, Rule
    from ziggurat.tools.builtin import calculator, echo, timestamp
    from ziggurat.tools.function import FunctionTool, raw_tool, tool
    from ziggurat.tools.permissions import PERMISSIONS, PermissionCheck, PermissionLog, Permissions
    from ziggurat.tools.raw_schema import RawSchema
    from ziggurat.tools.signature import Signature
    from ziggurat.tools.toolbox import Quorum, Tool, Toolbox, ToolStatistics, quorum
    from ziggurat.tools.validator import SchemaValidator
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "messages.parts": ("ToolCall", "ToolResult", "tool_call"),
            "tools.approval": ("Approvals", "Approver", "Rule"),
            "tools.builtin": ("calculator", "echo", "timestamp"),
            "tools.function": ("FunctionTool", "raw_tool", "tool"),
            "tools.permissions": ("PERMISSIONS", "PermissionCheck", "PermissionLog", "Permissions"),
            "tools.raw_schema": ("RawSchema",),
            "tools.signature": ("Signature",),
            "tools.toolbox": ("Quorum", "Tool", "ToolStatistics", "Toolbox", "quorum"),
            "tools.validator": ("SchemaValidator",),
        },
    )

__all__ = [
    "PERMISSIONS",
    "Approvals",
    "Approver",
    "FunctionTool",
    "PermissionCheck",
    "PermissionLog",
    "Permissions",
    "Quorum",
    "RawSchema",
    "Rule",
    "SchemaValidator",
    "Signature",
    "Tool",
    "ToolCall",
    "ToolResult",
    "ToolStatistics",
    "Toolbox",
    "calculator",
    "echo",
    "quorum",
    "raw_tool",
    "timestamp",
    "tool",
    "tool_call",
]
