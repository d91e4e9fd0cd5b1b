"""Forks: earlier steps are kept, later ones differ, and side effects need permission."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.agents.support import assert_sendable
from tests.samples import sample
from tests.stores.places import PLACES, Place, opening
from ziggurat import Agent, AgentRequest, Approve, ConfigurationError, Context, Key, Middleware, ModelRequest, tool
from ziggurat.errors import CallerError, RunExists, RunNotFound
from ziggurat.journal import Store
from ziggurat.journal.entries import Opened, Origin
from ziggurat.messages import stops, tool_call
from ziggurat.testing import ScriptedModel
from ziggurat.tools import Tool


class World:
    """Records the actions of the tools."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.sent: list[str] = []

    def agent(
        self,
        store: Store | str,
        *replies: object,
        tools: tuple[Tool, ...] = (),
        middleware: Sequence[Middleware] = (),
    ) -> Agent:
        @tool(effect="none")
        def read(page: str) -> str:
            self.read.append(page)
            return f"page {page}"

        @tool
        def send(to: str) -> str:
            self.sent.append(to)
            return f"sent to {to}, number {len(self.sent)}"

        said = replies or (
            [tool_call("read", page="1"), tool_call("send", id="s", to="ada")],
            tool_call("send", to="bob"),
            "All sent.",
        )
        model = ScriptedModel(*said)  # type: ignore[arg-type]
        return Agent(model, tools=[read, send, *tools], middleware=middleware, store=store)


@pytest.fixture(params=sample([*PLACES, "by reference"], 2))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opening(request.param, tmp_path) as place:
        yield place


async def first(agent: Agent, run_id: str) -> Opened:
    heard = agent.attach(run_id).events()
    opened = (await anext(heard)).what
    await heard.aclose()
    assert isinstance(opened, Opened)
    return opened


async def test_what_lies_before_a_step_is_kept_and_costs_nothing(place: Place) -> None:
    world = World()
    before = await world.agent(place()).run("Send it", run_id="r")
    assert world.sent == ["ada", "bob"]
    other = world.agent(place(), "Only Ada got it.")
    fork = await other.fork("r", at=2, new_id="f")
    assert (fork.text, fork.steps, fork.id) == ("Only Ada got it.", 2, "f")
    assert fork.messages[:4] == before.messages[:4]
    assert (world.read, world.sent) == (["1"], ["ada", "bob"])
    assert fork.usage.requests == 2
    assert_sendable(fork.messages)
    opened = await first(other, "f")
    assert opened.forked == Origin("r", 2, "refuse")
    assert (await world.agent(place(), "never said").resume("r")).text == "All sent.", "the run before is as it was"


async def test_an_id_that_is_there_is_refused_by_name(place: Place) -> None:
    world = World()
    agent = world.agent(place())
    await agent.run("Send it", run_id="r")
    with pytest.raises(RunExists, match="'r'"):
        await agent.fork("r", at=2, new_id="r")


async def test_effects_of_a_fork(place: Place) -> None:
    world = World()
    await world.agent(place()).run("Send it", run_id="r")
    again = (tool_call("send", to="bob"), tool_call("send", to="eve"), "Done.")
    refused = await world.agent(place(), *again).fork("r", at=2)
    assert all("is a fork" in observed for observed in refused.observations[2:])
    kept = await world.agent(place(), *again).fork("r", at=2, effects="recorded")
    assert kept.observations[2] == "sent to bob, number 2"
    assert "the run before made no such call" in kept.observations[3]
    assert world.sent == ["ada", "bob"]
    live = await world.agent(place(), *again).fork("r", at=2, effects="live")
    assert live.observations[2:] == ("sent to bob, number 3", "sent to eve, number 4")


async def test_another_prompt_at_the_first_step_takes_the_place_of_the_question(place: Place) -> None:
    world = World()
    await world.agent(place()).run("Send it", run_id="r")
    fork = await world.agent(place(), "No.").fork("r", at=1, prompt="Do nothing")
    assert [message.text for message in fork.messages] == ["Do nothing", "No."]
    same = await world.agent(place(), "Yes.").fork("r", at=1)
    assert [message.text for message in same.messages] == ["Send it", "Yes."]


