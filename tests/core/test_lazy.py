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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("ziggurat.Agnt", "AttributeError: module 'ziggurat' has no attribute 'Agnt'; did you mean 'Agent'?"),
        ("from ziggurat import Agnt", "ImportError: module 'ziggurat' has no attribute 'Agnt'; did you mean 'Agent'?"),
        (
            "from ziggurat import retry",
            "ImportError: module 'ziggurat' has no attribute 'retry'; write: from ziggurat.layers import retry",
        ),
        (
            "ziggurat.layers",
            "AttributeError: module 'ziggurat' has no attribute 'layers'; write: import ziggurat.layers",
        ),
    ],
)
def test_the_last_line_of_a_traceback_says_what_to_write(line: str, message: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import ziggurat; {line}"], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == message


def test_a_module_handed_on_whole_has_all_of_its_names() -> None:
    namespace: dict[str, object] = {}
    exec("from ziggurat.fake_provider import *", namespace)
    assert namespace.keys() > set(import_module("ziggurat.testing.server").__all__)


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
