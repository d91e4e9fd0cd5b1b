"""Stubs: tools as typed functions of a program, and the calls that a program makes of them."""

import re
from collections.abc import Mapping, Sequence
from keyword import iskeyword
from typing import Any, get_type_hints

import msgspec
from msgspec import Struct

from ziggurat.core.codec import canonical
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import COMPOSITE, EFFECT, NAME, Fact, innermost
from ziggurat.messages.message import ToolCall
from ziggurat.messages.model import NORMALIZE, SPEC, ToolSpec
from ziggurat.sandbox.sandbox import ProgramError
from ziggurat.tools.entry import ToolEntry
from ziggurat.tools.function import FunctionTool, checked_spec
from ziggurat.tools.parameter import Parameter
from ziggurat.tools.signature import Signature
from ziggurat.tools.toolbox import TOOLS, Toolbox

_TYPES = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "array": "list",
    "object": "dict",
}  # fmt: skip

BATCHED = "_batched"  # the end of the name of a function that makes several calls of another one at the same time

BATCHES = """\
Each function f has f_batched([x, ...]), which calls it for many x at the same time; a dict is the arguments by name. A
failure is a text that begins with [ERROR]."""


class Stub(Struct, frozen=True):
    tool: str
    name: str
    text: str  # its definition, without a body, and what it does
    parameters: tuple[str, ...]
    returns_json: bool

    def call(self, call_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> ToolCall:
        if len(args) > len(self.parameters):
            raise ProgramError("TypeError", f"{self.name} takes {len(self.parameters)} arguments, got {len(args)}")
        arguments = dict(zip(self.parameters, args, strict=False))
        twice = arguments.keys() & kwargs.keys()
        if twice:
            raise ProgramError("TypeError", f"{self.name} got several values for {min(twice)!r}")
        return ToolCall(call_id, self.tool, canonical({**arguments, **kwargs}).decode())

    def value(self, text: str) -> Any:
        if not self.returns_json:
            return text
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            raise ProgramError("ValueError", f"{self.name} returned more than a result may have") from None


def stubs_of(box: Toolbox) -> dict[str, Stub]:
    stubs: dict[str, Stub] = {}
    for entry in box.entries.values():
        stub = _stub_of(entry)
        if stub.name in stubs:
            raise ConfigurationError(
                f"the tools {stubs[stub.name].tool!r} and {stub.tool!r} are both {stub.name} as functions of a "
                "program; give one of them another name: @tool(name=...)"
            )
        stubs[stub.name] = stub
    return stubs


def _stub_of(entry: ToolEntry) -> Stub:
    spec, schema = entry.spec, entry.spec.parameters
    properties: Mapping[str, Any] = schema.get("properties") or {}
    required = set(schema.get("required") or ())
    names = sorted(properties, key=lambda name: name not in required)  # a stable sort
    parameters = [_parameter(name, properties[name], name in required, schema) for name in names if _is_name(name)]
    other = [f"{name!r}: {type_of(properties[name], schema)}" for name in names if not _is_name(name)]
    if other:
        parameters.append(f"**{{{', '.join(other)}}}")
    returned = _returned(entry)
    name = re.sub(r"\W", "_", spec.name)
    name = name if _is_name(name) else f"tool_{name}"
    text = " ".join(spec.description.split())
    definition = f"def {name}({', '.join(parameters)}) -> {returned}:"
    definition += f"\n    {text!r}" if text else " ..."
    return Stub(spec.name, name, definition, tuple(filter(_is_name, names)), returned != "str")


def _is_name(name: str) -> bool:
    return name.isidentifier() and not iskeyword(name)


def _parameter(name: str, schema: Mapping[str, Any], required: bool, root: Mapping[str, Any]) -> str:
    text = f"{name}: {type_of(schema, root)}"
    if required:
        return text
    return f"{text} = {schema['default']!r}" if "default" in schema else f"{text} = ..."


def type_of(schema: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    """Return the Python type of a JSON Schema, as it is shown to a model.

    >>> type_of({"type": "array", "items": {"type": "integer"}}, {})
    'list[int]'
    >>> type_of({"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]}, {})
    "Literal['a', 'b'] | None"
    """
    if not isinstance(schema, Mapping) or depth > 4:
        return "Any"
    if "$ref" in schema:
        return type_of((root.get("$defs") or {}).get(schema["$ref"].rpartition("/")[2]), root, depth + 1)
    if "enum" in schema:
        return f"Literal[{', '.join(map(repr, schema['enum']))}]"
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(dict.fromkeys(type_of(each, root, depth + 1) for each in schema[union]))
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(_TYPES.get(each, "Any") for each in kind)
    if kind == "array" and "items" in schema:
        return f"list[{type_of(schema['items'], root, depth + 1)}]"
    if kind == "object" and schema.get("properties"):
        fields = [f"{name!r}: {type_of(each, root, depth + 1)}" for name, each in schema["properties"].items()]
        return f"dict[{{{', '.join(fields)}}}]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        return f"dict[str, {type_of(schema['additionalProperties'], root, depth + 1)}]"
    return _TYPES.get(str(kind), "Any")


def _returned(entry: ToolEntry) -> str:
    """Return the type of what a tool returns to a program: text, unless its function says that it is something else."""
    service: Any = innermost(entry.service)
    if not isinstance(service, FunctionTool):
        return "str"
    try:
        annotation = get_type_hints(service.function).get("return", str)
        schema = Parameter.of("value", annotation, required=True).schema
    except (ConfigurationError, NameError, TypeError):  # parts, pieces of a stream, a class without a schema
        return "str"
    shown = type_of(schema, schema)
    return "str" if shown == "Any" else shown


# -- the tool that runs programs -------------------------------------------------------------------------------------

_FENCE = re.compile(r"\s*```(?:python|py)?\s*\n(.*?)\n?```\s*", re.DOTALL)


def _run_code(code: str) -> str:
    """Run a program.

    Args:
        code: The program, in Python.
    """
    raise NotImplementedError


_SIGNATURE = Signature.of(_run_code)


def facts_of(name: str, description: str, box: Toolbox) -> dict[Fact[Any], Any]:
    needs = sorted({each for spec in box.specs for each in spec.permissions})
    declared = all(spec.declared for spec in box.specs)
    spec = ToolSpec(name, description, _SIGNATURE.parameters, permissions=tuple(needs), declared=declared)
    return {
        SPEC: checked_spec(spec), COMPOSITE: True, NAME: name, EFFECT: box.effect, NORMALIZE: _normal, TOOLS: box
    }  # fmt: skip


def _normal(call: ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, _SIGNATURE.normalize(call.arguments))


def code_in(call: ToolCall) -> str:
    code = str(_SIGNATURE.decode(call.arguments)["code"])
    fenced = _FENCE.fullmatch(code)
    return code if fenced is None else fenced[1]
