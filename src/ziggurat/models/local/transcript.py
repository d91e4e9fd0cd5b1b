"""A conversation in the form of chat templates."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.messages.parts import ToolResult
from ziggurat.models.local.engine import ChatTemplate
from ziggurat.models.local.replies import calls_prompt, reply_tool, schema_prompt

ChatMessage = dict[str, Any]


def chat_messages(request: ModelRequest, tools: Sequence[ToolSpec], template: ChatTemplate) -> list[ChatMessage]:
    """Return the conversation; what the template cannot express is put into text."""
    system = "\n\n".join(_system(request, tools, template))
    messages: list[ChatMessage] = [{"role": "system", "content": system}] if system else []
    for message in request.messages:
        _append(messages, _native(message) if template.calls else _plain(message))
    if not template.system and system:
        messages.pop(0)
        at = next((at for at, message in enumerate(messages) if message["role"] == "user"), None)
        if at is None:
            return [{"role": "user", "content": system}, *messages]
        messages[at] = {"role": "user", "content": f"{system}\n\n{messages[at]['content']}"}
    return messages


def tool_functions(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Return tools in the form that chat templates expect, and the one that stands for an answer."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in (*tools, reply_tool(tools))
    ]


def _system(request: ModelRequest, tools: Sequence[ToolSpec], template: ChatTemplate) -> Iterator[str]:
    if request.instructions:
        yield request.instructions
    if tools:
        yield calls_prompt(reply_tool(tools).name)
        if not template.tools:
            yield "\n".join(("The functions:", *(json.dumps(tool) for tool in tool_functions(tools))))
    elif request.output is not None:
        yield schema_prompt(request.output.schema)


def _append(messages: list[ChatMessage], more: Iterator[ChatMessage]) -> None:
    """Add messages; templates expect turns, so texts of one role that follow each other become one message."""
    for message in more:
        last = messages[-1] if messages else {}
        if message.keys() == last.keys() == {"role", "content"} and message["role"] == last["role"]:
            messages[-1] = {**message, "content": f"{last['content']}\n{message['content']}"}
        else:
            messages.append(message)


def _native(message: Message) -> Iterator[ChatMessage]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    if calls:
        yield {"role": "assistant", "content": message.text, "tool_calls": calls}
    elif message.text:
        yield {"role": "user" if message.role == "tool" else message.role, "content": message.text}
    for result in message.tool_results:
        yield {"role": "tool", "tool_call_id": result.id, "name": result.name, "content": _content(result)}


def _plain(message: Message) -> Iterator[ChatMessage]:
    lines = [message.text] if message.text else []
    if message.tool_calls:
        written = (f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}' for call in message.tool_calls)
        lines.append(f"[{', '.join(written)}]")
    lines += [f"Result of {result.name}: {_content(result)}" for result in message.tool_results]
    if lines:
        yield {"role": "user" if message.role == "tool" else message.role, "content": "\n".join(lines)}


def _content(result: ToolResult) -> str:
    return result.text if result.error is None else f"error: {result.text or result.error}"
