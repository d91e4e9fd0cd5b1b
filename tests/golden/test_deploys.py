"""Ten changes of code and prompt after a deploy: a run that waits continues with each, or is told apart by name.

The run was recorded by the agent below as it was: it had looked an address up, had asked another agent, and waits for
a person to agree to a mail. What is recorded stands; what is live goes by the new agent; each difference is told of.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.hard_cases.support import ByTurn, results, results_in
from tests.samples import sample
from tests.stores.places import PLACES
from ziggurat import Agent, AgentRun, Approve, Context, Event, Middleware, ModelRequest, tool
from ziggurat.errors import JournalMismatch, RunNotFound
from ziggurat.events import Diverged
from ziggurat.journal import Store
from ziggurat.messages import stops, tool_call
from ziggurat.stores import InMemoryStore

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@tool
def look_up(name: str) -> str:
    """Find an address."""
    DONE.append(f"look up {name}")
    return f"{name}@example.org"


@tool(effect="once", approval=True)
def send_mail(to: str) -> str:
    """Send a mail."""
    DONE.append(f"mail to {to}")
    return f"sent to {to}"


@tool(name="find_address")
def renamed(name: str) -> str:
    """Find an address."""
    return f"{name}@example.org"


@tool(name="send_mail", effect="once", approval=True)
def stricter(to: str, subject: str) -> str:
    """Send a mail with a subject."""
    DONE.append(f"mail to {to} about {subject}")
    return "sent"


class Report(Struct):
    """A typed answer."""

    sent: bool


class Reminder(Middleware):
    """Says something before each question."""

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest:
        DONE.append("hook")
        return request


def _helper(name: str = "helper", says: str = "It is fine.") -> Agent:
    return Agent(ByTurn(says, name=f"{name}_model"), name=name, description="Helps.")


TURNS = (
    [tool_call("look_up", id="call_0", name="ada"), tool_call("helper", id="call_1", input="Is it fine?")],
    tool_call("send_mail", id="call_0", to="ada@example.org"),
    lambda request: f"The last result: {results_in(request)[-1].text}",
)


def desk(store: Any, **changes: Any) -> Agent:
    """Return the agent, as it was recorded or with changes."""
    settings: dict[str, Any] = {
        "name": "desk",
        "model": ByTurn(*TURNS, name="model-1"),
        "tools": [look_up, send_mail, _helper()],
        "instructions": "Be kind.",
    }
    settings.update(changes)
    return Agent(settings.pop("model"), store=store, **settings)


@dataclass(frozen=True)
class Deploy:
    """A change, and what comes of it.

    Attributes:
        changes: What of the agent is another.
        told: What is told to differ, at any path.
        text: What the run says in the end; None where it is told apart instead.
        refused: What is told if the approved call cannot be made as it was approved; the run waits as before then.
        sent: Whether the mail that was approved is sent.
        replays: Whether the recorded run still replays, as nothing in the record tells the two apart.
    """

    changes: Callable[[], dict[str, Any]]
    told: frozenset[str] = field(default_factory=frozenset)
    text: str | None = "The last result: sent to ada@example.org"
    refused: str = ""
    sent: bool = True
    replays: bool = False


TOOLS = frozenset({"tools"})

DEPLOYS = {
    "a tool that was used is renamed": Deploy(lambda: {"tools": [renamed, send_mail, _helper()]}, TOOLS),
    "a tool that was used is removed": Deploy(lambda: {"tools": [send_mail, _helper()]}, TOOLS),
    "the tool that waits is removed": Deploy(lambda: {"tools": [look_up, _helper()]}, TOOLS, refused="send_mail"),
    "the instructions change": Deploy(lambda: {"instructions": "Be brief."}, frozenset({"instructions"})),
    "the model changes": Deploy(lambda: {"model": ByTurn(*TURNS, name="model-2")}, frozenset({"model", "service"})),
    "a hook is added": Deploy(lambda: {"middleware": [Reminder()]}, replays=True),
    "the schema of the tool that waits changes": Deploy(
        lambda: {"tools": [look_up, stricter, _helper()]}, TOOLS, refused="subject"
    ),
    "the type of the answer changes": Deploy(
        lambda: {
            "output": Report,
            "model": ByTurn(*TURNS[:2], tool_call("final_answer", id="x", sent=True), name="model-1"),
        },
        TOOLS | {"output"},
        "",
    ),
    "the tools change places": Deploy(lambda: {"tools": [_helper(), send_mail, look_up]}, TOOLS),
    "the agent is renamed": Deploy(lambda: {"name": "clerk"}, text=None, sent=False),
    "the nested agent is another": Deploy(
        lambda: {"tools": [look_up, send_mail, _helper(says="It is bad.")]}, replays=True
    ),
}


async def _waiting(store: Store) -> AgentRun:
    run = await desk(store).run("Write to Ada.", run_id="r")
    assert run.stop == stops.Suspended()
    assert DONE == ["look up ada"]
    return run


@pytest.mark.parametrize(("kind", "change"), sample(product(["memory", "sqlite"], DEPLOYS), 12))
async def test_a_run_that_waits_goes_on_after_a_deploy(kind: str, change: str, tmp_path: Path) -> None:
    deploy, opens = DEPLOYS[change], PLACES[kind](tmp_path)
    heard: set[str] = set()

    def listen(event: Event) -> None:
        if isinstance(event, Diverged):
            heard.add(event.what)

    store = opens()
    (item,) = (await _waiting(store)).pending
    await store.close()
    later = opens()
    agent = desk(later, **deploy.changes())
    if deploy.text is None:
        with pytest.raises(RunNotFound, match="'clerk'"):
            await agent.resume("r", {item.id: Approve()})
    else:
        assert [each.id for each in (await agent.resume("r")).pending] == [item.id], "it waits until it is decided"
        if deploy.refused:
            with pytest.raises(JournalMismatch, match=deploy.refused):
                await agent.resume("r", {item.id: Approve()})
            agent, heard = desk(later), set(deploy.told)
        run = await agent.resume("r", {item.id: Approve()}, listeners=[listen])
        assert run.stop == stops.Completed()
        assert run.text.startswith(deploy.text)
        assert [result.text for result in results(run)][:2] == ["ada@example.org", "It is fine."]
        assert heard == deploy.told
    assert DONE.count("mail to ada@example.org") == deploy.sent
    assert DONE.count("look up ada") == 1, "what was done is not done again"
    await later.close()


@pytest.mark.parametrize("change", [change for change, deploy in DEPLOYS.items() if deploy.text is not None])
async def test_a_replay_tells_a_deploy_from_what_was_recorded(change: str) -> None:
    deploy, store = DEPLOYS[change], InMemoryStore()
    (item,) = (await _waiting(store)).pending
    run = await desk(store).resume("r", {item.id: Approve()})
    again = desk(store, **deploy.changes())
    if deploy.replays:
        assert (await again.replay("r")).messages == run.messages
    else:
        with pytest.raises(JournalMismatch, match=f"at desk: ({'|'.join(deploy.told)})"):
            await again.replay("r")


async def test_a_hook_that_is_added_runs_for_what_is_live_only() -> None:
    store = InMemoryStore()
    (item,) = (await _waiting(store)).pending
    await desk(store, middleware=[Reminder()]).resume("r", {item.id: Approve()})
    assert DONE.count("hook") == 1
