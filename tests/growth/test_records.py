"""Records, and the time to make them, grow by what is new: by twice for twice as many turns, of every kind of run.

Time is counted in calls of functions, which do not depend on the machine; one that works in C on a list is one call. In
the long form the time of the processor is measured, too.
"""

import gc
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from time import process_time
from types import FrameType
from typing import Any

import pytest

from tests.samples import LONG, rows, sample
from tests.stores.places import PLACES
from ziggurat import Agent, Approve, Message, Middleware, ModelResponse, Runnable, Usage, tool, user
from ziggurat.agents import Answer
from ziggurat.flows import ask, event, flow, gather
from ziggurat.journal import Store
from ziggurat.messages import assistant, tool_call
from ziggurat.middleware import Redaction, Trim
from ziggurat.models import FunctionModel
from ziggurat.stores import Session
from ziggurat.teams import (
    background,
    debate,
    group_chat,
    handoffs,
    ledger_team,
    majority,
    mesh,
    parallel,
    ring,
    sequential_handoff,
    star,
    swarm,
)

TWICE = 2.2
"""Times as much as for n turns that 2n turns may take."""

TWICE_THE_TIME = 2.5
"""Times as long: each run copies the list of its conversation a few times, in nanoseconds a message."""

TURNS = 64 if LONG else 16


@tool
def look(at: str) -> str:
    """Look at something."""
    return f"seen {at}"


def member(name: str, reply: Any = "a word or two", **settings: Any) -> Agent:
    """Return an agent whose model states its usage, as those of providers do; an estimate counts the whole request."""

    def answer(messages: Sequence[Message]) -> ModelResponse:
        said = reply(messages) if callable(reply) else reply
        return ModelResponse(assistant(said), usage=Usage(1, 1, requests=1))

    return Agent(FunctionModel(answer), name=name, **settings)


def steps(turns: int, *middleware: Middleware, store: Store) -> Agent:
    """Return an agent that makes so many steps."""
    left = iter(range(turns))

    def reply(messages: Sequence[Message]) -> Any:
        number = next(left, None)
        return "done" if number is None else tool_call("look", at=f"place {number}")

    return member("walker", reply, tools=[look], max_steps=turns + 1, middleware=middleware, store=store)


async def in_session(one: Runnable, turns: int) -> None:
    for number in range(turns):
        await one.run(f"question {number}", session="s")


async def asking(made: Callable[..., Runnable], store: Store, turns: int) -> None:
    await in_session(made(store=store), turns)


async def added(store: Store, turns: int) -> None:
    chat = Session("s", store)
    one = member("ann", store=store)
    for number in range(turns):
        await chat.add_items([user(f"by hand {number}")])
        await one.run(f"question {number}", session=chat)


def pair(**settings: Any) -> tuple[Agent, Agent]:
    return member("ann", **settings), member("ben", "another word", **settings)


def handing(name: str, to: str) -> Agent:
    return member(name, lambda messages: tool_call(f"handoff_to_{to}", reason="yours"))


def desk(turns: int, **settings: Any) -> Runnable:
    ann, ben = handing("ann", "ben"), handing("ben", "ann")
    return handoffs(ann, ben, max_handoffs=turns, ping_pong=None, **settings)


def ledger(turns: int, **settings: Any) -> Runnable:
    left = iter([{"done": False, "progress": True, "next": "ann", "instruction": "go on"}] * (turns - 1))

    def manage(messages: Sequence[Message]) -> str:
        return json.dumps(next(left, {"done": True})) if "JSON object" in messages[-1].text else "plan"

    return ledger_team(member("boss", manage), member("ann"), turns=turns, **settings)


def asked_once(messages: Sequence[Message]) -> Any:
    """Return the reply of a manager of one turn: a plan, a member to ask, and that this was enough."""
    if "JSON object" not in messages[-1].text:
        return "plan"
    asked = (message.text for message in reversed(messages))
    last = next(text for text in asked if "asks ann" in text or text.startswith("question"))
    turn = {"done": False, "progress": True, "next": "ann", "instruction": "go on"}
    return json.dumps(turn if last.startswith("question") else {"done": True})


def joining(messages: Sequence[Message]) -> Any:
    """Return the reply of a leader that starts one member for each question, and waits for it."""
    last = messages[-1]
    if last.role != "tool":
        return tool_call("start_ann", task="a part of it")
    return "done" if last.tool_results[0].name == "join_members" else tool_call("join_members")


def acting(messages: Sequence[Message]) -> Any:
    return "well" if messages[-1].role == "tool" else tool_call("act", at="there")


