import asyncio
import re
from pathlib import Path
from typing import Any, Protocol

import pytest

import ziggurat
from tests.stores.mortal import MortalStore
from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError
from ziggurat.agents import max_steps
from ziggurat.agents.stop import Policy
from ziggurat.core.settings import implements
from ziggurat.journal import Store
from ziggurat.journal.store import SupportsChangeSignal, SupportsLogMarks
from ziggurat.memory import MemoryStore
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.stores import SqliteStore, connect
from ziggurat.testing import ScriptedModel


class Delegating:
    """Has what another object has."""

    def __init__(self, inner: object) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Verbs(Protocol):
    def read(self) -> str: ...
    async def write(self, text: str) -> None: ...


class Both:
    def read(self) -> str:
        return ""

    async def write(self, text: str) -> None: ...


class One:
    write = None

    def read(self) -> str:
        return ""


def test_every_method_must_be_there_and_callable() -> None:
    assert implements(Both(), Verbs)
    assert implements(Delegating(Delegating(Both())), Verbs)
    for each in (One(), Delegating(One()), Both, None, "read", object()):
        assert not implements(each, Verbs)


@pytest.mark.parametrize("protocol", [Store, SupportsChangeSignal, SupportsLogMarks])
def test_a_store_that_delegates_has_the_verbs_of_the_one_behind_it(protocol: type, tmp_path: Path) -> None:
    inner = connect(f"sqlite:///{tmp_path}/runs.db")
    assert implements(Delegating(inner), protocol) == implements(inner, protocol)


def test_what_takes_a_protocol_takes_an_object_that_delegates(tmp_path: Path) -> None:
    store: Any = Delegating(connect(f"sqlite:///{tmp_path}/runs.db"))
    assert connect(store) is store
    assert Agent(ScriptedModel("x"), store=store).run_sync("q").text == "x"
    memory = Delegating(LocalMemoryStore())
    assert implements(memory, MemoryStore)
    stop: Any = Delegating(max_steps(3))
    assert implements(stop, Policy)
    assert Agent(ScriptedModel("x"), stop=stop).run_sync("q").text == "x"
    with pytest.raises(ConfigurationError, match="methods of a Store"):
        connect(wrong(Delegating(Both())))
    asyncio.run(store.close())


def test_the_source_asks_objects_and_not_their_classes() -> None:
    """From Python 3.12 on, isinstance with a protocol does not see what an object delegates."""
    home = Path(ziggurat.__file__).parent
    sources = {path.relative_to(home): path.read_text(encoding="utf-8") for path in home.rglob("*.py")}
    protocols = {name for text in sources.values() for name in re.findall(r"class (\w+)\([^)]*Protocol", text)}
    assert {"Store", "SupportsLogMarks", "Policy"} <= protocols
    asked = [
        (path, call[0])
        for path, text in sources.items()
        for call in re.finditer(r"isinstance\([^,]*,([^)]*)\)", text)
        if set(re.findall(r"[\w.]+", call[1])) & (protocols - {"_WrongUsage"})
    ]
    assert not asked, "use core.settings.implements"


def test_a_store_whose_process_can_die_is_a_store(tmp_path: Path) -> None:
    store = MortalStore(connect(f"sqlite:///{tmp_path}/runs.db"))
    assert implements(store, Store)
    assert implements(store, SupportsLogMarks)
    assert isinstance(store.inner, SqliteStore)
