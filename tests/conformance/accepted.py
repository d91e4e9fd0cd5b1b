"""The rules by which providers accept a request, as they publish them, and no other: none of this reads our code.

- OpenAI: its OpenAPI document (names of functions, ``call_id``, ``content`` of a message) and its errors (40 characters
  of an id); for strict mode, its guide to structured outputs.
- Mistral: the validator of mistral-common (order of roles, ids, names, empty messages, the last message).
- Gemini: the errors of its API (names of functions, parts without data, a schema beside tools) and its guide to
  thought signatures.
- DeepSeek: its guide to the thinking mode, which wants the thoughts of each message.
- Groq: the error that refuses a schema beside tools. vLLM, llama.cpp: they parse the arguments of earlier calls.
- Anthropic, and Bedrock with it: the errors of its API (ids, names, blank texts, property keys, order of results).
"""

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

Json = dict[str, Any]
Faults = Iterator[str]

NAME = r"[a-zA-Z0-9_-]{1,64}"
UNFIT = ("gemini", "groq")
"""The providers that refuse a schema of the answer in a request with tools."""


def faults(provider: str, body: bytes) -> list[str]:
    """Return why a provider refuses the body of a request; nothing if it accepts it."""
    request = json.loads(body)
    return list(_CHECKS.get(provider, _chat)(provider, request))


def _chat(provider: str, request: Json) -> Faults:
    messages = request["messages"]
    if not messages:
        yield "no messages"
    if provider in UNFIT and "tools" in request and "response_format" in request:
        yield "a schema of the answer beside tools"
    for tool in request.get("tools", ()):
        yield from _tool(provider, tool["function"])
    awaited: list[str] = []
    for at, message in enumerate(messages):
        role = message["role"]
        if role not in ("system", "developer", "user", "assistant", "tool"):
            yield f"message {at}: the role {role}"
        if role == "tool":
            if message["tool_call_id"] not in awaited:
                yield f"message {at}: no call {message['tool_call_id']!r} waits for a result"
            awaited = [each for each in awaited if each != message["tool_call_id"]]
            continue
        if awaited:
            yield f"message {at}: the calls {awaited} have no result"
        if role == "assistant":
            yield from _assistant(provider, at, message)
            awaited = [call["id"] for call in message.get("tool_calls", ())]
        elif message.get("content") is None:
            yield f"message {at}: no content"
    if provider == "mistral" and messages:
        yield from _mistral(messages)


def _tool(provider: str, function: Json) -> Faults:
    if not re.fullmatch(NAME, function["name"]):
        yield f"the tool {function['name']!r}"
    if provider == "gemini" and not re.match("[A-Za-z_]", function["name"]):
        yield f"the tool {function['name']!r} begins with no letter"


def _assistant(provider: str, at: int, message: Json) -> Faults:
    calls = message.get("tool_calls", [])
    content = message.get("content")
    if not calls and not content:
        yield f"message {at}: neither content nor calls"
    if not calls and isinstance(content, str) and not content.strip():
        yield f"message {at}: blank"
    if "tool_calls" in message and not calls:
        yield f"message {at}: an empty list of calls"
    if provider == "deepseek" and not message.get("reasoning_content"):
        yield f"message {at}: no thoughts"
    if len({call["id"] for call in calls}) < len(calls):
        yield f"message {at}: one id for two calls"
    for number, call in enumerate(calls):
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        if not re.fullmatch(NAME, name) or (provider == "gemini" and not re.match("[A-Za-z_]", name)):
            yield f"message {at}: the name {name!r}"
        if not 1 <= len(call["id"]) <= 40:
            yield f"message {at}: the id {call['id']!r}"
        if not isinstance(arguments, str) or not isinstance(_parsed(arguments), dict):
            yield f"message {at}: the arguments {arguments!r}"
        signed = call.get("extra_content", {}).get("google", {}).get("thought_signature")
        if provider == "gemini" and number == 0 and not signed:
            yield f"message {at}: a call without a signature"


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


_AFTER = {
    "system": ("user", "assistant", "system"),
    "user": ("assistant", "system", "user"),
    "assistant": ("assistant", "user", "tool"),
    "tool": ("assistant", "tool"),
}