@tool(approval=True)
def act(at: str) -> str:
    """Act."""
    return f"acted {at}"


async def resumed(one: Runnable, turns: int) -> None:
    for number in range(turns):
        run = await one.run(f"question {number}", session="s")
        await one.resume(run.id, {run.pending[0].id: Approve()})


def delegating(turns: int, **settings: Any) -> Runnable:
    """Return a team whose leader starts members one after the other, and waits for each."""
    left = iter(range(turns))

    def lead(messages: Sequence[Message]) -> Any:
        last = messages[-1]
        if last.role == "tool" and last.tool_results[0].name == "start_ann":
            return tool_call("join_members", handles=[json.loads(last.tool_results[0].text)["handle"]])
        return "done" if next(left, None) is None else tool_call("start_ann", task="a part of it")

    return background(member("lead", lead, max_steps=2 * turns + 1), member("ann"), **settings)


async def decided(store: Store, turns: int) -> None:
    @flow(store=store)
    async def asks() -> int:
        return len(await gather(*(ask(f"Pay {number}?") for number in range(turns))))

    run = await asks.run(run_id="r")
    handle = asks.attach("r")
    for item in run.pending:
        await handle.decide({item.id: Answer("yes")})


async def posted(store: Store, turns: int) -> None:
    """Send events to a run that waits in this process for another one."""

    @flow(store=store)
    async def waits() -> None:
        await event("end")

    handle = waits.start(run_id="r")
    async for _ in handle.events():  # until it waits
        pass
    for number in range(turns):
        await handle.send("other", number)
    await handle.send("end")
    await handle.result()


IN_SESSION: dict[str, Callable[..., Runnable]] = {
    "agent, trimmed": lambda **given: member("ann", middleware=[Trim(last=6)], **given),
    "agent, trimmed to tokens": lambda **given: member("ann", middleware=[Trim(tokens=200)], **given),
    "sequence": lambda **given: handoffs(*pair(), policy=sequential_handoff(), **given),
    "desk": lambda **given: desk(3, **given),
    "majority": lambda **given: majority(*pair(), **given),
    "parallel": lambda **given: parallel(member("lead"), *pair(), **given),
    "debate": lambda **given: debate(*pair(), rounds=2, **given),
    "swarm": lambda **given: swarm(*pair(), split=lambda text: ["one", "two"], leader=member("lead"), **given),
    "mesh": lambda **given: mesh(*pair(), rounds=2, **given),
    "ring": lambda **given: ring(*pair(), member("cleo"), rounds=2, **given),
    "star": lambda **given: star(member("lead"), *pair(), rounds=2, **given),
    "chat": lambda **given: group_chat(*pair(), turns=3, **given),
    "chat, moderated": lambda **given: group_chat(*pair(), speaker=member("host", "ann"), turns=3, **given),
    "chat, masked": lambda **given: group_chat(*pair(), turns=3, middleware=[Redaction("sesame")], **given),
    "chat, trimmed": lambda **given: group_chat(*pair(middleware=[Trim(last=6)]), turns=3, **given),
    "chat in a star": lambda **given: star(member("lead"), group_chat(*pair(), turns=2), rounds=1, **given),
    "ledger": lambda **given: ledger_team(member("boss", asked_once), member("ann"), turns=3, **given),
    "background": lambda **given: background(member("lead", joining), member("ann"), **given),
}  # fmt: skip
"""What is asked a question in each turn of a session."""

