"""A name that a module does not have: the message says which one was probably meant, and costs nothing otherwise."""

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

from tests.test_house import FACES

LAZY = [name for name in FACES if "__getattr__" in vars(import_module(name))]


def misspelt(name: str) -> str:
    """Return a name without one of its inner letters."""
    return name[: len(name) // 2] + name[len(name) // 2 + 1 :]


@pytest.mark.parametrize("module", LAZY)
def test_a_misspelt_name_names_the_right_one(module: str) -> None:
    loaded = import_module(module)
    for name in loaded.__all__:
        wrong = misspelt(name)
        if len(name) < 6 or hasattr(loaded, wrong):
            continue
        with pytest.raises(AttributeError) as raised:
            getattr(loaded, wrong)
        assert str(raised.value).startswith(f"module {module!r} has no attribute {wrong!r}")
        assert "; did you mean '" in str(raised.value) or "; write: from " in str(raised.value)


@pytest.mark.parametrize(
    ("module", "name", "home"),
    [
        ("ziggurat", "retry", "ziggurat.layers"),
        ("ziggurat", "Cancelled", "ziggurat.stops"),
        ("ziggurat.models", "Agent", "ziggurat"),
        ("ziggurat", "connect", "ziggurat.stores"),
    ],
)
def test_a_name_of_another_module_names_that_module(module: str, name: str, home: str) -> None:
    with pytest.raises(AttributeError, match=f"write: from {home} import {name}"):
        getattr(import_module(module), name)


def test_what_resembles_nothing_or_is_private_has_no_suggestion() -> None:
    package: ModuleType = import_module("ziggurat")
    for name in ("xyzzy", "__wrapped__", "_repr_html_"):
        with pytest.raises(AttributeError) as raised:
            getattr(package, name)
        assert str(raised.value) == f"module 'ziggurat' has no attribute {name!r}"
        assert not hasattr(package, name)


def test_a_search_for_a_suggestion_happens_only_when_the_message_is_read() -> None:
    code = (
        "import sys, ziggurat\n"
        "assert not hasattr(ziggurat, 'Agnt')\n"
        "assert 'ziggurat.core.similar' not in sys.modules\n"
        "assert 'pkgutil' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
