"""A name that a module does not have: the message says which one was probably meant, and costs nothing otherwise."""

import subprocess
import sys
from importlib import import_module

import pytest

from tests.samples import sample
from tests.test_house import FACES

LAZY = [name for name in FACES if "__getattr__" in vars(import_module(name))]


def misspelt(name: str) -> str:
    """Return a name without one of its inner letters."""
    return name[: len(name) // 2] + name[len(name) // 2 + 1 :]


def told(module: str, name: str) -> str:
    """Return the message of the error for a name that a module does not have."""
    with pytest.raises(AttributeError) as raised:
        getattr(import_module(module), name)
    return str(raised.value)


def test_a_misspelt_name_names_the_right_one() -> None:
    names = [(module, name) for module in LAZY for name in import_module(module).__all__ if len(name) > 5]
    for module, name in sample(names, 25):
        wrong = misspelt(name)
        if not hasattr(import_module(module), wrong):
            message = told(module, wrong)
            assert module in message
            assert "did you mean" in message or "write: from" in message


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
    assert told(module, name).endswith(f"from {home} import {name}")


@pytest.mark.parametrize(("module", "name"), [("ziggurat.messages", "Role"), ("ziggurat.sandbox", "Session")])
def test_what_is_internal_is_no_other_thing_of_this_name(module: str, name: str) -> None:
    assert told(module, name).endswith("it is internal")


def test_a_module_handed_on_whole_has_all_of_its_names() -> None:
    namespace: dict[str, object] = {}
    exec("from ziggurat.fake_provider import *", namespace)
    assert namespace.keys() > set(import_module("ziggurat.fake_provider").__all__)


@pytest.mark.parametrize("name", ["xyzzy", "__wrapped__", "_repr_html_"])
def test_an_unknown_or_private_name_has_no_suggestion(name: str) -> None:
    assert told("ziggurat", name).endswith(repr(name))


PROGRAM = """
import sys, ziggurat
assert not hasattr(ziggurat, 'Agnt')
assert not {'ziggurat.core.similar', 'pkgutil'} & sys.modules.keys()
for line in ('ziggurat.layers', 'ziggurat.Agnt', 'from ziggurat import Agnt', 'from ziggurat import retry'):
    try:
        exec(line)
    except (AttributeError, ImportError) as error:
        print(type(error).__name__, str(error).rpartition('; ')[2], sep=': ')
"""


def test_a_suggestion_is_searched_for_only_when_the_message_is_read() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "AttributeError: write: import ziggurat.layers",
        "AttributeError: did you mean 'Agent'?",
        "ImportError: did you mean 'Agent'?",
        "ImportError: write: from ziggurat.layers import retry",
    ]
