"""Pending approvals: decided later, elsewhere, in part, too late, or twice; and the grants a run keeps."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.clerk import clerk, waiting
from tests.hard_cases.support import ByTurn, results
from tests.samples import pairs, sample
from tests.stores import places
from tests.stores.places import PLACES, Place, new_store, opening
from tests.stores.server import schema
from ziggurat import Agent, AgentRun, Approvals, Approve, ConfigurationError, Deny, Modify, tool
from ziggurat.agents import Decision, Environment, PendingItem
from ziggurat.journal import Row
from ziggurat.journal.store import chained, run_log
from ziggurat.messages import stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=sample(PLACES, 2))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as place:
        yield place


def in_a_process(url: str, ledger: Path, phase: str, *decisions: dict[str, str]) -> list[dict[str, Any]]:
    """Run one phase in a separate process; return the outcome of each try."""
    words = [sys.executable, "-m", "tests.agents.clerk", url, str(ledger), phase, json.dumps(decisions)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


URLS: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda folder: f"sqlite:///{folder}/runs.db?synchronous=NORMAL",
    "file": lambda folder: f"file://{folder}/runs",
    "postgres": lambda folder: schema(),
}


@pytest.mark.parametrize("kind", sample(URLS, 1))
def test_each_phase_is_another_process(kind: str, tmp_path: Path) -> None:
    url = URLS[kind](tmp_path)
    ledger = tmp_path / "ledger"
    (begun,) = in_a_process(url, ledger, "run")
    assert begun["stop"] == "Suspended"
    assert set(begun["waiting"]) == {"ada", "ben"}, "two at once, at two depths"
    assert ledger.read_text() == "looked ada up\n", "the other call of the batch is done and kept"
    ada, ben = begun["waiting"]["ada"], begun["waiting"]["ben"]
    (partly,) = in_a_process(url, ledger, "resume", {ben: "approve"})
    assert partly["stop"] == "Suspended"
    assert partly["waiting"] == {"ada": ada}, "the rest stays pending under its id"
    again, ended, after = in_a_process(url, ledger, "resume", {ben: "deny"}, {ada: "modify"}, {ada: "approve"})
    assert "AlreadyDecided" in again["error"], "a decision stands"
    assert "AlreadyDecided" in after["error"], "also when the run has ended"
    assert ended["stop"] == "Completed"
    assert ended["results"] == ["ada is known", "paid 1 to ada", "paid 5 to ben"]
    assert ledger.read_text() == "looked ada up\npaid 5 to ben\npaid 1 to ada\n", "nothing is done twice"


async def test_a_denial_is_told_to_the_model(place: Place, tmp_path: Path) -> None:
    run = await clerk(place(), tmp_path / "ledger").run("Pay them", run_id="r")
    ids = waiting(run)
    decisions = {ids["ada"]: Deny("not now"), ids["ben"]: Deny("nor ever")}
    run = await clerk(place(), tmp_path / "ledger").resume("r", decisions)
    assert run.stop == stops.Completed()
    assert [(each.error, each.text) for each in results(run)] == [
        (None, "ada is known"), ("denied", "denied: not now"), (None, "denied: nor ever"),
    ]  # fmt: skip
    assert (tmp_path / "ledger").read_text() == "looked ada up\n"


async def test_what_nobody_decided_in_time_is_denied_whatever_is_said_later(place: Place, tmp_path: Path) -> None:
    clock = HandClock()

    def agent() -> Agent:
        return clerk(place(), tmp_path / "ledger", approvals=Approvals(expires=60.0))

    run = await agent().run("Pay them", run_id="r", environment=Environment(clock=clock))
    assert {item.until for item in run.pending} == {clock.now() + 60.0}
    ids = waiting(run)
    await clock.advance(59.0)
    run = await agent().resume("r", {ids["ben"]: Approve()}, environment=Environment(clock=clock))
    assert waiting(run) == {"ada": ids["ada"]}
    assert run.pending[0].until == clock.now() + 1.0, "the time does not begin again"
    await clock.advance(1.0)
    run = await agent().resume("r", {ids["ada"]: Approve()}, environment=Environment(clock=clock))
    assert run.stop == stops.Completed()
    told = "denied: expired: nobody had decided by 2001-09-09 01:47:40 UTC"
    assert [each.text for each in results(run)] == ["ada is known", told, "paid 5 to ben"]
    assert (await agent().replay("r")).messages == run.messages, "it is on record"
    assert "ada" not in (tmp_path / "ledger").read_text().replace("looked ada up", "")


async def test_what_expired_is_denied_also_when_nothing_is_said(place: Place, tmp_path: Path) -> None:
    clock = HandClock()
    strict = Approvals(expires=10.0)
    agent = clerk(place(), tmp_path / "ledger", approvals=strict)
    await agent.run("Pay them", run_id="r", environment=Environment(clock=clock))
    await clock.advance(10.0)
    run = await clerk(place(), tmp_path / "ledger").resume("r", environment=Environment(clock=clock))
    assert run.stop == stops.Completed()
    assert sum("expired" in each.text for each in results(run)) == 2
    assert (tmp_path / "ledger").read_text() == "looked ada up\n"
    for seconds in (0, -1.0, float("inf"), True, "1"):
        with pytest.raises(ConfigurationError, match="expires"):
            Approvals(expires=seconds)  # type: ignore[arg-type]


async def test_the_approved_arguments_are_those_that_were_shown(place: Place, tmp_path: Path) -> None:
    run = await clerk(place(), tmp_path / "ledger").run("Pay them", run_id="r")
    store = place()
    log = run_log("r")
    rows = await store.read(log)
    info = await store.find(log)
    assert info is not None
    await store.delete(log)
    changed: list[Row] = []
    for row in rows:  # an attacker with access to the store changes the pending call, and repairs the hash chain
        data = row.data
        if b'"entry":"Pending"' in data:
            data = data.replace(b'\\"ada\\"', b'\\"eve\\"')
        before = changed[-1].digest if changed else ""
        changed.append(Row(row.number, chained(before, data), data, row.status))
    assert [row.data for row in changed] != [row.data for row in rows]
    await store.release(log, await store.create(info, changed))
    run = await clerk(place(), tmp_path / "ledger").resume("r", {item.id: Approve() for item in run.pending})
    assert results(run)[1].text == "paid 5 to ada", "the digest that was approved is that of the call to Ada"
    assert "eve" not in (tmp_path / "ledger").read_text()


async def test_a_changed_call_must_fit_the_tool_at_any_depth(place: Place, tmp_path: Path) -> None:
    run = await clerk(place(), tmp_path / "ledger").run("Pay them", run_id="r")
    ids = waiting(run)
    bea = Modify('{"to": "bea", "amount": 2}')
    for who, arguments, told in (
        ("ada", '{"to": 7}', "to: expected a string, got 7"),
        ("ben", '{"to": "bea", "amount": "all"}', "amount: expected an integer"),
    ):
        with pytest.raises(ConfigurationError, match=told):
            await clerk(place(), tmp_path / "ledger").resume("r", {ids["ben"]: bea, ids[who]: Modify(arguments)})
    run = await clerk(place(), tmp_path / "ledger").resume("r", {ids["ben"]: bea})
    assert waiting(run) == {"ada": ids["ada"]}, "of what was refused, nothing is decided"
    run = await clerk(place(), tmp_path / "ledger").resume("r", {ids["ada"]: Modify('{"to": "al"}')})
    assert [each.text for each in results(run)] == ["ada is known", "paid 5 to al", "paid 2 to bea"]
    assert (tmp_path / "ledger").read_text() == "looked ada up\npaid 2 to bea\npaid 5 to al\n"


def fetcher(store: Any) -> Agent:
    """Return an agent with a tool that needs a grant, after one that needs approval."""

    @tool(approval=True, permissions=[])
    def ask() -> str:
        return "asked"

    @tool(permissions=["network"])
    def fetch() -> str:
        return "fetched"

    @tool
    def undeclared() -> str:
        return "done"

    model = ByTurn(tool_call("ask"), (tool_call("fetch"), tool_call("undeclared")), "end")
    return Agent(model, tools=[ask, fetch, undeclared], store=store, name="fetcher")


@pytest.mark.parametrize("given", [None, ["network", "file_read"]])
async def test_a_resumed_run_is_never_granted_more_than_the_run_was(place: Place, given: Any) -> None:
    async def went(store: Any, again: Any, grants: Any) -> list[str | None]:
        run = await fetcher(store).run("Go", run_id="r", grants=grants)
        run = await fetcher(again).resume("r", {run.pending[0].id: Approve()}, grants=given)
        return [each.error for each in results(run)]

    here = InMemoryStore()
    for store, again in ((place(), place()), (here, here)):
        assert await went(store, again, []) == [None, "denied", "denied"]
    other = InMemoryStore()
    assert await went(other, other, ["network"]) == [None, None, "denied"]
    free = InMemoryStore()
    assert await went(free, free, None) == [None, None, "denied" if given else None]


async def test_a_resumed_run_may_be_granted_less(place: Place) -> None:
    run = await fetcher(place()).run("Go", run_id="r", grants=["network"])
    assert [
        each.error for each in results(await fetcher(place()).resume("r", {run.pending[0].id: Approve()}, grants=[]))
    ] == [None, "denied", "denied"]


# -- while an approver in another process is asked -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "answer", "outcome"),
    pairs(
        ["memory", "sqlite", "file"],
        [Approve(), Deny("no, too"), Modify({"amount": 3}), None],
        [(Approve(), "paid 5", [5]), (Deny("no"), "denied: no", []), (Modify({"amount": 1}), "paid 1", [1])],
    ),
)
def test_the_first_decision_stands_whoever_makes_it(
    kind: str, answer: Decision | None, outcome: tuple[Decision, str, list[int]], tmp_path: Path
) -> None:
    posted, observed, paid = outcome
    made: list[int] = []

    @tool
    def pay(amount: int) -> str:
        made.append(amount)
        return f"paid {amount}"

    async def main() -> AgentRun:
        asked: asyncio.Future[PendingItem] = asyncio.get_running_loop().create_future()
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        async def approver(item: PendingItem) -> Any:
            asked.set_result(item)
            return await answered

        model = ByTurn(tool_call("pay", amount=5), "done")
        store = new_store()
        agent = Agent(model, tools=[pay], approvals=Approvals("pay", approver=approver), store=store, name="desk")
        handle = agent.start("go", run_id="r")
        item = await asked
        elsewhere = Agent(model, tools=[pay], approvals=Approvals("pay"), store=store, name="desk")
        await elsewhere.attach("r").decide({item.id: posted})
        answered.set_result(answer)  # None is no decision: it does not matter any more
        await handle.result()
        return await agent.replay("r")

    with places.used(kind, tmp_path):
        run = asyncio.run(main())
    assert (run.observations, made) == ((observed,), paid)
