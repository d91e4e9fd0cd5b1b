"""The texts of plan, execute and verify: a numbered list of steps, and a verdict."""

import re
from json import JSONDecodeError, JSONDecoder
from typing import Any

from msgspec import Struct

from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.limits import check_depth

DONE = "step completed"
"""What is expected of a step that does not say it."""

_STEP = re.compile(r"\s*(?:[-*]\s+)?(?:\*\*)?\d+[.)](?:\*\*)?\s+(.*\S)")
_FIELD = re.compile(r"\|\s*(tool|arguments|expected)\s*:\s*", re.IGNORECASE)
_NONE = frozenset({"", "none", "null", "-", "n/a"})
_NUMBER = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(%?)")
_NOT = re.compile(
    r"\b(?:NOT|NEVER|HARDLY|BARELY|CANNOT|NOTHING|LITTLE|PARTIALLY|PARTLY|INCOMPLETELY|YET|REMAINS?|[A-Z]+N['\u2019]T)\b"
    r"(?:[\s_*-]+[A-Z'\u2019]+){0,3}?[\s_*-]+ACHIEVED"
    r"|NOT_+ACHIEVED|UN-?ACHIEVED"
    r"|ACHIEVED[\"'`*_ ]{0,6}[:=?][\"'`*_ ]{0,6}(?:NOT\b|(?:NO|FALSE)\b(?! +[A-Z]))"
)


class PlannedStep(Struct, frozen=True):
    """A step as a model has planned it.

    Attributes:
        description: What is to be done.
        tool: The tool to call, None for none.
        arguments: Its arguments; None if the model has not stated any that can be read.
        expected: What it should give.
    """

    description: str
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    expected: str = DONE


class Verification(Struct, frozen=True):
    """The verdict on a plan that was executed.

    Attributes:
        achieved: Whether the goal was achieved.
        confidence: How sure that is, from 0 to 1.
        issues: What is wrong.
        raw_response: The reply of the verifier.
    """

    achieved: bool
    confidence: float
    issues: tuple[str, ...] = ()
    raw_response: str = ""

    @property
    def is_confident_success(self) -> bool:
        """Whether the goal was achieved with a confidence of more than 0.5."""
        return self.achieved and self.confidence > 0.5


def read_plan(reply: str) -> tuple[PlannedStep, ...]:
    """Return the steps of a plan, such as ``1."""
    steps: list[PlannedStep] = []
    for line in reply.splitlines():
        match = _STEP.fullmatch(line.rstrip())
        step = None if match is None else _read_step(match[1])
        if step is not None:
            steps.append(step)
    return tuple(steps)


def _read_step(text: str) -> PlannedStep | None:
    first = _FIELD.search(text)
    description = (text if first is None else text[: first.start()]).strip(" |\t")
    if not description:
        return None
    values: dict[str, Any] = {}
    while first is not None:
        name, start = first[1].lower(), first.end()
        if name == "arguments" and name not in values:
            values[name], start = _read_object(text, start)
        following = _FIELD.search(text, start)
        values.setdefault(name, text[start : len(text) if following is None else following.start()].strip(" |\t"))
        first = following
    tool = values.get("tool", "").strip("`'\"")
    return PlannedStep(
        description,
        None if tool.lower() in _NONE else tool,
        values.get("arguments"),
        values.get("expected") or DONE,
    )


def _read_object(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """Return the JSON object that begins at a place, None if there is none, and where it ends."""
    try:
        check_depth(text[start:])
        value, end = JSONDecoder().raw_decode(text, start)
    except (JSONDecodeError, InvalidArguments, RecursionError, ValueError):
        return None, start
    return (value if isinstance(value, dict) else None), end


def read_verdict(reply: str) -> Verification:
    """Return a verdict, such as ``ACHIEVED 0.92`` with issues in the following lines."""
    text = reply.upper()
    achieved = "ACHIEVED" in text and _NOT.search(text) is None
    first, *others = reply.strip().splitlines() or [""]
    number = _NUMBER.search(first)
    confidence = 0.8 if achieved else 0.2
    if number is not None:
        confidence = min(1.0, float(number[1]) / (100 if number[2] else 1))
    return Verification(achieved, confidence, tuple(each.strip() for each in others if each.strip()), reply)
