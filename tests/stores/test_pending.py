"""`pending` of a store lists what waits in its runs, without the agents, and the same in all stores."""

from pathlib import Path

import pytest

from tests.runs.test_pending import DB, _agent as agent_on
from tests.samples import sample
from tests.stores.places import PLACES
from ziggurat import Agent, Approve
from ziggurat.models import ScriptedModel
from ziggurat.stores import InMemoryStore
from ziggurat.stores.pending import RunStore
from ziggurat.tools import tool_call


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_a_store_lists_what_its_agents_list(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = PLACES[kind](tmp_path)
    store: RunStore = place()  # type: ignore[assignment]
    elsewhere: RunStore = place()  # type: ignore[assignment]
    desk, other = agent_on(store, "desk"), agent_on(store, "other")
    await desk.run("go", run_id="a", session="alice", deps={DB: "x"})
    await other.run("go", run_id="b", deps={DB: "x"})
    nested = Agent(
        ScriptedModel(tool_call("desk", input="x"), "done"), tools=[agent_on(None, "desk")], name="boss", store=store
    )
    await nested.run("go", run_id="c", deps={DB: "x"})
    await Agent(ScriptedModel("done"), store=store).run("go", run_id="ended")
    count = {run_id: len(await store.read(f"run:{run_id}")) for run_id in "abc"}
    found = await elsewhere.pending()
    assert list(found) == ["c", "b", "a"]
    by_agent = await desk.pending() | await other.pending() | await nested.pending()
    assert found == by_agent
    assert [item.call.arguments for item in found["a"]] == ['{"to":"ada"}', '{"to":"bob"}']
    assert list(await elsewhere.pending(agent="other")) == ["b"]
    assert list(await elsewhere.pending(limit=1)) == ["c"]
    assert count == {run_id: len(await store.read(f"run:{run_id}")) for run_id in "abc"}, "nothing is written"
    assert all(info.owner == "" for info in await store.logs("run:")), "no lease is taken"
    await desk.resume("a", {found["a"][0].id: Approve()}, deps={DB: "x"})
    assert (await elsewhere.pending(agent="desk"))["a"] == found["a"][1:]
    await elsewhere.quarantine("run:a", "a test")
    assert list(await elsewhere.pending()) == ["c", "b"]
    await store.close()
    await elsewhere.close()


async def test_a_damaged_run_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    store = InMemoryStore()
    desk = agent_on(store, "desk")
    for run_id in ("whole", "damaged"):
        await desk.run("go", run_id=run_id, deps={DB: "x"})
    store._logs["run:damaged"].rows.pop(2)
    assert list(await store.pending()) == ["whole"]
    assert "what waits in the run damaged cannot be listed" in caplog.text
