"""Helpers for the tests of agents: an agent, a check of conversations, a fold of events, a pass through JSON."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from tests.stores.places import reopened
from ziggurat import Agent, AgentRun, Event, Message
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.path import is_beneath
from ziggurat.events import Delta, Dropped, Fold
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel
from ziggurat.testing.loop import disk


def assert_sendable(messages: Iterable[Message]) -> None:
    """Assert that a conversation can be sent to any model: order, ids, and each call with its result."""
    log = list(messages)
    assert log, "an empty conversation"
    at = 0
    while at < len(log):
        message = log[at]
        assert message.role in ("system", "user", "assistant"), f"message {at} is an orphan: {message}"
        assert message.parts or message.role == "assistant", f"message {at} is empty"
        calls = message.tool_calls
        assert message.role == "assistant" or not calls, f"a {message.role} calls tools"
        ids = [call.id for call in calls]
        assert len(set(ids)) == len(ids), f"ids repeat within one reply: {ids}"
        answers = log[at + 1 : at + 1 + len(calls)]
        assert [answer.role for answer in answers] == ["tool"] * len(calls), f"message {at}: a call has no result"
        results = [answer.tool_results[0] for answer in answers]
        assert [result.id for result in results] == ids
        assert [result.name for result in results] == [call.name for call in calls]
        at += 1 + len(calls)


def elsewhere(store: InMemoryStore, run_id: str, clock: Clock = SYSTEM_CLOCK) -> InMemoryStore:
    """Return a new store with a run as another process would read it."""
    if not isinstance(store, InMemoryStore):  # a store that outlives the process
        return reopened(store)
    return InMemoryStore(shared=store, clock=clock)


class Folded:
    """A listener that folds deltas by path, and drops folds on `Dropped` events."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._folds: dict[str, Fold] = {}

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Delta):
            self._folds.setdefault(event.path, Fold()).push(event.delta)
        elif isinstance(event, Dropped):
            for path in [path for path in self._folds if is_beneath(path, event.path)]:
                del self._folds[path]

    def messages(self, under: str = "") -> list[Message]:
        """Return the folded messages of calls below a path, in the order in which they began."""
        return [fold.message() for path, fold in self._folds.items() if is_beneath(path, under)]

    def own(self, name: str) -> list[Message]:
        """Return the folded messages of one agent itself, without those nested in its tools."""
        own = re.compile(rf"{name}step-\d+/model")
        heard = [fold.message() for path, fold in self._folds.items() if own.match(path)]
        return [message for message in heard if message.parts]


def said(run: AgentRun) -> list[Message]:
    """Return the model's messages in a run, except empty ones, which have no deltas."""
    return [message for message in run.messages if message.role == "assistant" and message.parts]


def timeless(run: AgentRun) -> AgentRun:
    """Return a run without its id and time, and whether it was replayed: they differ between runs of one script."""
    return replace(run, id="", seconds=0.0, replayed=False)


async def streamed(agent: Agent, prompt: Any, **options: Any) -> tuple[AgentRun, Folded]:
    """Run by streaming; return the run and the listener."""
    heard = Folded()
    async with agent.stream(prompt, **options) as events:
        async for event in events:
            heard(event)
    return events.response, heard


async def turns(number: int) -> None:
    """Let the event loop turn a number of times; waiting for a disk is one turn, however long it takes."""
    for _ in range(number):
        await disk()
        await asyncio.sleep(0)


def texts(messages: Sequence[Message]) -> list[str]:
    """Return the texts of messages."""
    return [message.text for message in messages]


def hello(**options: Any) -> Agent:
    """Return an agent that answers everything with one word."""
    return Agent(ScriptedModel(always="hello"), **options)
