"""Inspect a Python function: its name and typed parameters, and whether it can be a tool."""

import enum
import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, TypedDict, cast

import msgspec

from ziggurat.core import codec
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.tools.parameter import Parameter, read_back
from ziggurat.tools.schema import note_of

# -- docstrings --------------------------------------------------------------------------------------------------------


class Docstring(msgspec.Struct, frozen=True):
    summary: str = ""
    parameters: dict[str, str] = {}


# Compiled when the first docstring of more than a line is read.
_SECTION = (
    r"(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Returns?|Yields?|Raises|"
    r"Attributes|Examples?|Notes?|References|See Also|Todo|Warnings?|Warns)[ ]*:[ ]*$"
)
_PARAMETERS = {"Args", "Arguments", "Parameters", "Params", "Keyword Args", "Keyword Arguments", "Other Parameters"}
_ENTRY = r"\*{0,2}(\w+)(?:[ ]*\((?:[^()]|\([^()]*\))*\))?[ ]*:(?:[ ]+(.*)|[ ]*)$"
_OTHER_STYLE = r"^[ ]*[:@](param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises)\b.*:|^-{3,}[ ]*$"


def describe(function: Callable[..., object]) -> Docstring:
    target = _unwrapped(function)
    if inspect.isroutine(target):
        return parse(target.__doc__ or "")
    kind = type(target)
    own = kind.__doc__ or ""
    if own.startswith(f"{kind.__name__}("):  # the text `dataclass` generates if there is no docstring
        own = ""
    return parse(kind.__call__.__doc__ or own)


def parse(text: str) -> Docstring:
    """Parse a docstring in any of the four styles."""
    whole, text = text, inspect.cleandoc(text).strip()
    if "\n" not in text and not text.startswith((":", "@")):
        return Docstring(text)
    if re.match(_SECTION, text.partition("\n")[0]):
        text = inspect.cleandoc(f"\n{whole}")  # otherwise the lines below the header would lose their indent
    if re.search(_OTHER_STYLE, text, re.MULTILINE):
        return _by_library(text)
    return _google(text)


def _google(text: str) -> Docstring:
    lines = text.split("\n")
    starts = [index for index, line in enumerate(lines) if re.match(_SECTION, line) and _is_header(lines, index)]
    parameters: dict[str, str] = {}
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        if lines[start].rstrip(": ") in _PARAMETERS:
            body = inspect.cleandoc("\n" + "\n".join(_indented(lines[start + 1 : end]))).rstrip()
            parameters.update(_entries(body))
    summary = "\n".join(lines[: starts[0]] if starts else lines).strip()
    return Docstring(summary, parameters)


def _is_header(lines: list[str], index: int) -> bool:
    following = next((line for line in lines[index + 1 :] if line.strip()), "")
    return following.startswith((" ", "\t"))


def _indented(lines: list[str]) -> list[str]:
    """Return the lines of a section: the indented ones, up to the first that is not."""
    end = next((index for index, line in enumerate(lines) if line.strip() and not line[0].isspace()), len(lines))
    return lines[:end]


def _entries(body: str) -> dict[str, str]:
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in body.split("\n"):
        entry = None if line[:1].isspace() else re.match(_ENTRY, line)
        if entry is not None:
            current = entries.setdefault(entry[1], [])
            current.append(entry[2] or "")
        else:
            current.append(line.strip())
    return {name: description for name, lines in entries.items() if (description := _joined("\n".join(lines)))}


def _joined(text: str) -> str:
    return " ".join(text.split())


def _by_library(text: str) -> Docstring:
    try:
        from docstring_parser import ParseError, parse as parse_any
    except ImportError:
        return Docstring(text)
    try:
        parsed = parse_any(text)
    except ParseError:
        return Docstring(text)
    summary = "\n\n".join(part.strip() for part in (parsed.short_description, parsed.long_description) if part)
    parameters = {
        name.strip().lstrip("*"): _joined(each.description)
        for each in parsed.params
        for name in each.arg_name.split(",")
        if each.description
    }
    return Docstring(summary, parameters)


# -- functions ---------------------------------------------------------------------------------------------------------

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_VALUES = ("FieldInfo", "Field")
"""Classes of defaults in pydantic, msgspec and dataclasses that only have a meaning in a class body."""

_INFERABLE = (bool, int, float, str, list, dict, enum.Enum)


class Inspection(msgspec.Struct, frozen=True, eq=False):
    name: str
    inputs: dict[str, Parameter]
    defaults: dict[str, object]
    extra: Parameter | None
    context_parameter: str | None
    is_async: bool
    returns: object
    described: frozenset[str]
    is_method: bool


def inspect_function(function: Callable[..., object], name: str | None = None) -> Inspection:
    if is_method := _is_method(function):
        function = functools.partial(function, None)
    runs = _runs(function)
    title = _title(function, runs, name)
    signature, hints = _resolve(function, runs, title)
    context = _context(title, signature, hints)
    fixed = _fixed(function)
    inputs: dict[str, Parameter] = {}
    defaults: dict[str, object] = {}
    extra: Parameter | None = None
    described: set[str] = set()
    for each in signature.parameters.values():
        if each.name == context or each.name in fixed:
            continue
        where = f"tool {title!r}, parameter {each.name!r}"
        annotation = _annotation(where, each, hints)
        parameter = _parameter(where, each, annotation)
        if each.kind is each.VAR_KEYWORD:
            extra = parameter
            continue
        inputs[each.name] = parameter
        if not parameter.required and parameter.is_plain(each.default):
            defaults[each.name] = parameter.plain(each.default)
        if (note := note_of(annotation)) is not None:
            parameter.schema["description"] = note
            described.add(each.name)
    is_async, returns = inspect.iscoroutinefunction(runs), hints.get("return", Any)
    return Inspection(title, inputs, defaults, extra, context, is_async, returns, frozenset(described), is_method)


