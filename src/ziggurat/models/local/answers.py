"""The answer once a tool has returned its result, which it contains unchanged."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolResult
from ziggurat.models.local.schema import words_of

_LONGEST_SENTENCE = 160
_NAMED = 5
_OTHERS = "choose another model, such as ollama:NAME or openai:NAME."


def rendered(result: ToolResult) -> str:
    """Return a tool's result as text for a sentence; lists and objects become ``name: value`` pairs."""
    value = result.value()
    try:
        return re.sub(r"\s+", " ", _as_text(value)).strip() if not isinstance(value, str) else value.strip()
    except RecursionError:  # nested hundreds of levels deep
        return result.text.strip()


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return ", ".join(f"{words_of(str(key))}: {_as_text(part)}" for key, part in value.items())
    if isinstance(value, Sequence):
        return ", ".join(_as_text(part) for part in value) if value else "nothing"
    return json.dumps(value)


def answer(result: ToolResult) -> str:
    """Return a sentence with a tool's result."""
    text = rendered(result)
    tool = words_of(result.name)
    if result.error is not None:
        return f"I could not get an answer: {tool} failed with: {text or result.error}"
    if not text:
        return "Done."
    value = result.value()
    end = "" if text.endswith((".", "!", "?")) else "."
    if isinstance(value, Mapping | list):
        return f"Here is what {tool} says: {text}{end}"
    if len(text) > _LONGEST_SENTENCE or "\n" in text:
        return text
    return f"{text}{end}" if text[0].isupper() else f"The answer is {text}{end}"


def declined(tools: Sequence[ToolSpec]) -> str:
    """Return the answer if no tool fits a request, or if there are no tools."""
    names = ", ".join(tool.name for tool in tools[:_NAMED]) + (", ..." if len(tools) > _NAMED else "")
    why = f"none of them ({names}) fits this request" if tools else "here are none"
    return f"I am a demo model that only calls tools, and {why}. For more, {_OTHERS}"


def unfound(what: str, missing: Sequence[str]) -> str:
    """Return the answer if a request lacks values; `what` is the tool or form that needs them."""
    names = ", ".join(repr(name) for name in missing)
    return (
        f"I am a demo model that copies values from the request, and found none for {names} of {what}. "
        f"State them in the request, or {_OTHERS}"
    )
