"""What a handle gives its own run is in the inbox of the run when the handle says so, if the process is lost or not."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import texts, turns
from tests.samples import sample
from tests.stores.places import STORES, new_store, reopened, used
from ziggurat import Agent, Context, Message, tool
from ziggurat.agents import RunHandle, Runnable, runs_of
from ziggurat.events import Steered
from ziggurat.messages import ToolCall, stops, tool_call
from ziggurat.middleware import Redaction
from ziggurat.models import FunctionModel
from ziggurat.testing import ScriptedModel


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Make `new_store` open stores of a kind."""
    with used(request.param, tmp_path):
        yield request.param


def _worker(store: Any, gate: asyncio.Event, name: str = "clerk") -> Agent:
    @tool(effect="none")
    async def work() -> str:
        await gate.wait()
        return "done"

    def reply(messages: list[Message]) -> str | ToolCall:
        return "All done." if messages[-1].tool_results or len(messages) > 3 else tool_call("work")

    return Agent(FunctionModel(reply), name=name, tools=[work], store=store)


async def _kill(handle: RunHandle[Any], agent: Agent) -> None:
    """End the task of a run as if its process had ended."""
    runs_of(agent.store).withdraw("r")
    assert handle._task is not None
    handle._task.cancel()
    await asyncio.wait([handle._task])


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("place", STORES, indirect=True)
@pytest.mark.parametrize("verb", ["inject", "redirect", "cancel"])
async def test_it_takes_effect_after_the_loss_of_the_process(place: str, verb: str) -> None:
    store, gate = new_store(), asyncio.Event()
    agent = _worker(store, gate)
    handle = agent.start("go", run_id="r")
    while not (await handle.status()).messages[1:]:
        await turns(5)
    arguments: dict[str, Any] = {"after_step": True} if verb == "cancel" else {"prompt": "and then?"}
    assert await getattr(handle, verb)(**arguments)
    await _kill(handle, agent)
    gate.set()
    heard: list[str] = []
    run = await _worker(reopened(store), gate).resume("r", listeners=[lambda event: heard.append(_verb(event))])
    assert heard.count(verb) == 1
    assert isinstance(run.stop, stops.Cancelled if verb == "cancel" else stops.Completed)
    assert texts(run.messages).count("and then?") == (verb != "cancel")
    again = await _worker(reopened(store), gate).replay("r")
    assert again.messages == run.messages


def _verb(event: object) -> str:
    return event.verb if isinstance(event, Steered) else ""


@pytest.mark.parametrize("kind", ["memory:", "sqlite:///{}/runs.db"])
@pytest.mark.parametrize("moment", sample(range(40), 6))
async def test_who_hears_yes_is_heard(kind: str, moment: int, tmp_path: Path) -> None:
    model = ScriptedModel(*[f"answer {number}" for number in range(9)])
    handle = Agent(model, store=kind.format(tmp_path)).start("go", run_id="r")
    await turns(moment)
    told = await asyncio.gather(*(handle.inject(f"message {number}") for number in range(3)))
    said = texts((await handle.result()).messages)
    assert [f"message {number}" in said for number in range(3)] == told


async def test_the_model_reads_what_is_redacted_in_the_inbox() -> None:
    model = ScriptedModel("one", "two")
    store = new_store()
    handle = Agent(model, middleware=[Redaction("hunter2x")], store=store).start("go", run_id="r")
    assert await handle.inject("It is hunter2x")
    await handle.result()
    assert texts(model.last.messages)[-1] == "It is hunter2x"
    items = await runs_of(store).inbox("r")
    assert [b"hunter2x" in item.data for item in items] == [False]


async def test_a_part_of_a_run_is_steered_though_it_has_no_inbox() -> None:
    inner = Agent(ScriptedModel("one", "two"), name="inner")

    async def lead(request: Any, ctx: Context) -> Any:
        handle = inner.start("go")
        assert await handle.inject("also this")
        return await handle.result()

    run = await Runnable(lead, name="lead").run("go")
    assert "also this" in texts(run.messages)
