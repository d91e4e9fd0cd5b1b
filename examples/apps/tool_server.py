"""A small MCP server over standard input and output, for the example mcp_tools.py: a shelf with notes."""

import json
import sys

SHELF: list[str] = []
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [
    {"name": "find", "description": "Find notes with a text.", "inputSchema": TEXT},
    {"name": "keep", "description": "Keep a note.", "inputSchema": TEXT},
]


def answer(method: str, params: dict[str, object]) -> dict[str, object] | None:
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "shelf"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method != "tools/call":
        return None
    text = str(dict(params["arguments"])["text"])  # type: ignore[call-overload]
    if params["name"] == "keep":
        SHELF.append(text)
        return {"content": [{"type": "text", "text": f"kept as number {len(SHELF)}"}]}
    return {"content": [{"type": "text", "text": ", ".join(each for each in SHELF if text in each) or "nothing"}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    reply = {"error": {"code": -32601, "message": "unknown method"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}), flush=True)
