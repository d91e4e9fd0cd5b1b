"""Lazy names: a module that hands on names of other modules, each of which is imported on first use."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from ziggurat.core.names import NAMES


def lazy(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a module that hands on names."""
    # The module imports them under TYPE_CHECKING. At run time `core.names`, written by the tests from these imports,
    # says where each of them is: to read them from the source would fail in programs that are shipped without it.
    homes = {name: home for home, names in NAMES[module].items() for name in names.split()}

    def load(name: str) -> Any:
        if name not in homes:
            message = _Message(name, module, sorted(homes))
            if not name.startswith("_") and _is_imported_by_name():
                # Python would replace an AttributeError, and with it the suggestion.
                raise ImportError(message, name=module)
            raise AttributeError(message, name=name)  # without `obj`, so that Python adds no suggestion of its own
        value = getattr(import_module(f"ziggurat.{homes[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    return load, lambda: sorted(homes), sorted(homes)


def _is_imported_by_name() -> bool:
    """Return whether the caller of a module's `__getattr__` is ``from module import name``."""
    import dis
    import inspect

    caller = inspect.stack(0)[2].frame  # above this function and `load`
    return dis.opname[caller.f_code.co_code[caller.f_lasti]] == "IMPORT_FROM"


class _Message:
    def __init__(self, unknown: str, module: str, names: Sequence[str]) -> None:
        self._unknown, self._module, self._names = unknown, module, names

    def __str__(self) -> str:
        from ziggurat.core.similar import similar

        text, unknown = f"module {self._module!r} has no attribute {self._unknown!r}", self._unknown
        if unknown.startswith("_"):
            return text
        modules = _modules_in("ziggurat")
        if f"{self._module}.{unknown}" in modules:
            return f"{text}; write: import {self._module}.{unknown}"
        own = list[object]()
        for each in _modules_in(self._module):
            with suppress(ImportError):  # of an extra, or another system
                own += [value for name, value in vars(import_module(each)).items() if name == unknown]
        for each in ("ziggurat", *modules):
            if unknown in getattr(import_module(each), "__all__", ()):
                found = getattr(import_module(each), unknown)
                if not own or any(found is value for value in own):
                    return f"{text}; write: from {each} import {unknown}"
        if own:  # what other modules have under this name is something else
            return f"{text}; it is internal"
        return text + "".join(f"; did you mean {meant!r}?" for meant in similar(unknown, self._names))

    def __repr__(self) -> str:
        return repr(str(self))


def _modules_in(package: str) -> list[str]:
    from pkgutil import iter_modules

    path = getattr(import_module(package), "__path__", ())
    return [f"{package}.{module.name}" for module in iter_modules(path) if module.name != "__main__"]
