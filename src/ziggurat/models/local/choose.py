"""Choosing the tool for a request, by meaning and by whether its parameters can be filled."""

__all__ = ["THRESHOLD", "Described", "ToolChoice", "choose", "describe", "meant"]

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import msgspec

from ziggurat.models.local.arguments import Filled, fill
from ziggurat.models.local.kinds import SchemaParameter, parameters_of, words_of
from ziggurat.models.local.lexicon import word_set
from ziggurat.models.local.minilm import Vector, cosine
from ziggurat.models.local.reading import Embed, Reading, read, stems
from ziggurat.models.local.spans import SpanKind

THRESHOLD = 0.4
"""The lowest score of a tool that is called; below it the model answers without tools."""
_LACKING = 0.15
_FIT = 0.2
_COVERAGE = 0.2
_QUESTION = 0.05
_NAMED = 0.25
_FAR = 0.08
"""Below this similarity in meaning, it counts for little that the request would fill a tool's parameters."""
_SMALL = stems(" ".join(word_set("stop")))
_TELLING: tuple[SpanKind, ...] = ("path", "url", "email", "phone")
"""Kinds of span that fit few tools, and so point to the tools that they fit."""
_ASKS = re.compile(r"^(?:who|what|what's|where|when|which|why|how|is|are|was|were|does|did|any)\b", re.IGNORECASE)
_ADDRESSED = re.compile(r"\b(?:are|can|do|is|were) you\b|\byour? (?:name|self)\b|^you\b", re.IGNORECASE)


class Described(msgspec.Struct, frozen=True):
    """A tool, prepared for comparison with requests.

    Attributes:
        name: Its name.
        parameters: Its parameters.
        views: Embeddings of several descriptions of what it does.
        own: Stems of the words in its name, its description and its parameters.
        purpose: Stems of the words in its name and its description.
    """

    name: str
    parameters: tuple[SchemaParameter, ...]
    views: tuple[Vector, ...]
    own: frozenset[str] = frozenset()
    purpose: frozenset[str] = frozenset()


class ToolChoice(msgspec.Struct, frozen=True):
    """A tool with arguments for a request.

    Attributes:
        tool: Name of the tool.
        filled: Its arguments.
        score: How well it fits, from about 0 to 1; below the threshold it is not called.
    """

    tool: str
    filled: Filled
    score: float


def describe(name: str, description: str, schema: Mapping[str, Any], embed: Embed) -> Described:
    """Prepare a tool for comparison; takes a few milliseconds per tool the first time."""
    parameters = tuple(parameters_of(schema))
    purpose = stems(f"{words_of(name)} {description}") - _SMALL
    told = stems(" ".join(parameter.words for parameter in parameters)) - _SMALL
    return Described(
        name=name,
        parameters=parameters,
        views=tuple(embed(_views(name, description, parameters))),
        own=purpose | told,
        purpose=purpose,
    )


def _views(name: str, description: str, parameters: Sequence[SchemaParameter]) -> list[str]:
    plain = words_of(name)
    description = description.strip() or plain
    head = re.split(r"(?<=[.!?])\s", description, maxsplit=1)[0]
    inputs = "; ".join(parameter.words for parameter in parameters)
    return [
        plain,
        head,
        f"{plain}: {head}",
        f"{plain}. {description} {inputs}",
        f"I want to {head[:1].lower()}{head[1:]}",
        f"A question about {plain}.",
        f"Can you {plain}?",
    ]


def choose(request: str, tools: Sequence[Described], embed: Embed, today: date | None = None) -> list[ToolChoice]:
    """Return all tools with their arguments for a request, best first; "tomorrow" is relative to `today`."""
    reading = read(request, embed, today)
    vector = embed([request])[0]
    ranked = sorted((_choice(tool, reading, vector) for tool in tools), key=lambda choice: -choice.score)
    if ranked and not meant(ranked[0]):
        # Complete calls come before those that lack arguments, and a tool that takes any query answers questions.
        ranked.sort(key=lambda choice: not (meant(choice) or _is_open_question(choice, tools, request)))
        if _is_open_question(ranked[0], tools, request):
            ranked[0] = msgspec.structs.replace(ranked[0], score=max(THRESHOLD, ranked[0].score))
    return ranked


def meant(choice: ToolChoice) -> bool:
    """Return whether a choice is good enough to be called; one that lacks arguments needs a higher score."""
    return choice.score >= THRESHOLD + (_LACKING if choice.filled.missing else 0.0)


def _is_open_question(choice: ToolChoice, tools: Sequence[Described], request: str) -> bool:
    """Return whether a request is a question and a choice is a tool that takes any query."""
    if _ADDRESSED.search(request) or not _ASKS.search(request) or choice.filled.missing:
        return False
    return any(tool.name == choice.tool and _anything(tool) for tool in tools)


def _anything(tool: Described) -> bool:
    return any(part.want == "query" and part.required for part in tool.parameters)


def _choice(tool: Described, reading: Reading, vector: Vector) -> ToolChoice:
    nearness = [cosine(vector, view) for view in tool.views]
    meaning = sum(nearness) / len(nearness)
    spoken, named = _without_tool_name(tool.name, reading.text)
    if named:
        reading = read(spoken, reading.embed, reading.today)
    reading = msgspec.structs.replace(reading, own=tool.own, purpose=tool.purpose)
    filled = fill(tool.parameters, reading)
    score = meaning + _FIT * filled.fit + _COVERAGE * filled.coverage
    if named:
        score += _NAMED
    anything = _anything(tool)
    if _ADDRESSED.search(reading.text):
        score -= _QUESTION
    elif anything and _ASKS.search(reading.text):
        score += _QUESTION
    if meaning < _FAR and not (named or anything or reading.of(*_TELLING)):
        score -= _COVERAGE
    return ToolChoice(tool=tool.name, filled=filled, score=score)


def _without_tool_name(name: str, text: str) -> tuple[str, bool]:
    """Return a request without words that name the tool ("with echo", "use the calculator to"), and if it had any."""
    plain = r"[\s_-]?".join(re.escape(word) for word in words_of(name).split())
    there = re.compile(
        rf"\s*\b(?:with|using|via|through|use|call|run)\s+(?:the\s+)?(?:tool\s+)?{plain}\b"
        r"(?:\s+tool)?(?:\s*[:,]|\s+(?:to|and))?",
        re.IGNORECASE,
    )
    spoken = there.sub("", text, count=1).strip()
    return (spoken, True) if spoken != text.strip() and spoken else (text, False)
