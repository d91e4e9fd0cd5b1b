# Written by tests/test_names.py from __init__.py.
from ziggurat.messages.parts import ToolCall as ToolCall
from ziggurat.messages.parts import ToolResult as ToolResult
from ziggurat.messages.parts import tool_call as tool_call
from ziggurat.tools.approval import Approvals as Approvals
from ziggurat.tools.approval import Approver as Approver
from ziggurat.tools.approval import Rule as Rule
from ziggurat.tools.builtin import calculator as calculator
from ziggurat.tools.builtin import echo as echo
from ziggurat.tools.builtin import timestamp as timestamp
from ziggurat.tools.function import FunctionTool as FunctionTool
from ziggurat.tools.function import raw_tool as raw_tool
from ziggurat.tools.function import tool as tool
from ziggurat.tools.permissions import PERMISSIONS as PERMISSIONS
from ziggurat.tools.permissions import PermissionCheck as PermissionCheck
from ziggurat.tools.permissions import PermissionLog as PermissionLog
from ziggurat.tools.permissions import Permissions as Permissions
from ziggurat.tools.signature import RawSchema as RawSchema
from ziggurat.tools.signature import Signature as Signature
from ziggurat.tools.toolbox import Quorum as Quorum
from ziggurat.tools.toolbox import Tool as Tool
from ziggurat.tools.toolbox import Toolbox as Toolbox
from ziggurat.tools.toolbox import ToolStatistics as ToolStatistics
from ziggurat.tools.toolbox import quorum as quorum
from ziggurat.tools.validator import SchemaValidator as SchemaValidator

__all__: list[str]
