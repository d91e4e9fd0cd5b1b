"""Many readers of one run: recorded entries arrive complete, deltas only while reading."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ziggurat import Agent, ConfigurationError, Message, ModelRequest, ModelResponse
from ziggurat.core.codec import encode
from ziggurat.errors import RunNotFound
from ziggurat.events import AgentEnded, AgentStarted, Delta, ModelEnded, ToolEnded
from ziggurat.journal import Store
from ziggurat.journal.entries import Ended, Intent, Opened
from ziggurat.messages import assistant, tool_call
from ziggurat.models import FunctionModel
from ziggurat.runs.control import SubscribedItem
from ziggurat.stores import connect
from ziggurat.testing import Pause, ScriptedModel


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def agent() -> Agent:
    model = ScriptedModel([tool_call("add", a=1, b=2)], ["it ", Pause(), "is ", Pause(), "3"])
    return Agent(model, tools=[add], store="memory:")


async def follow(agent: Agent, after: int = 0) -> list[SubscribedItem]:
    return [heard async for heard in agent.attach("r").events(after=after)]


def durable(heard: list[SubscribedItem]) -> list[tuple[int, bytes]]:
    return [(each.number, encode(each.what)) for each in heard if each.index == 0]


async def test_readers_that_join_early_late_and_after_the_end_hear_the_same_record() -> None:
    one = agent()
    handle = one.start("1 + 2?", run_id="r")
    await asyncio.sleep(0)
    early = asyncio.create_task(follow(one))
    for _ in range(6):
        await asyncio.sleep(0)
    late = asyncio.create_task(follow(one))
    run = await handle.result()
    assert run.text == "it is 3"
    after_the_end = await follow(one)
    assert durable(await early) == durable(await late) == durable(after_the_end)
    numbers = [number for number, _ in durable(after_the_end)]
    assert numbers == list(range(1, len(numbers) + 1))
    kinds = [type(heard.what) for heard in after_the_end]
    assert kinds == [Opened, AgentStarted, ModelEnded, Intent, ToolEnded, ModelEnded, AgentEnded, Ended]


async def test_pieces_of_a_reply_pass_between_entries_in_order() -> None:
    one = agent()
    handle = one.start("1 + 2?", run_id="r")
    await asyncio.sleep(0)
    reader = asyncio.create_task(follow(one))
    await handle.result()
    heard = await reader
    places = [(each.number, each.index) for each in heard]
    assert places == sorted(places)
    assert len(set(places)) == len(places)
    told = "".join(
        each.what.delta.text for each in heard if isinstance(each.what, Delta) and hasattr(each.what.delta, "text")
    )
    assert told == "it is 3"


async def test_one_goes_on_after_a_number() -> None:
    one = agent()
    await one.run("1 + 2?", run_id="r")
    everything = await follow(one)
    for after in range(len(everything) + 1):
        assert await follow(one, after=after) == everything[after:]


async def test_a_reader_that_leaves_is_forgotten_and_none_makes_the_run_wait() -> None:
    goes_on = asyncio.Event()

    async def reply(messages: Sequence[Message]) -> str:
        await goes_on.wait()
        return "it is 3"

    one = Agent(FunctionModel(reply), store="memory:")
    handle = one.start("1 + 2?", run_id="r")
    await asyncio.sleep(0)
    reader = one.attach("r").events()
    assert (await anext(reader)).number == 1
    broadcast = one._runs._driven["r"].broadcast
    assert broadcast is not None
    assert len(broadcast.readers) == 1
    await reader.aclose()
    assert not broadcast.readers
    goes_on.set()
    assert (await handle.result()).text == "it is 3"
    assert "r" not in one._runs._driven


async def test_an_unknown_run_is_an_error() -> None:
    with pytest.raises(RunNotFound, match="there is no run 'r'"):
        await follow(agent())


@pytest.mark.parametrize("after", [None, "1", -1, True, 1.5, []])
def test_after_is_the_number_of_an_entry(after: int) -> None:
    with pytest.raises(ConfigurationError, match="after"):
        agent().attach("r").events(after=after)


def test_what_cannot_be_looked_up_is_no_id() -> None:
    with pytest.raises(ConfigurationError, match="text"):
        agent().attach([])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["memory:", "sqlite:///{}/runs.db"])
async def test_a_reader_in_another_thread_hears_all_as_it_happens(kind: str, tmp_path: Path) -> None:
    opened = connect(kind.format(tmp_path))
    begun, heard_of = threading.Event(), threading.Event()

    async def slow(request: ModelRequest) -> ModelResponse:
        if len(request.messages) > 1:
            return ModelResponse(assistant("3"))
        begun.set()
        await asyncio.to_thread(heard_of.wait)  # the run continues when the reader waits for the next entry
        return ModelResponse(assistant(tool_call("add", a=1, b=2)))

    one = Agent(FunctionModel(slow), tools=[add], store=opened)
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.append(one.run_sync("1 + 2?", run_id="r")))
    thread.start()
    begun.wait()

    numbers: list[int] = []
    async for heard in one.attach("r").events():
        if heard.index == 0:
            numbers.append(heard.number)
        if len(numbers) == 2:
            asyncio.get_running_loop().call_soon(heard_of.set)
    if isinstance(opened, Store):
        await opened.close()
    thread.join()
    assert ended
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 6
