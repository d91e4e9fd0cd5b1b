"""`pending` of a store lists what waits in its runs, without the agents, and the same in all stores."""

from itertools import count
from pathlib import Path
from random import Random

import pytest

from tests.runs.test_pending import DB, _agent as agent_on
from tests.samples import amount, sample
from tests.stores.places import PLACES
from tests.wrong import wrong
from ziggurat import Agent, Approve
from ziggurat.agents import Answer
from ziggurat.errors import ConfigurationError
from ziggurat.flows import Flow, ask, flow, gather, sleep
from ziggurat.journal import Store
from ziggurat.journal.store import run_log
from ziggurat.messages import tool_call
from ziggurat.messages.agent import recorded_items
from ziggurat.runs.runs import runs_of
from ziggurat.stores import InMemoryStore, pending
from ziggurat.testing import ScriptedModel


@pytest.mark.parametrize("kind", sample(PLACES, 2))
async def test_a_store_lists_what_its_agents_list(kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = PLACES[kind](tmp_path)
    store = place()
    elsewhere = place()
    desk, other = agent_on(store, "desk"), agent_on(store, "other")
    await desk.run("go", run_id="a", session="alice", deps={DB: "x"})
    await other.run("go", run_id="b", deps={DB: "x"})
    nested = Agent(
        ScriptedModel(tool_call("desk", input="x"), "done"), tools=[agent_on(None, "desk")], name="boss", store=store
    )
    await nested.run("go", run_id="c", deps={DB: "x"})
    await Agent(ScriptedModel("done"), store=store).run("go", run_id="ended")
    lengths = {run_id: len(await store.read(f"run:{run_id}")) for run_id in "abc"}
    found = await pending(elsewhere)
    assert list(found) == ["a", "b", "c"]
    by_agent = await desk.pending() | await other.pending() | await nested.pending()
    assert found == by_agent
    assert [item.call.arguments for item in found["a"]] == ['{"to":"ada"}', '{"to":"bob"}']
    assert list(await pending(elsewhere, agent="other")) == ["b"]
    assert list(await pending(elsewhere, limit=1)) == ["a"]
    assert lengths == {run_id: len(await store.read(f"run:{run_id}")) for run_id in "abc"}, "nothing is written"
    assert all(info.owner == "" for info in await store.logs("run:")), "no lease is taken"
    await desk.resume("a", {found["a"][0].id: Approve()}, deps={DB: "x"})
    assert (await pending(elsewhere, agent="desk"))["a"] == found["a"][1:]
    await elsewhere.quarantine("run:a", "a test")
    assert list(await pending(elsewhere)) == ["b", "c"]
    await store.close()
    await elsewhere.close()


@pytest.mark.parametrize("kind", PLACES)
async def test_what_waits_all_the_time_is_listed_once_while_runs_change(kind: str, tmp_path: Path) -> None:
    store = PLACES[kind](tmp_path)()
    desk, nap, chance = _questions(store), _nap(store), Random(kind)
    made = count()

    async def begin() -> str:
        run_id = f"{chance.choice('abc')}-{next(made)}"
        await (desk if chance.random() < 0.6 else nap).run(run_id=run_id)
        return run_id

    waiting = {run_id: 2 for run_id in [await begin() for _ in range(12)] if await _asks(store, run_id)}
    for _ in range(amount(2, 20)):
        throughout, answered = dict(waiting), set[str]()
        seen: list[str] = []
        after: str | None = None
        while True:
            page = await pending(store, after=after, limit=chance.randrange(1, 4), kinds=["question"])
            seen += [item.id for items in page.values() for item in items]
            answered |= {run_id for run_id in page if run_id not in waiting}
            if page.next is None:
                break
            after = page.next
            act, run_id = chance.choice(["begin", "answer", "delete"]), chance.choice(sorted(waiting))
            if act == "begin" and await _asks(store, new := await begin()):
                waiting[new] = 2
            elif act == "answer":
                items = recorded_items(await runs_of(store).read(run_id))
                waiting[run_id] -= 1
                await desk.resume(run_id, {items[0].id: Answer("yes")})
            elif act == "delete":
                await store.delete(run_log(run_id))
                waiting[run_id] = 0
            waiting = {run_id: left for run_id, left in waiting.items() if left}
            throughout = {run_id: min(left, waiting.get(run_id, 0)) for run_id, left in throughout.items()}
        assert len(seen) == len(set(seen)), "nothing comes twice"
        assert not answered
        for run_id in (run_id for run_id, left in throughout.items() if left):
            items = recorded_items(await runs_of(store).read(run_id))
            assert {item.id for item in items} <= set(seen)
    await store.close()


@pytest.mark.parametrize("kind", PLACES)
async def test_runs_that_wait_by_themselves_are_not_read(kind: str, tmp_path: Path) -> None:
    store = PLACES[kind](tmp_path)()
    desk, nap = _questions(store), _nap(store)
    await desk.run(run_id="asks")
    for number in range(5):
        await nap.run(run_id=f"naps-{number}")
    assert [info.id for info in await store.logs("run:", asking=(0.0, ""))] == ["asks"]
    assert list(await pending(store, limit=1)) == ["asks"]
    assert (await pending(store, limit=1)).next is None
    assert await pending(store, kinds=["tool"]) == {}
    with pytest.raises(ConfigurationError, match="next"):
        await pending(store, after="asks")
    for kinds in (["tool", "quest"], "question"):
        with pytest.raises(ConfigurationError, match="question"):
            await desk.pending(kinds=wrong(kinds))
    await store.close()


def _questions(store: Store) -> Flow[None, str]:
    async def both() -> str:
        return " ".join(await gather(ask("one?"), ask("two?")))

    return flow(store=store, name="desk")(both)


def _nap(store: Store) -> Flow[None, None]:
    async def nap() -> None:
        await sleep(days=1)

    return flow(store=store, name="nap")(nap)


async def _asks(store: Store, run_id: str) -> bool:
    info = await store.find(run_log(run_id))
    return info is not None and info.asks


async def test_a_damaged_run_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    store = InMemoryStore()
    desk = agent_on(store, "desk")
    for run_id in ("whole", "damaged"):
        await desk.run("go", run_id=run_id, deps={DB: "x"})
    store._logs["run:damaged"].rows.pop(2)
    assert list(await pending(store)) == ["whole"]
    assert "what waits in the run damaged cannot be listed" in caplog.text