async def test_another_prompt_later_is_said_before_that_step(place: Place) -> None:
    world = World()
    await world.agent(place()).run("Send it", run_id="r")
    other = world.agent(place(), "Stopped.")
    fork = await other.fork("r", at=2, prompt="Not to Bob", new_id="f")
    assert [message.role for message in fork.messages] == ["user", "assistant", "tool", "tool", "user", "assistant"]
    assert fork.messages[-2].text == "Not to Bob"
    further = await world.agent(place(), "As you like.").fork("f", at=3, prompt="Sure?", new_id="g")
    assert [message.text for message in further.messages[-4:]] == [
        "Not to Bob",
        "Stopped.",
        "Sure?",
        "As you like.",
    ]
    assert_sendable(further.messages)
    assert (await other.replay("g")).messages == further.messages


async def test_a_fork_that_waits_goes_on_in_another_process_and_is_still_held_back(place: Place) -> None:
    @tool(approval=True, effect="none")
    def ask() -> str:
        return "asked"

    world = World()
    await world.agent(place()).run("Send it", run_id="r")
    replies = (tool_call("ask"), tool_call("send", to="eve"), "Done.")
    fork = await world.agent(place(), *replies[:1], tools=(ask,)).fork("r", at=2, new_id="f")
    assert fork.stop == stops.Suspended()
    run = await world.agent(place(), *replies[1:], tools=(ask,)).resume(
        "f", {item.id: Approve() for item in fork.pending}
    )
    assert run.observations[2] == "asked"
    assert run.observations[3].startswith("send was not run")
    assert world.sent == ["ada", "bob"]


@pytest.mark.parametrize(
    ("at", "options", "told"),
    [
        (0, {}, r"at=...\) is a whole number of at least 1; got 0"),
        (5, {}, "cannot be forked at step 5: it can at steps 1 to 4"),
        (4, {}, "answered in step 3; to continue from there, give the fork a prompt"),
        (True, {}, r"at=...\) is a whole number of at least 1"),
        ("2", {}, r"at=...\) is a whole number of at least 1"),
        (2, {"effects": "some"}, "is 'refuse', 'recorded' or 'live'"),
        (2, {"effects": []}, r"is 'refuse', 'recorded' or 'live'; got \[\]"),
        (2, {"prompt": " "}, "the prompt is empty"),
    ],
)
async def test_a_fork_that_makes_no_sense_is_refused(at: int, options: dict[str, str], told: str) -> None:
    agent = World().agent("memory:")
    await agent.run("Send it", run_id="r")
    with pytest.raises(CallerError, match=told):
        await agent.fork("r", at, **options)  # type: ignore[arg-type]


async def test_ids_of_forks(place: Place) -> None:
    agent = World().agent(place())
    await agent.run("Send it", run_id="r")
    with pytest.raises(RunExists):
        await agent.fork("r", at=1, new_id="r")
    with pytest.raises(RunNotFound):
        await agent.fork("nothing", at=1)


class Misused(Middleware):
    """Reads a dependency where it is told to."""

    def __init__(self, hook: str) -> None:
        self.hook = hook

    async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest | None:
        self._read("before_agent", ctx)
        return None

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        self._read("before_model", ctx)
        return None

    def _read(self, hook: str, ctx: Context) -> None:
        if hook == self.hook:
            ctx.scope[USER]


USER: Key[str] = Key("user")


@pytest.mark.parametrize(
    ("hook", "at", "prompt"), [("before_agent", 1, "Read it"), ("before_model", 1, None), ("before_model", 2, None)]
)
async def test_a_fork_that_does_nothing_for_a_mistake_is_not_recorded(
    hook: str, at: int, prompt: str | None, place: Place
) -> None:

    world, deps = World(), {USER: "ann"}
    agent = world.agent(place(), middleware=[Misused(hook)])
    await agent.run("Send it", run_id="r", deps=deps)
    before = await agent.record("r")
    other = world.agent(place(), "All read.", middleware=[Misused(hook)])
    with pytest.raises(ConfigurationError, match="user"):
        await other.fork("r", at, prompt, new_id="f")
    with pytest.raises(RunNotFound):
        await other.record("f")
    fork = await other.fork("r", at, prompt, new_id="f", deps=deps)
    assert (fork.id, fork.text) == ("f", "All read.")
    assert await agent.record("r") == before
