"""Tools: services from a `ToolCall` to a `ToolResult`.

- From a function: `function`, with `signature`, `inspection`, `docstring`, `parameter` and `schema`;
  `type_parts` and `pydantic_types` for the types of other libraries. From a JSON Schema written by hand: `raw_schema`.
- Checking arguments: `arguments`, `normal_form` with `plain`, `validator`, `schema_cost`, `schema_errors`.
- What a call needs: `permissions`, `approval` rules, `fork_effects`. The user's code runs in a `guarded_call`
  (`threads`, `thread_guard`), and only as it was approved; `results` makes its value fit for a conversation,
  `outcome` judges errors.
- A set of tools: `toolbox`. Ready-made ones: `builtin`, with `arithmetic`.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
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
