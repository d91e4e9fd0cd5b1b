"""What is told of a run is the same live and from the record, and goes on wherever a stream was cut."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.serve.ui.talking import TALK, agent
from ziggurat import Approve, Deny, Modify
from ziggurat.agents import Decision, RunHandle, Runnable
from ziggurat.serve.narration import Over, Tale, ToldRun, Waits
from ziggurat.serve.ui import agui, ai_sdk
from ziggurat.serve.ui.runs import Encode, Place, frames, whole_run

FORMS: dict[str, Callable[[ToldRun], Encode]] = {
    "ag-ui": lambda run: agui.Encoder(run, {"threadId": "t", "runId": "r"}).encode,
    "ai-sdk": lambda run: ai_sdk.Encoder().encode,
}

ENDS = ("RUN_FINISHED", "tool-approval-request")


async def sent(run: ToldRun, form: str, after: Place | None = None) -> list[tuple[Place, Any]]:
    pairs = []
    async for frame in frames(run, FORMS[form](run), after):
        head, _, data = frame.decode().partition("\ndata: ")
        one, two, three = map(int, head.removeprefix("id: ").split("."))
        pairs.append(((one, two, three), json.loads(data)))
    return pairs


async def begun(agent: Runnable, prompt: str | None = None) -> RunHandle:
    """Start or continue a run that is listened to from its beginning, as the server does."""
    handle = agent.start(prompt, run_id="r-1", listeners=[lambda _: None])
    await handle.recorded()
    return handle


def joined(events: list[tuple[Place, Any]]) -> list[Any]:
    """Return events with the pieces of one text as one event."""
    whole: list[Any] = []
    for _, event in events:
        if "delta" in event and whole and {**whole[-1], "delta": ""} == {**event, "delta": ""}:
            event = {**event, "delta": whole.pop()["delta"] + event["delta"]}
        whole.append(event)
    return whole


def without_steps(events: list[tuple[Place, Any]]) -> list[Any]:
    return [event for event in joined(events) if "-step" not in event["type"]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "decision", [Approve(), Deny("no"), Modify({"amount": 4})], ids=lambda each: type(each).__name__
)
async def test_a_stream_goes_on_wherever_it_was_cut(form: str, decision: Decision) -> None:
    teller = agent("talker", *TALK[1:]).with_store("memory:")
    handle = await begun(teller, "Hi")
    first = await sent(ToldRun("r-1", teller), form)
    waits = await handle.result()
    after = (await handle.status()).entries
    await teller.attach("r-1").decide({waits.pending[0].id: decision})
    going = await begun(teller)
    second = await sent(ToldRun("r-1", teller, after), form)
    assert (await going.result()).output == "Take a coat."
    for run, live in ((ToldRun("r-1", teller), first), (ToldRun("r-1", teller, after), second)):
        assert len(live) == len({place for place, _ in live}), "each event has a place of its own"
        assert [place for place, _ in live] == sorted(place for place, _ in live)
        recorded = await sent(run, form)
        assert joined(recorded) == joined(live)
        for source in (live, recorded):
            for number, (place, _) in enumerate(source, 1):
                rest = await sent(run, form, place)
                assert joined(source[:number] + rest) == joined(live), place
    whole = await sent(await whole_run(teller, "r-1", {}), form)
    end = next(number for number, (_, event) in enumerate(first) if event["type"] in ENDS)
    assert without_steps(whole) == without_steps(first[:end] + second)


async def test_pieces_are_told_before_the_reply_is_on_record() -> None:
    heard = asyncio.Event()
    talker = agent("talker", [heard, *TALK[0]]).with_store("memory:")
    handle = talker.start("Hi", listeners=[lambda _: None])
    assert await handle.recorded()

    async def listen() -> list[Tale]:
        return [each.what async for each in ToldRun(handle.id, talker).told()]

    listening = asyncio.ensure_future(listen())
    for _ in range(100):
        await asyncio.sleep(0)
    heard.set()
    told = await listening
    texts = [each.text for each in told if hasattr(each, "text")]
    assert texts == ["Let me ", "see.", "I lo", "ok."]
    assert isinstance(told[-1], Over)


async def test_the_output_of_what_says_nothing_is_told() -> None:
    from ziggurat.flows import flow

    @flow
    async def add(numbers: list[int]) -> int:
        return sum(numbers)

    adder = add.with_store("memory:")
    await adder.run([1, 2], run_id="r-1")
    told = [each.what async for each in ToldRun("r-1", adder).told()]
    assert [each.text for each in told if hasattr(each, "text")] == ["3"]
    assert not any(isinstance(each, Waits) for each in told)