def reader_of(inspection: Inspection) -> Callable[[str | bytes], dict[str, object]]:
    """Build the decoder for the common case: a TypedDict, because it gives a dict with only the arguments present."""
    fields = {name: each.wire if each.required else NotRequired[each.wire] for name, each in inspection.inputs.items()}
    make = cast("Callable[[str, dict[str, Any]], type[dict[str, object]]]", TypedDict)
    return codec.decoder(make(inspection.name, fields), strict=False, dec_hook=read_back).decode


def _unwrapped(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _is_method(function: Callable[..., object]) -> bool:
    if not inspect.isfunction(function):
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.name == "self" and first.annotation is first.empty


def _runs(function: Any) -> Callable[..., object]:
    function = _unwrapped(function)
    if isinstance(function, type):
        raise ConfigurationError(f"{function.__name__} is a class; give a function, or an instance with __call__")
    if not callable(function):
        raise ConfigurationError(f"{function!r} cannot be called; give a function")
    runs: Callable[..., object] = function if inspect.isroutine(function) else type(function).__call__
    return runs


def _title(function: object, runs: Callable[..., object], name: str | None) -> str:
    function = _unwrapped(function)
    title: str = name if name is not None else getattr(function, "__name__", type(function).__name__)
    if not isinstance(title, str) or not _NAME.fullmatch(title):
        hint = "give it one with @tool(name=...)" if name is None else "choose another"
        if title == "<lambda>":
            hint = "write it with def, with types, or name it with tool(name=...)"
        raise ConfigurationError(f"{title!r} is not a name for a tool (1 to 64 of A-Z a-z 0-9 _ -); {hint}")
    streams = inspect.isasyncgenfunction(runs)
    if inspect.isgeneratorfunction(runs) or (streams and not inspect.isroutine(function)):
        raise ConfigurationError(
            f"tool {title!r} yields; return one value, such as a list, or make it an async function that yields text"
        )
    return title


def _resolve(
    function: Callable[..., object], runs: Callable[..., object], title: str
) -> tuple[inspect.Signature, dict[str, Any]]:
    try:
        signature, hints = inspect.signature(function), typing.get_type_hints(runs, include_extras=True)
    except NameError as error:
        raise ConfigurationError(
            f"tool {title!r}: the annotation {error.name!r} cannot be resolved; "
            "import or define it at the top of the module, not only for the type checker"
        ) from error
    except (TypeError, ValueError, SyntaxError, AttributeError, ArithmeticError, LookupError) as error:
        raise ConfigurationError(
            f"tool {title!r}: the signature cannot be read ({error}); wrap it in a function with annotations"
        ) from error
    if signature.parameters and not hints and inspect.isbuiltin(runs):
        raise ConfigurationError(
            f"tool {title!r}: a builtin has no annotations; wrap it in a function with annotations"
        )
    return signature, hints


def _context(title: str, signature: inspect.Signature, hints: Mapping[str, object]) -> str | None:
    names = [name for name in signature.parameters if _is_context(hints.get(name))]
    if len(names) > 1:
        raise ConfigurationError(f"tool {title!r}: {' and '.join(names)} both take the Context; keep one")
    if names and signature.parameters[names[0]].kind not in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    ):
        raise ConfigurationError(f"tool {title!r}: the Context is passed by name; make {names[0]!r} a plain parameter")
    return names[0] if names else None


def _is_context(annotation: object) -> bool:
    if typing.get_origin(annotation) in (Annotated, typing.Union, types.UnionType):
        return any(_is_context(part) for part in typing.get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, Context)


def _fixed(function: object) -> set[str]:
    """Return the arguments that partials fix by keyword; the model cannot set them."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names.update(function.keywords)
        function = function.func
    return names


def _annotation(where: str, parameter: inspect.Parameter, hints: Mapping[str, object]) -> object:
    if parameter.name in hints:
        return hints[parameter.name]
    if parameter.default is not parameter.empty:
        if isinstance(parameter.default, _INFERABLE):
            return type(parameter.default)
        raise ConfigurationError(
            f"{where}: its type cannot be inferred from the default; "
            f"annotate it, such as {parameter.name}: str | None = None"
        )
    raise ConfigurationError(f"{where}: has no type; annotate it, such as {parameter.name}: str")


def _parameter(where: str, each: inspect.Parameter, annotation: object) -> Parameter:
    if each.kind is each.POSITIONAL_ONLY:
        raise ConfigurationError(f"{where}: positional-only, but arguments are passed by name; remove the '/'")
    if each.kind is each.VAR_POSITIONAL:
        raise ConfigurationError(f"{where}: *{each.name} cannot be passed by name; take a list instead")
    try:
        parameter = Parameter.of(each.name, annotation, required=each.default is each.empty)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    if type(each.default).__name__ in _NO_VALUES or each.default is ...:
        raise ConfigurationError(
            f"{where}: the function would be given {each.default!r:.60} itself by default; write a plain value, and "
            "notes as Annotated[..., Field(...)]"
        )
    default = each.default.value if isinstance(each.default, enum.Enum) else each.default
    finite = not isinstance(default, float) or math.isfinite(default)
    if isinstance(default, (bool, int, float, str)) and finite:
        parameter.schema["default"] = default
    return parameter
