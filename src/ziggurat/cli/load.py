"""Loading the user's tools and agents by ``module:name`` or ``file.py:name``."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError, described
from ziggurat.core.failures import place_of
from ziggurat.tools.builtin import calculator, echo, timestamp
from ziggurat.tools.entry import Tool
from ziggurat.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from ziggurat.mcp.client import McpClient

_BUILTIN_TOOLS: dict[str, Callable[..., Any]] = {"calculator": calculator, "echo": echo, "timestamp": timestamp}
"""Tools that can be named without a module."""


def load_tool(spec: str) -> Tool:
    if spec in _BUILTIN_TOOLS:
        return _BUILTIN_TOOLS[spec]
    if ":" not in spec and not spec.endswith(".py"):
        raise ConfigurationError(
            f"{spec!r} is no tool: a tool is module:function, file.py:function or one of {', '.join(_BUILTIN_TOOLS)}"
        )
    function: Tool = _named(spec, "function", lambda value: callable(value) and not isinstance(value, type))
    try:
        Toolbox([function])
    except ConfigurationError as error:
        raise ConfigurationError(f"{spec}: {error}") from error
    return function


def load_agent(spec: str) -> Runnable:
    value = load_any(spec)
    if not isinstance(value, Runnable):
        wrap = "; make it one with Runnable(...)" if callable(value) else ""
        raise ConfigurationError(f"{spec}: that is not an agent but of the type {type(value).__name__}{wrap}")
    return value


def load_any(spec: str, kind: str = "agent", *types: type) -> Any:
    if not spec.strip():
        raise ConfigurationError("the name of an agent is empty; it is FILE.PY:NAME, as in desk.py:agent")
    value = _named(spec, kind, lambda value: isinstance(value, (Runnable, *types)))
    if isinstance(value, type):
        raise ConfigurationError(f"{spec}: that is the class {value.__name__}; name an object made of it")
    return value


def _named(spec: str, kind: str, fits: Callable[[object], bool]) -> Any:
    """Return what is named; the error names what of this kind there is."""
    where, colon, name = spec.rpartition(":")
    if not colon or spec.endswith(".py"):
        where, name = spec, ""
    with redirect_stdout(sys.stderr):  # what a module prints when imported must not mix with the answer
        module = _module(where, spec)
    if name and hasattr(module, name):
        return getattr(module, name)
    names = sorted(
        each for each, value in vars(module).items() if not each.startswith("_") and fits(value) and not _is_ours(value)
    )
    there = f"there are {', '.join(names)}" if names else f"there is no {kind} in it"
    lack = f"{where} has no {name!r}" if name else f"{spec}: the {kind}'s name is missing, as in {where}:NAME"
    raise ConfigurationError(f"{lack}; {there}")


def _is_ours(value: object) -> bool:
    """Return whether a value is a function of this package, which the module has imported."""
    return isinstance(value, FunctionType) and value.__module__.startswith("ziggurat.")


def _module(where: str, spec: str) -> ModuleType:
    if where.endswith(".py") or "/" in where or os.sep in where:
        return _file(Path(where).expanduser(), spec)
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(where)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (where == missing or where.startswith(missing + ".")):
            raise ConfigurationError(f"{spec}: there is no module {missing!r}, installed or in {here}") from error
        if isinstance(error, (ValueError, TypeError)) and not where.replace(".", "").isidentifier():
            raise ConfigurationError(f"{spec}: {where!r} is not a module's name") from error
        raise ConfigurationError(f"{spec}: {where} cannot be imported: {_with_line(error)}") from error


def _file(path: Path, spec: str) -> ModuleType:
    if not path.is_file():
        what = "that is a directory" if path.is_dir() else "there is no such file"
        raise ConfigurationError(f"{spec}: {what}: {path} (looked in {os.getcwd()})")
    path = path.resolve()
    name = path.stem
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == str(path):
            return known
        name = f"ziggurat_loaded_{name}"  # another module of this name is already imported
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found = spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise ConfigurationError(f"{spec}: {path.name} is not a Python file; its name must end with .py")
    module = module_from_spec(found)
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigurationError(f"{spec}: {path.name} cannot be loaded: {_with_line(error)}") from error
    return module


def _with_line(error: BaseException) -> str:
    place = "" if isinstance(error, SyntaxError) else place_of(error)
    return f"{described(error)} (at {place})" if place else described(error)


def load_servers(specs: Sequence[str]) -> "list[McpClient]":
    if not specs:
        return []
    from ziggurat.mcp import mcp, mcp_servers

    files = [spec for spec in specs if spec.endswith(".json") and not spec.startswith(("http://", "https://"))]
    found = {spec: list(mcp_servers(spec).values()) if spec in files else [mcp(spec)] for spec in specs}
    return [server for servers in found.values() for server in servers]
