"""Lazy names: a module that hands on names of other modules, each of which is imported on first use."""

__all__ = ["lazy"]

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy(
    module: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a module that hands on names.

    Type checkers do not see these; they read the stub beside the module, which `tests/test_names.py` writes.

    Args:
        module: The `__name__` of the module that hands on names.
        names: The names by the module that has them, without the leading ``ziggurat.``.
    """
    homes = {name: home for home, each in names.items() for name in each}

    def load(name: str) -> Any:
        if name not in homes:
            raise _UnknownName(name, module, homes)
        value = getattr(import_module(f"ziggurat.{homes[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    return load, lambda: sorted(homes), sorted(homes)


class _UnknownName(AttributeError):
    """A name that a module does not have; the message says which public name was probably meant.

    That is looked up only when somebody reads the message: Python itself asks for names that do not exist, as before
    the import of a module in a package.
    """

    def __init__(self, unknown: str, module: str, names: Collection[str]) -> None:
        super().__init__(f"module {module!r} has no attribute {unknown!r}")
        self._unknown, self._module, self._names = unknown, module, names

    def __str__(self) -> str:
        from pkgutil import iter_modules

        from ziggurat.core.similar import similar

        text, unknown = super().__str__(), self._unknown
        if unknown.startswith("_"):
            return text
        package = import_module("ziggurat")
        for each in ("ziggurat", *(f"ziggurat.{module.name}" for module in iter_modules(package.__path__))):
            if not each.endswith("__") and unknown in getattr(import_module(each), "__all__", ()):
                return f"{text}; write: from {each} import {unknown}"
        return text + "".join(f"; did you mean {meant!r}?" for meant in similar(unknown, self._names))
