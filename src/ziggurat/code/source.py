"""The source of a program: how a model passes it, and what the model must know of the language."""

import re
from typing import Any

from ziggurat.calls.inbox import TOOLS
from ziggurat.core.service import COMPOSITE, EFFECT, NAME, Fact
from ziggurat.messages.message import ToolCall
from ziggurat.messages.model import NORMALIZE, SPEC, ToolSpec
from ziggurat.sandbox.sandbox import Sandbox
from ziggurat.tools.function import checked_spec
from ziggurat.tools.signature import Signature
from ziggurat.tools.toolbox import Toolbox

_MONTY_RULES = """
Not available: classes that inherit, yield, del, files, network, and modules other than asyncio, base64, bisect,
collections, copy, dataclasses, datetime, decimal, functools, itertools, json, math, re, time, typing. Write
[f(x) for x in xs] rather than map(f, xs)."""

_FENCE = re.compile(r"\s*```(?:python|py)?\s*\n(.*?)\n?```\s*", re.DOTALL)


def _run_code(code: str) -> str:
    """Run a program.

    Args:
        code: The program, in Python.
    """
    raise NotImplementedError


_SIGNATURE = Signature.of(_run_code)


def spec_of(name: str, description: str, box: Toolbox) -> ToolSpec:
    """Return the specification of a tool that runs programs, which may call those in a toolbox."""
    needs = sorted({each for spec in box.specs for each in spec.permissions})
    declared = all(spec.declared for spec in box.specs)
    spec = ToolSpec(name, description, _SIGNATURE.parameters, permissions=tuple(needs), declared=declared)
    return checked_spec(spec)


def facts_of(spec: ToolSpec, box: Toolbox) -> dict[Fact[Any], Any]:
    """Return the facts about such a tool."""
    return {
        SPEC: spec,
        COMPOSITE: True,
        NAME: spec.name,
        EFFECT: box.effect,
        NORMALIZE: _normal,
        TOOLS: box,
    }


def _normal(call: ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, _SIGNATURE.normalize(call.arguments))


def code_in(call: ToolCall) -> str:
    """Return the program in the arguments of a call, without a fence around it."""
    code = str(_SIGNATURE.decode(call.arguments)["code"])
    fenced = _FENCE.fullmatch(code)
    return code if fenced is None else fenced[1]


def rules_of(sandbox: Sandbox) -> str:
    """Return what a model must know of the language in a sandbox."""
    return _MONTY_RULES if sandbox.level == "monty" else "\nThere are no files and no network."