KINDS: dict[str, Callable[[Store, int], Awaitable[object]]] = {
    "session": lambda store, n: in_session(member("ann", store=store), n),
    "session, masked": lambda store, n: in_session(member("ann", store=store, middleware=[Redaction("sesame")]), n),
    "session, added by hand": added,
    "steps, masked": lambda store, n: steps(n, Redaction("sesame"), store=store).run("go"),
    "steps, trimmed": lambda store, n: steps(n, Trim(last=6), store=store).run("go"),
    "steps, trimmed to tokens": lambda store, n: steps(n, Trim(tokens=200), store=store).run("go"),
    "steps, all fit": lambda store, n: steps(n, Trim(tokens=1_000_000), store=store).run("go"),
    "steps, both": lambda store, n: steps(n, Redaction("sesame"), Trim(last=6), store=store).run("go"),
    "chat": lambda store, n: group_chat(*pair(), turns=n, store=store).run("go"),
    "chat, moderated": lambda store, n: group_chat(
        *pair(), speaker=member("host", "ann"), turns=n, store=store
    ).run("go"),
    "chat, masked": lambda store, n: group_chat(
        *pair(), turns=n, store=store, middleware=[Redaction("sesame")]
    ).run("go"),
    "desk": lambda store, n: desk(n, store=store).run("go"),
    "mesh": lambda store, n: mesh(*pair(), rounds=n, store=store).run("go"),
    "ring": lambda store, n: ring(*pair(), member("cleo"), rounds=n, store=store).run("go"),
    "star": lambda store, n: star(member("lead"), *pair(), rounds=n, store=store).run("go"),
    "debate": lambda store, n: debate(*pair(), rounds=n, store=store).run("go"),
    "ledger": lambda store, n: ledger(n, store=store).run("go"),
    "swarm": lambda store, n: swarm(
        *pair(), split=lambda text: [f"part {number}" for number in range(n)], max_subtasks=n, store=store
    ).run("go"),
    "parallel": lambda store, n: parallel(
        member("lead"), *[member(f"m{number}") for number in range(n)], store=store
    ).run("go"),
    "background": lambda store, n: delegating(n, store=store).run("go"),
    "decided one by one": decided,
    "sent for later": posted,
    "session, resumed": lambda store, n: resumed(member("ann", acting, tools=[act], store=store), n),
    "session of a chat, resumed": lambda store, n: resumed(
        group_chat(member("ben"), member("ann", acting, tools=[act]), turns=2, store=store), n
    ),
    **{f"session of {name}": partial(asking, made) for name, made in IN_SESSION.items()},
}  # fmt: skip


async def bytes_in(store: Store) -> int:
    """Return the size of all rows and large values."""
    size = 0
    for info in await store.logs(limit=1_000_000):
        for row in await store.read(info.log):
            size += len(row.data) + (json.loads(row.data)["size"] if row.data.startswith(b'{"blob"') else 0)
    return size


class _Calls:
    """Counts the calls of functions in this thread."""

    def __init__(self) -> None:
        self.number = 0

    def _count(self, frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_call"):
            self.number += 1

    def __enter__(self) -> "_Calls":
        self._before = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(self._before)


async def measured(kind: str, place: str, folder: Path, turns: int) -> tuple[int, int]:
    """Return the bytes in the store, and the calls of functions, of so many turns."""
    folder.mkdir()
    store = PLACES[place](folder)()
    with _Calls() as calls:
        await KINDS[kind](store, turns)
    try:
        return await bytes_in(store), calls.number
    finally:
        await store.close()


async def seconds(kind: str, place: str, folder: Path, turns: int) -> float:
    """Return the seconds of the processor for so many turns, without those of Python's collector of garbage."""
    folder.mkdir()
    store = PLACES[place](folder)()
    gc.collect()
    gc.disable()
    begun = process_time()
    try:
        await KINDS[kind](store, turns)
        return process_time() - begun
    finally:
        gc.enable()
        await store.close()


CASES = sample(rows(KINDS, ["memory", "file", "sqlite", "postgres"]), 8)


@pytest.mark.parametrize(("kind", "place"), CASES)
async def test_records_grow_by_what_is_new(kind: str, place: str, tmp_path: Path) -> None:
    await measured(kind, place, tmp_path / "warm", 2)
    figures = [await measured(kind, place, tmp_path / str(n), n) for n in (TURNS, 2 * TURNS, 4 * TURNS)]
    for less, more in pairwise(figures):
        assert max(more[0] / less[0], more[1] / less[1]) <= TWICE, figures


@pytest.mark.skipif(not LONG, reason="the time of the processor is measured in the long form")
@pytest.mark.parametrize(("kind", "place"), CASES)
async def test_the_time_of_the_processor_grows_by_what_is_new(kind: str, place: str, tmp_path: Path) -> None:
    least: dict[int, float] = {}
    for again in range(6):  # other work on the machine only adds to the time
        for turns in (TURNS // 2, 2 * TURNS):
            taken = await seconds(kind, place, tmp_path / f"{turns}.{again}", turns)
            least[turns] = min(taken, least.get(turns, taken))
        if again and least[2 * TURNS] <= TWICE_THE_TIME**2 * least[TURNS // 2]:
            return
    raise AssertionError(least)


@pytest.mark.skipif(not LONG, reason="the time of the processor is measured in the long form")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.startswith("steps")])
async def test_the_time_of_many_steps_grows_by_their_number(kind: str, tmp_path: Path) -> None:
    # Fewer steps do not show what goes over the whole conversation in each of them, in nanoseconds a message.
    less, more = [
        min([await seconds(kind, "memory", tmp_path / f"{turns}.{again}", turns) for again in range(3)])
        for turns in (1_000, 4_000)
    ]
    assert more <= TWICE**2 * less, (less, more)
