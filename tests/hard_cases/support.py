"""What the hard cases share: a model that answers by turn, and the way of a run into another process."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.agents.support import elsewhere
from ziggurat import AgentRun, Context, Message, ModelRequest, ModelResponse, ToolCall, ToolResult, Usage
from ziggurat.agents import Environment, runs_of
from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.journal.entries import JournalEntry
from ziggurat.messages import assistant

Said = str | ToolCall | Message | Exception | Sequence[ToolCall] | Callable[[ModelRequest], "Said"]


class ByTurn:
    """A model that answers the n-th turn of a conversation with the n-th reply, so a new process can make it again.

    What it was asked is kept in `asked`; each call costs 10 tokens in and 1 out.
    """

    def __init__(self, *replies: Said, name: str = "by_turn") -> None:
        self.replies = replies
        self.asked: list[ModelRequest] = []
        self.__name__ = name

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        """Answer the turn that the conversation has come to."""
        self.asked.append(request)
        turn = sum(message.role == "assistant" for message in request.messages)
        reply = self.replies[turn]
        while callable(reply):
            reply = reply(request)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, (str, ToolCall)):
            reply = assistant(reply)
        elif not isinstance(reply, Message):
            reply = assistant(*reply)
        return ModelResponse(reply, "tool_calls" if reply.tool_calls else "stop", Usage(10, 1, requests=1))


def through_json(store: Any, run_id: str, clock: Clock = SYSTEM_CLOCK) -> Any:
    """Return a new store with a run as another process reads it: written out, and read into new objects."""
    return elsewhere(store, run_id, clock)


async def record(store: Any, run_id: str, entry: JournalEntry) -> None:
    """Append an entry to a run that stands, as a process does that ends right after."""
    runs = runs_of(store)
    journal = await runs.begin(run_id, runs.take(run_id, Environment()))
    waiting = journal.append(entry)
    if waiting is not None:
        await waiting
    await runs.leave(run_id, journal)


async def entries_of(store: Any, run_id: str) -> list[JournalEntry]:
    """Return what a store holds of a run; nothing when it does not know it."""
    if run_id not in await ids_in(store):
        return []
    return (await runs_of(store).read(run_id)).entries


async def ids_in(store: Any) -> list[str]:
    """Return the ids of the runs that a store holds."""
    return [info.id for info in await store.logs("run:")]


async def written(store: Any) -> bytes:
    """Return all that a store has written down."""
    rows = [row for info in await store.logs() for row in await store.read(info.log)]
    return b"".join(row.data for row in rows)


def results(run: AgentRun) -> list[ToolResult]:
    """Return the tool results in a run's conversation, in order."""
    return [result for message in run.messages for result in message.tool_results]


def results_in(request: ModelRequest) -> list[ToolResult]:
    """Return the tool results that a model was shown, in order."""
    return [result for message in request.messages for result in message.tool_results]


async def run_heard(agent: Any, heard: Any, streamed: bool, **options: Any) -> AgentRun:
    """Run an agent with a listener, plainly or streamed."""
    if not streamed:
        run: AgentRun = await agent.run("go", run_id="r", listeners=[heard], **options)
        return run
    async with agent.stream("go", run_id="r", **options) as events:
        async for event in events:
            heard(event)
    response: AgentRun = events.response
    return response
