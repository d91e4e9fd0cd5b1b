"""Short follow-ups to the last call: "and in Rome?", "times two?", "now add 5 to that"."""

__all__ = ["followed"]

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ziggurat.models.local.arithmetic import expression_in
from ziggurat.models.local.choose import Described
from ziggurat.models.local.copying import Copier, Embed, is_expression
from ziggurat.models.local.minilm import cosine

_FOLLOWS = re.compile(r"\s*(?:and|or|what about|how about|what if it|then|now)\b", re.IGNORECASE)
_LEAD = re.compile(
    r"^\s*(?:(?:and|then|now|ok|okay|so|please|what about|how about|what is|what's|what if you)\b[\s,]*)+",
    re.IGNORECASE,
)
_BACK = re.compile(r"\b(?:that|it|this|the (?:result|answer|sum|product|total|number))\b", re.IGNORECASE)
_GOES_ON = re.compile(
    r"(?:times|plus|minus|over|squared|cubed|modulo|(?:divided|multiplied) by|to the|[-+*/\u00d7\u00f7])", re.IGNORECASE
)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_SHORT_WORDS = 8
_ALIKE = 0.25
"""How similar a text must be to the one it replaces."""


def followed(
    question: str, tool: Described, before: Mapping[str, Any], result: str, embed: Embed
) -> dict[str, Any] | None:
    """Return the arguments of the last call with what a follow-up changes, or None if the request is not a follow-up.

    Args:
        asked: The user's request.
        tool: The tool that was called last.
        before: The arguments of that call.
        result: Its result.
        embed: Computes embeddings of texts.
    """
    if len(question.split()) > _SHORT_WORDS:
        return None
    name = next((field.name for field in tool.fields if is_expression(field)), None)
    if name is not None:
        expression = _continued(question, result) if _NUMBER.fullmatch(result) else None
        return None if expression is None else {name: expression}
    if not _FOLLOWS.match(question):
        return None
    fields = [replace(field, required=True) for field in tool.fields if field.name in before]
    values = Copier(_LEAD.sub("", question), fields, embed, tool.purpose).copy().values
    news = {name: value for name, value in values.items() if _alike(value, before[name], embed)}
    return {**before, **news} if news else None


def _continued(question: str, result: str) -> str | None:
    """Return an expression that continues with the last number: "times two?"."""
    text = _LEAD.sub("", question)
    if _BACK.search(text):
        text = _BACK.sub(result, text)
    elif _GOES_ON.match(text):
        text = f"{result} {text}"
    else:
        return None
    return expression_in(text)


def _alike(new: Any, old: Any, embed: Embed) -> bool:
    if not isinstance(new, str):
        return type(new) is type(old) and new != old
    one, other = embed([new, str(old)])
    return cosine(one, other) >= _ALIKE
