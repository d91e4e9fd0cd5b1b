"""Choosing the tool for a request: by meaning, and by whether the request has the values that the tool needs."""

from collections.abc import Sequence

import msgspec

from ziggurat.messages.model import ToolSpec
from ziggurat.models.local.copying import Copied, Copier, Embed
from ziggurat.models.local.minilm import Vector, cosine
from ziggurat.models.local.schema import Field, fields_of, words_of

_THRESHOLD = 0.25
"""The lowest score of a tool that is called."""
_STRICT, _LACKING, _UNUSED, _NAMED = 0.1, -0.25, -0.05, 0.1
"""Added per required number or address that is found or missing, per number left over, and for the name of the tool."""


class Described(msgspec.Struct, frozen=True):
    """A tool, prepared for comparison with requests."""

    name: str
    purpose: str
    fields: tuple[Field, ...]
    views: tuple[Vector, ...]


class Choice(msgspec.Struct, frozen=True):
    """A tool with the arguments found for it."""

    tool: str
    copied: Copied


def describe(tool: ToolSpec, embed: Embed) -> Described:
    """Prepare a tool for comparison; takes a few milliseconds per tool the first time."""
    plain = words_of(tool.name)
    fields = fields_of(tool.parameters)
    purpose = f"{plain}. {tool.description.strip()}".strip()
    inputs = "; ".join(field.label for field in fields)
    views = embed([plain, purpose.split(". ", 2)[1] if ". " in purpose else plain, f"{purpose} {inputs}"])
    return Described(tool.name, purpose, fields, tuple(views))


def choose(request: str, tools: Sequence[Described], embed: Embed, *, must: bool = False) -> Choice | None:
    """Return the best tool for a request with its arguments, or None if no tool fits."""
    vector = embed([request])[0]
    scored = []
    for tool in tools:
        copier = Copier(request, tool.fields, embed, tool.purpose)
        scored.append((_score(tool, copier, vector), tool.name, copier))
    score, name, copier = max(scored, key=lambda each: each[0])
    if score < _THRESHOLD and not must:
        return None
    return Choice(name, copier.copy())


def _score(tool: Described, copier: Copier, vector: Vector) -> float:
    meaning = sum(cosine(vector, view) for view in tool.views) / len(tool.views)
    filled = sum(field.name in copier.values for field in copier.strict)
    lacking = len(copier.strict) - filled
    named = set(words_of(tool.name).split()) <= set(copier.words.text.lower().split())
    return meaning + _NAMED * named + _STRICT * min(2, filled) + _LACKING * lacking + _UNUSED * copier.unused