def _mistral(messages: list[Json]) -> Faults:
    for before, message in pairwise(messages):
        if message["role"] not in _AFTER[before["role"]]:
            yield f"unexpected role {message['role']} after role {before['role']}"
    last = messages[-1]
    if last["role"] not in ("user", "tool") and not last.get("prefix"):
        yield "the last message is the model's"
    for message in messages:
        if message.get("prefix") and (message is not last or message["role"] != "assistant"):
            yield "prefix stands in the middle"
        ids = [call["id"] for call in message.get("tool_calls", ())]
        for each in (*ids, *([message["tool_call_id"]] if message["role"] == "tool" else ())):
            if not re.fullmatch("[a-zA-Z0-9]{9}", each):
                yield f"the id {each!r}"
        if message["role"] == "tool" and not re.fullmatch(NAME, message["name"]):
            yield f"the name {message['name']!r} of a result"


def _responses(provider: str, request: Json) -> Faults:
    for tool in request.get("tools", ()):
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]):
            yield f"the tool {tool['name']!r}"
    open_calls: list[str] = []
    for at, item in enumerate(request["input"]):
        kind = item.get("type", "message")
        if kind in ("function_call", "function_call_output") and not 1 <= len(item["call_id"]) <= 64:
            yield f"item {at}: the id {item['call_id']!r}"
        if kind == "function_call":
            open_calls.append(item["call_id"])
            if not re.fullmatch(NAME, item["name"]):
                yield f"item {at}: the name {item['name']!r}"
            if not isinstance(_parsed(item["arguments"]), dict):
                yield f"item {at}: the arguments {item['arguments']!r}"
        elif kind == "function_call_output":
            if item["call_id"] not in open_calls:
                yield f"item {at}: no call for the output"
            else:
                open_calls.remove(item["call_id"])
        elif kind == "message":
            if not item["content"] or (isinstance(item["content"], str) and not item["content"].strip()):
                yield f"item {at}: an empty message"
        elif kind == "reasoning":
            follows = request["input"][at + 1] if at + 1 < len(request["input"]) else {}
            if follows.get("role") == "user" or follows.get("type") == "function_call_output" or not follows:
                yield f"item {at}: reasoning without the item that follows it"
    if open_calls:
        yield f"the calls {open_calls} have no output"


def _anthropic(provider: str, request: Json) -> Faults:
    for tool in request.get("tools", ()):
        if not re.fullmatch(NAME, tool["name"]):
            yield f"the tool {tool['name']!r}"
        schema = tool["input_schema"]
        wrong = [key for key in schema.get("properties", {}) if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key)]
        if wrong:
            yield f"the property keys {wrong}"
        if not set(schema.get("required", ())) <= set(schema.get("properties", {})):
            yield f"required fields of {tool['name']} that there are not"
    seen: set[str] = set()
    awaited: list[str] = []
    messages = request["messages"]
    if not messages or messages[0]["role"] != "user":
        yield "the first message is not the user's"
    for at, message in enumerate(messages):
        role, blocks = message["role"], message["content"]
        if at and role == messages[at - 1]["role"] and role == "assistant":
            yield f"message {at}: two messages of the model"
        if not blocks:
            yield f"message {at}: no content"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(results) != sorted(awaited):
            yield f"message {at}: results of {results}, expected of {awaited}"
        if any(block["type"] != "tool_result" for block in blocks[: len(results)]):
            yield f"message {at}: results do not come first"
        awaited = []
        for block in blocks:
            if block["type"] == "text" and not block["text"].strip():
                yield f"message {at}: a blank text"
            if block["type"] in ("tool_use", "thinking", "redacted_thinking") and role != "assistant":
                yield f"message {at}: {block['type']} of {role}"
            if block["type"] == "tool_use":
                yield from _use(at, block, seen)
                awaited.append(block["id"])
        if role == "assistant" and blocks and "thinking" in blocks[-1]["type"]:
            yield f"message {at}: it ends with a thought"
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant" and last["content"] and last["content"][-1].get("text", "")[-1:].isspace():
        yield "the last text ends with a space"
    if awaited:
        yield f"the calls {awaited} have no result"


def _use(at: int, block: Json, seen: set[str]) -> Faults:
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["id"]):
        yield f"message {at}: the id {block['id']!r}"
    if block["id"] in seen:
        yield f"message {at}: the id {block['id']!r} is not unique"
    seen.add(block["id"])
    if not re.fullmatch(NAME, block["name"]):
        yield f"message {at}: the name {block['name']!r}"
    if not isinstance(block["input"], dict):
        yield f"message {at}: the input {block['input']!r}"


_CHECKS: dict[str, Callable[[str, Json], Faults]] = {"openai-responses": _responses, "anthropic": _anthropic}
