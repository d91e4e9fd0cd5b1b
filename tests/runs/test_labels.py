"""The labels of a run are checked where they are passed, before anything is written or leased."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.samples import sample
from tests.stores.places import PLACES, Place
from tests.stores.records import ids_of
from ziggurat import Agent, Approvals, Approve, ConfigurationError, Middleware, Rule, tool
from ziggurat.journal import Store
from ziggurat.journal.entries import JournalEntry, Opened
from ziggurat.journal.store import run_log
from ziggurat.messages import tool_call
from ziggurat.stores import InMemoryStore, pending
from ziggurat.testing import ScriptedModel


@tool(effect="once")
def pay() -> str:
    """Pay."""
    return "paid"


WRONG: list[dict[Any, Any]] = [{"": 1}, {"a\nb": 1}, {3: "x"}, {"team": object()}, {"team": [{"deep": object()}]}]


async def test_a_dictionary_that_is_no_label_is_refused_by_every_verb() -> None:
    store = InMemoryStore()
    stored, local = (Agent(ScriptedModel(always="done"), store=each) for each in (store, None))
    for labels in WRONG:
        for begin in (each for agent in (stored, local) for each in (agent.run, agent.stream, agent.start)):
            with pytest.raises(ConfigurationError, match="label"):
                begin("go", run_id="r", session="alice", labels=labels)
    assert ids_of(store) == []
    await stored.run("go", run_id="r")
    for labels in WRONG:
        with pytest.raises(ConfigurationError, match="label"):
            await stored.fork("r", 1, new_id="f", labels=labels)
    assert ids_of(store) == ["r"]


@pytest.mark.parametrize("kind", sample([*PLACES, "none"], 3))
async def test_runs_and_what_waits_in_them_are_found_by_label(kind: str, tmp_path: Path) -> None:
    store = None if kind == "none" else PLACES[kind](tmp_path)()
    model = ScriptedModel(always=tool_call("pay"))
    agent = Agent(model, tools=[pay], approvals=Approvals(Rule("pay")), store=store)
    for number, team in enumerate(["blue", "red", "blue"]):
        await agent.run("go", run_id=f"r-{number}", labels={"team": team, "number": number, "of": {"b": 1, "a": 2}})
    await agent.run("go", run_id="plain")
    for labels, expected in (
        ({"team": "blue"}, {"r-0", "r-2"}),
        ({"team": "blue", "number": 2}, {"r-2"}),
        ({"of": {"a": 2, "b": 1}}, {"r-0", "r-1", "r-2"}),
        ({"team": "green"}, set()),
        ({"number": "1"}, set()),
        (None, {"r-0", "r-1", "r-2", "plain"}),
    ):
        assert set(await agent.pending(labels=labels)) == expected
        if store is not None:
            assert {info.id for info in await store.logs("run:", labels=labels)} == expected
            assert set(await pending(store, labels=labels)) == expected
    await agent.fork("r-1", 1, new_id="f", labels={"team": "green"})
    if store is not None:
        assert [info.id for info in await store.logs("run:", labels={"team": "green"})] == ["f"]
        await store.close()


async def test_a_listing_shows_labels_as_the_record_has_them() -> None:
    class Screening(Middleware):
        def on_record(self, entry: JournalEntry) -> JournalEntry:
            return replace(entry, labels={"mail": "(hidden)"}) if isinstance(entry, Opened) else entry

    store = InMemoryStore()
    agent = Agent(ScriptedModel(always="done"), store=store, middleware=[Screening()])
    await agent.run("go", run_id="r", labels={"mail": "ada@example.org"})
    (info,) = await store.logs("run:")
    assert info.labels == (await agent.attach("r").status()).labels == {"mail": "(hidden)"}


@pytest.mark.parametrize("new_store", sample(["by reference", "memory", "sqlite", "file"], 2), indirect=True)
async def test_labels_belong_to_a_turn_and_not_to_its_session(new_store: Place) -> None:
    @tool(approval=True)
    async def pay() -> str:
        return "paid"

    def agent(store: Store) -> Agent:
        return Agent(ScriptedModel(rules=[("pay", tool_call("pay"))], always="done"), tools=[pay], store=store)

    first = await agent(new_store()).run("hello", run_id="one", session="alice", labels={"turn": 1})
    await agent(new_store()).run("hello again", run_id="two", session="alice")
    third = await agent(new_store()).run("pay", run_id="three", session="alice", labels={"turn": 3})
    assert first.session == third.session == "alice"
    decisions = {item.id: Approve() for item in third.pending}
    assert (await agent(new_store()).resume("three", decisions)).observations == ("paid",)
    for run_id, labels in (("one", {"turn": 1}), ("two", None), ("three", {"turn": 3})):
        rows = [msgspec.json.decode(row.data) for row in await new_store().read(run_log(run_id))]
        opened = [row for row in rows if row["entry"] == "Opened"]
        assert [row["labels"] for row in opened] == [labels] + [None] * (len(opened) - 1)
