"""Tools: services from a `ToolCall` to a `ToolResult`."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.tools.builtin import calculator as calculator, echo as echo, timestamp as timestamp
    from ziggurat.tools.entry import Tool as Tool
    from ziggurat.tools.function import FunctionTool as FunctionTool, raw_tool as raw_tool, tool as tool
    from ziggurat.tools.permissions import PermissionLog as PermissionLog
    from ziggurat.tools.results import process_result as process_result
    from ziggurat.tools.toolbox import Toolbox as Toolbox, quorum_join as quorum_join
    from ziggurat.tools.validator import SchemaValidator as SchemaValidator
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
