"""The schemas of what tools return: those of objects, the values of which are structured content of results."""

from typing import Any

from ziggurat.agents.flow_program import FlowProgram
from ziggurat.agents.loop import AgentLoop
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import innermost, returns_of
from ziggurat.messages.parts import Audio, File, Image, Text, ToolResult
from ziggurat.tools.function import FunctionTool
from ziggurat.tools.schema import schema_of


def output_schema(tool: object) -> dict[str, Any] | None:
    """Return the schema of what a function, an agent or a flow returns; None if it is no object, or is not known."""
    inner = innermost(tool)
    if isinstance(inner, FlowProgram):
        schema = inner.returns.schema
    elif isinstance(inner, AgentLoop):
        schema = {} if inner.settings.output is None else inner.settings.output.schema
    else:
        kind: Any = returns_of(inner.function if isinstance(inner, FunctionTool) else inner)
        if isinstance(kind, type) and issubclass(kind, (Text, Image, Audio, File, ToolResult)):
            return None
        try:
            schema = schema_of(kind)
        except ConfigurationError:
            return None
    return schema if schema.get("type") == "object" else None
