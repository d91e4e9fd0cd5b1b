"""Results of tools, and resources, as MCP has them."""

from base64 import b64encode
from typing import Any

from ziggurat.agents.flow_program import FlowProgram
from ziggurat.agents.loop import AgentLoop
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import innermost, returns_of
from ziggurat.messages.message import Audio, File, Image, Text, ToolResult
from ziggurat.messages.model import ToolSpec
from ziggurat.tools.function import FunctionTool
from ziggurat.tools.schema import schema_of

Json = dict[str, Any]


def tool_of(spec: ToolSpec, output: Json | None) -> Json:
    reads = spec.effect == "none"
    hints = {"readOnlyHint": reads, "destructiveHint": not reads, "idempotentHint": spec.effect != "once"}
    return {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": {"type": "object", **spec.parameters},
        "annotations": hints,
        **({} if output is None else {"outputSchema": output}),
    }


def result_of(result: ToolResult, *, structured: bool = False) -> Json:
    written: Json = {"content": [content_of(part) for part in _parts(result)], "isError": result.error is not None}
    if structured and result.error is None:
        value = result.value()
        return written | ({"structuredContent": value} if isinstance(value, dict) else {"isError": True})
    return written


def messages_of(result: ToolResult) -> list[Json]:
    return [{"role": "user", "content": content_of(part)} for part in _parts(result)]


def resource_contents(result: ToolResult, uri: str, media_type: str | None) -> list[Json]:
    kind = {} if media_type is None else {"mimeType": media_type}
    found: list[Json] = []
    for part in _parts(result):
        if isinstance(part, Text):
            found.append({"uri": uri, "mimeType": media_type or "text/plain", "text": part.text})
        else:
            found.append(_resource(part.data or b"", uri, media_type or part.media_type) | kind)
    return found


def content_of(part: Text | Image | Audio | File) -> Json:
    """Return a part of a result; one that the client is to fetch is a link."""
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.data is None:
        link = part.url or ""
        return {
            "type": "resource_link",
            "uri": link,
            "name": link.rpartition("/")[2] or link,
            "mimeType": part.media_type,
        }
    if isinstance(part, File):
        uri = part.url or f"file:///{part.name or 'file'}"
        return {"type": "resource", "resource": _resource(part.data, uri, part.media_type)}
    kind = "image" if isinstance(part, Image) else "audio"
    return {"type": kind, "data": b64encode(part.data).decode(), "mimeType": part.media_type}


def _resource(data: bytes, uri: str, media_type: str) -> Json:
    if media_type.startswith("text/") or media_type == "application/json":
        return {"uri": uri, "mimeType": media_type, "text": data.decode("utf-8", "replace")}
    return {"uri": uri, "mimeType": media_type, "blob": b64encode(data).decode()}


def _parts(result: ToolResult) -> "tuple[Text | Image | Audio | File, ...]":
    return (Text(result.content),) if isinstance(result.content, str) else result.content


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
