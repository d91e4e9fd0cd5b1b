"""Conversations with every fault that a model or a provider can make, as our readers read them from its replies."""

import json
import random
from importlib import import_module
from typing import Any

import msgspec

from tests.conformance.requests import ROOMS
from ziggurat import Image, Message, Text, ToolCall, ToolResult, user
from ziggurat.messages import ToolSpec, assistant, system, tool_message
from ziggurat.messages.conversation import Conversation, unrepeated
from ziggurat.messages.message import fit
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.wires.types import Wire

Json = dict[str, Any]

WIRES: dict[str, Wire] = {
    "openai": "chat", "azure": "chat", "mistral": "chat", "gemini": "chat", "groq": "chat", "deepseek": "chat",
    "openrouter": "chat", "vllm": "chat", "llamacpp": "chat", "openai-responses": "responses", "anthropic": "messages",
}  # fmt: skip
TOOLS = (
    ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}),
    ToolSpec(
        "2fa_list",
        "List.",
        {
            "type": "object",
            "properties": {
                "$top": {"type": "integer"},
                "filter[name]": {"type": "string"},
                "x" * 70: {"type": "string"},
            },
            "required": ["$top"],
        },
    ),
)
NAMES = [
    "add", "2fa_list", "functions.add", "invalid tool", "", "add<|channel|>commentary", "x" * 200, "суммировать", "-a",
    "multi_tool_use.parallel", "a\nb", "mcp:server/add", "\ud800",
]  # fmt: skip
ARGUMENTS = [
    '{"a": 1, "b": 2}', '{"$top": 5, "filter[name]": "x"}', "", "  ", "null", "[]", '""', "5", '{"a": 1, "b": ',
    "{'a': 1}", '{"a":1}{"b":2}', "NaN", '{"a": NaN}', "[" * 300, '"\\ud800"', "\ud800", '{"' + "k" * 99 + '": null}',
    "<|tool|>", '{"a": 1, "b": 2} ok?',
]  # fmt: skip
IDS = [
    "call_AbCdEf0123456789abcdefgh", "toolu_01A09q90qw90lq917835lq9", "functions.add:0", "call_0", "D681PevKs", "1",
    "chatcmpl-tool-8bb935a8982082a58bb935a8982082a5", "c" * 90, "вызов", "call|fc_1", " ", "",
]  # fmt: skip
TEXTS = ["", " \n", "\u200b", "Done.", "It is 3. ", "I add.\n"]


def conversation(provider: str, dice: random.Random) -> list[Message]:
    """Return a conversation in which a provider's model made faults, with the runtime's answers to them."""
    log = Conversation([user("1 + 2?")] if dice.random() < 0.8 else [assistant("Hello!"), user("1 + 2?")])
    for _ in range(dice.randint(1, 4)):
        said = _reply(provider, dice)
        said = unrepeated(fit(said), log.view())
        log.append(said)
        for call in said.tool_calls:
            log.append(tool_message(_result(call, dice)))
        if not said.tool_calls or dice.random() < 0.4:
            log.append(dice.choice([user("And then?"), user("Go on.", name="Ann Lee"), system("Be brief.")]))
    return [*log.log, *([assistant("It is ")] if dice.random() < 0.1 and log.log[-1].role == "user" else [])]


def _result(call: ToolCall, dice: random.Random) -> ToolResult:
    content: Any = dice.choice(["3", "", (Text("See:"), Image(b"x")), "the tool does not exist"])
    return ToolResult(call.id, call.name, content, dice.choice([None, "invalid_arguments"]))


def _reply(provider: str, dice: random.Random) -> Message:
    text = dice.choice(TEXTS)
    calls = [
        (dice.choice(IDS), dice.choice(NAMES), dice.choice(ARGUMENTS)) for _ in range(dice.choice([0, 0, 1, 1, 2, 3]))
    ]
    if provider == "by hand":
        made = [ToolCall(name, tool, arguments) for name, tool, arguments in calls]
        return assistant(*([Text(text)] if text else []), *made)
    wire = WIRES[provider]
    body = {"chat": _chat, "responses": _responses, "messages": _anthropic}[wire](text, calls, dice)
    read = import_module(f"ziggurat.models.{ROOMS[wire]}").from_wire
    message: Message = read(json.dumps(body).encode(), DIALECTS[provider]).message
    return message


Calls = list[tuple[str, str, str]]


def _chat(text: str, calls: Calls, dice: random.Random) -> Json:
    made = [{"id": name, "function": {"name": tool, "arguments": arguments}} for name, tool, arguments in calls]
    thought = {dice.choice(["reasoning", "reasoning_content"]): "I add."} if dice.random() < 0.3 else {}
    message = {"role": "assistant", "content": text or None, **thought, **({"tool_calls": made} if made else {})}
    return {"id": "1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def _responses(text: str, calls: Calls, dice: random.Random) -> Json:
    output: list[Json] = []
    if dice.random() < 0.3:
        output.append({"type": "reasoning", "id": f"rs_{dice.random()}", "summary": [], "encrypted_content": "x"})
    if text or not calls:
        content = [{"type": "output_text", "text": text or "Well.", "annotations": []}]
        output.append({"type": "message", "id": f"msg_{dice.random()}", "role": "assistant", "content": content})
    for name, tool, arguments in calls:
        output.append({"type": "function_call", "call_id": name, "name": tool, "arguments": arguments})
    return {"id": "1", "status": "completed", "output": output}


def _anthropic(text: str, calls: Calls, dice: random.Random) -> Json:
    content: list[Json] = []
    if dice.random() < 0.3:
        content.append({"type": "thinking", "thinking": "I add.", "signature": "s"})
    content.append({"type": "text", "text": text})
    for name, tool, arguments in calls:
        if "\ud800" in tool + arguments:
            continue  # half of a surrogate pair makes the whole reply malformed on this wire
        try:
            value = msgspec.json.decode(arguments)
        except (ValueError, RecursionError):
            value = arguments
        content.append({"type": "tool_use", "id": name, "name": tool, "input": value})
    return {"id": "1", "type": "message", "role": "assistant", "content": content, "stop_reason": "end_turn"}
