"""The items of the output of OpenAI Responses, as JSON."""

from ziggurat.messages.parts import Text, Thinking, ToolCall
from ziggurat.wires.server_items import ApprovalRequest, ReplyPart, ServerCall
from ziggurat.wires.types import Json


def content_item(text: str, refused: bool) -> Json:
    """Return the content of a message."""
    if refused:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def item_of(part: ReplyPart, place: str, *, refused: bool = False, empty: bool = False) -> Json:
    """Return the item for a part of a reply."""
    status = "in_progress" if empty else "completed"
    if isinstance(part, Thinking):
        return _reasoning(part, place, empty=empty)
    if isinstance(part, ToolCall):
        arguments = "" if empty else part.arguments
        fixed = {"id": f"fc_{place}", "type": "function_call", "status": status}
        return fixed | {"call_id": part.id, "name": part.name, "arguments": arguments}
    if isinstance(part, ServerCall):
        return _server_call(part, place, empty=empty)
    if isinstance(part, ApprovalRequest):
        request = {"id": part.id, "type": "mcp_approval_request", "server_label": part.server}
        return request | {"name": part.name, "arguments": part.arguments}
    assert isinstance(part, Text)
    content = [] if empty else [content_item(part.text, refused)]
    return {"id": f"msg_{place}", "type": "message", "status": status, "role": "assistant", "content": content}


def _reasoning(part: Thinking, place: str, *, empty: bool) -> Json:
    summary = [] if empty or not part.text else [{"type": "summary_text", "text": part.text}]
    item: Json = {"id": part.id or f"rs_{place}", "type": "reasoning", "summary": summary}
    proof = part.signature or part.redacted
    return item | ({"encrypted_content": proof} if proof and not empty else {})


def _server_call(call: ServerCall, place: str, *, empty: bool) -> Json:
    """Return the item of a call of the server's tools; one that has no result at the end of a reply is incomplete."""
    status, output, error = "in_progress" if empty else "incomplete", None, None
    if call.result is not None and not empty:
        status = "completed" if call.result.error is None else "failed"
        if status == "completed":
            output = call.result.text
        else:
            error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": call.result.text}]}
    return {
        "id": f"mcp_{place}",
        "type": "mcp_call",
        "status": status,
        "server_label": call.server,
        "name": call.name,
        "arguments": "" if empty else call.arguments,
        "approval_request_id": call.approval,
        "output": output,
        "error": error,
    }


def place_of(item: Json, at: int) -> Json:
    """Return what names an item at a position in its events."""
    place: Json = {"item_id": item["id"], "output_index": at}
    if item["type"] == "message":
        place["content_index"] = 0
    elif item["type"] == "reasoning":
        place["summary_index"] = 0
    return place
