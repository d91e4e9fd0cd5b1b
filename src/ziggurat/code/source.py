"""The source of a program: how a model passes it, and what the model must know of the language."""

import re

from ziggurat.messages.parts import ToolCall
from ziggurat.sandbox.sandbox import Sandbox
from ziggurat.tools.signature import Signature

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


def arguments_of() -> dict[str, object]:
    """Return the schema of the arguments of a tool that takes a program."""
    return _SIGNATURE.parameters


def normal_code(call: ToolCall) -> ToolCall:
    """Return the call of such a tool with its arguments in their normal form."""
    return ToolCall(call.id, call.name, _SIGNATURE.normalize(call.arguments))


def code_in(call: ToolCall) -> str:
    """Return the program in the arguments of a call, without a fence around it."""
    code = str(_SIGNATURE.decode(call.arguments)["code"])
    fenced = _FENCE.fullmatch(code)
    return code if fenced is None else fenced[1]


def rules_of(sandbox: Sandbox) -> str:
    """Return what a model must know of the language in a sandbox."""
    return _MONTY_RULES if sandbox.level == "monty" else "\nThere are no files and no network."
