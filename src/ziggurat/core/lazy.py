"""Lazy names: a module that hands on names of other modules, each of which is imported on first use."""

__all__ = ["lazy"]

import sys
from collections.abc import Callable, Mapping, Sequence
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
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(f"ziggurat.{homes[name]}"), name)
        setattr(sys.modules[module], name, value)
        return value

    return load, lambda: sorted(homes), sorted(homes)
