"""Generating the arguments that a request does not state, under a schema narrowed to what it allows."""

__all__ = ["arguments_prompt", "arguments_schema"]

import re
from collections.abc import Mapping
from typing import Any

from ziggurat.models.local.choose import Described, ToolChoice
from ziggurat.models.local.kinds import SchemaParameter
from ziggurat.models.local.phrases import noun_phrases

_EXAMPLES = """\
Request: Could you find me a quiet hotel in Athens for 3 people?
Tool: find_hotel(city: City to stay in; guests: How many guests; wish: What the room should be)
Arguments: {"city": "Athens", "guests": 3, "wish": "quiet"}

Request: Tell Maria that the train is late.
Tool: send_message(to: Who gets it; text: What to say)
Arguments: {"to": "Maria", "text": "the train is late"}
"""
_FREE = 120


def arguments_prompt(request: str, tool: Described) -> str:
    """Return a prompt of two examples, the request and the tool, which ends where the arguments begin."""
    line = re.sub(r"\s+", " ", request).strip()
    inputs = "; ".join(f"{parameter.name}: {parameter.words}" for parameter in tool.parameters)
    return f"{_EXAMPLES}\nRequest: {line}\nTool: {tool.name}({inputs})\nArguments:"


def arguments_schema(request: str, tool: Described, choice: ToolChoice, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tool's schema, narrowed to what the request allows.

    Values that were found are fixed; a text that was not found must be one of the phrases of the request. Only required
    and found parameters are included.
    """
    filled = choice.filled
    properties: dict[str, Any] = {}
    for parameter in tool.parameters:
        if parameter.name in filled.arguments:
            properties[parameter.name] = {"const": filled.arguments[parameter.name]}
        elif parameter.required:
            properties[parameter.name] = _narrow(parameter, request)
    narrowed: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    for place in ("$defs", "definitions"):
        if place in schema:
            narrowed[place] = schema[place]
    return narrowed


def _narrow(parameter: SchemaParameter, request: str) -> dict[str, Any]:
    schema = dict(parameter.schema)
    free = schema.get("type", "string") == "string" and not schema.keys() & {"enum", "const", "format", "pattern"}
    if free:
        phrases = noun_phrases(request, ())
        return {"enum": phrases} if phrases else {"type": "string", "maxLength": _FREE}
    return schema
