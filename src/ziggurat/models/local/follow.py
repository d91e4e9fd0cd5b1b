"""Short follow-ups to the last call: "and in Rome?", "times two?", "now add 5 to that"."""

__all__ = ["followed"]

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

import msgspec

from ziggurat.models.local.arguments import Filled, fill
from ziggurat.models.local.arithmetic import expression_in
from ziggurat.models.local.choose import THRESHOLD, Described, ToolChoice
from ziggurat.models.local.lexicon import word_set
from ziggurat.models.local.reading import Embed, read, stems

_FOLLOWS = re.compile(r"\s*(?:and|or|what about|how about|what if it|then|now)\b", re.IGNORECASE)
_LEAD = re.compile(
    r"^\s*(?:(?:and|then|now|ok|okay|so|please|what about|how about|what is|what's|what if you)\b[\s,]*)+",
    re.IGNORECASE,
)
_BACK = re.compile(r"\b(?:that|it|this|the (?:result|answer|sum|product|total|number))\b", re.IGNORECASE)
_GOES_ON = re.compile(
    r"(?:times|plus|minus|over|squared|cubed|modulo|(?:divided|multiplied) by|to the|[-+*/\u00d7\u00f7])", re.IGNORECASE
)
_STEP = re.compile(r"(?:add|subtract|multiply by|divide by) -?\d", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_SHORT_WORDS = 8
_SMALL = word_set("stop") | {"same", "instead", "thing", "again"}
_SURE = 0.5


def followed(
    asked: str, tool: Described, before: Mapping[str, Any], result: str, embed: Embed, today: date | None = None
) -> ToolChoice | None:
    """Return the last call with what the follow-up changes, or None if the request is not a follow-up.

    The score is 1 if the request says nothing else; it is the threshold if it says more, which may be another wish.

    Args:
        asked: The user's request.
        tool: The tool that was called last.
        before: The arguments of that call; those that are not said again stay.
        result: Its result.
        embed: Computes embeddings of texts.
        today: The day to which "tomorrow" is relative.
    """
    if len(asked.split()) > _SHORT_WORDS:
        return None
    worked_on = _continue_sum(asked, tool, result)
    if worked_on is not None:
        return _choice(tool, worked_on, 1.0)
    news = _changes(asked, tool, before, embed, today) if _FOLLOWS.match(asked) else None
    if not news:
        return None
    said = " ".join(str(value) for value in news.values()).lower()
    words = [word for word in re.findall(r"[a-z']{2,}", asked.lower()) if word not in _SMALL]
    more = any(word not in said and not stems(word) <= tool.own for word in words)
    return _choice(tool, {**before, **news}, THRESHOLD if more else 1.0)


def _choice(tool: Described, arguments: dict[str, Any], score: float) -> ToolChoice:
    return ToolChoice(
        tool=tool.name, filled=Filled(arguments=arguments, missing=(), fit=1.0, coverage=1.0), score=score
    )


def _continue_sum(asked: str, tool: Described, result: str) -> dict[str, Any] | None:
    """Return an expression that continues with the last number: "times two?"."""
    name = next((parameter.name for parameter in tool.parameters if parameter.want == "expression"), None)
    if name is None or not _NUMBER.fullmatch(result):
        return None
    text = _LEAD.sub("", asked)
    if _BACK.search(text):
        text = _BACK.sub(result, text)
    elif _GOES_ON.match(text):
        text = f"{result} {text}"
    elif _STEP.match(text):
        text = f"{result}, then {text}"
    else:
        return None
    expression = expression_in(text)
    return None if expression is None else {name: expression}


def _changes(
    asked: str, tool: Described, before: Mapping[str, Any], embed: Embed, today: date | None
) -> dict[str, Any] | None:
    """Return the arguments that the request clearly states, if they are complete together with the last call's."""
    reading = msgspec.structs.replace(read(asked, embed, today), own=tool.own, purpose=tool.purpose)
    whole = fill(tool.parameters, reading)
    if whole.arguments and not whole.missing and whole.fit >= _SURE:
        return whole.arguments
    sure = fill([msgspec.structs.replace(parameter, required=False) for parameter in tool.parameters], reading)
    known = before.keys() | sure.arguments.keys()
    complete = all(parameter.name in known for parameter in tool.parameters if parameter.required)
    return sure.arguments if complete else None
