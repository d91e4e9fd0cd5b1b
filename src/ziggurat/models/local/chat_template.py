"""What the chat template in a GGUF file can express, as llama.cpp reports it."""

import http.client
import json
import socket
from typing import Any, Literal

import msgspec

from ziggurat.core.errors import ModelError

Thinking = Literal["never", "optional", "begun"]
"""Whether a model thinks before it replies; `begun` if its chat template opens the thought."""

_SILENCE = 60.0


class ChatTemplate(msgspec.Struct, frozen=True):
    """What a chat template can express; everything else has to be put into text."""

    system: bool = True
    tools: bool = False
    calls: bool = False
    thinking: Thinking = "never"


def read_template(address: str, key: str) -> ChatTemplate:
    """Ask a llama.cpp server for its chat template."""
    try:
        properties = _ask(address, key, "GET", "/props")
        hello = {"messages": [{"role": "user", "content": "Hello"}]}
        prompt = str(_ask(address, key, "POST", "/apply-template", hello)["prompt"])
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        raise ModelError(f"llama.cpp does not tell the model's chat template: {error!r}", transient=False) from error
    can = properties.get("chat_template_caps", {})
    thinks = "<think>" in str(properties.get("chat_template", ""))
    begun = prompt.rstrip().endswith("<think>")
    return ChatTemplate(
        system=bool(can.get("supports_system_role", True)),
        tools=bool(can.get("supports_tools")),
        calls=bool(can.get("supports_tool_calls")),
        thinking="begun" if begun else "optional" if thinks else "never",
    )


def _ask(address: str, key: str, method: str, path: str, body: Any = None) -> dict[str, Any]:
    if address.startswith("unix://"):
        connection = http.client.HTTPConnection("localhost", timeout=_SILENCE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(_SILENCE)
        connection.sock.connect(address.removeprefix("unix://"))
    else:
        connection = http.client.HTTPConnection(address.removeprefix("http://").rstrip("/"), timeout=_SILENCE)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != http.HTTPStatus.OK:
            raise ValueError(f"{path} answered {answer.status}")
        read: dict[str, Any] = json.loads(answer.read())
        return read
    finally:
        connection.close()
