"""Inspect a Python function: its name and typed parameters, and whether it can be a tool."""

import enum
import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.tools.parameter import Parameter
from ziggurat.tools.schema import note_of

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_VALUES = ("FieldInfo", "Field")
"""Classes of defaults in pydantic, msgspec and dataclasses that only have a meaning in a class body."""

_INFERABLE = (bool, int, float, str, list, dict, enum.Enum)


class Inspection(msgspec.Struct, frozen=True, eq=False):
    """What a function's signature declares.

    Attributes:
        name: Name for the model.
        inputs: Parameters the model fills, by name.
        defaults: Their defaults as plain JSON data, of those whose default has such a form.
        extra: Type of further arguments, if the function takes ``**kwargs``.
        context_parameter: Name of the parameter that takes the Context.
        is_async: Whether a call returns a coroutine.
        returns: Annotation of the result, ``Any`` if there is none.
        described: Names of the parameters whose annotation has a description.
    """

    name: str
    inputs: dict[str, Parameter]
    defaults: dict[str, object]
    extra: Parameter | None
    context_parameter: str | None
    is_async: bool
    returns: object
    described: frozenset[str]


def inspect_function(function: Callable[..., object], name: str | None = None) -> Inspection:
    """Inspect a function, a bound method, a partial or an object with ``__call__``."""
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
    is_async = inspect.iscoroutinefunction(runs)
    return Inspection(title, inputs, defaults, extra, context, is_async, hints.get("return", Any), frozenset(described))


def _runs(function: Any) -> Callable[..., object]:
    """Return the function that a call runs, below partials and objects."""
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type):
        raise ConfigurationError(f"{function.__name__} is a class; give a function, or an instance with __call__")
    if not callable(function):
        raise ConfigurationError(f"{function!r} cannot be called; give a function")
    runs: Callable[..., object] = function if inspect.isroutine(function) else type(function).__call__
    return runs


def _title(function: object, runs: Callable[..., object], name: str | None) -> str:
    while isinstance(function, functools.partial):
        function = function.func
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
    if parameter.name == "self":
        raise ConfigurationError(f"{where}: a method needs its instance: omit @tool and pass it.method, bound")
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
