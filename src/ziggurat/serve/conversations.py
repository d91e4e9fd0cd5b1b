"""Answer a request of a provider's API with a run of an agent: one stage for all formats."""

__all__ = ["Answered", "Conversation", "ConversationRequest", "NotAnswered", "say_recorded"]

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from ziggurat.core.clock import new_id
from ziggurat.core.codec import encode
from ziggurat.core.entries import JournalEntry
from ziggurat.core.errors import EmptyPrompt, RunNotFound
from ziggurat.core.event import Event
from ziggurat.core.path import escaped, step_of
from ziggurat.core.store import run_log
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun, Answer, Decision
from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message
from ziggurat.messages.model import FinishReason, ModelRequest
from ziggurat.messages.parts import Text, Thinking, ToolResult
from ziggurat.messages.recorded import recorded_steps
from ziggurat.messages.usage import Usage
from ziggurat.serve.client_request import client_calls, with_client
from ziggurat.serve.served import ServedAgents

Say = Callable[[PartDelta], Awaitable[None]]
"""Takes each piece of an answer as it comes."""

_NOTHING: Mapping[str, Decision] = MappingProxyType({})

_CALL_ID = re.compile(r"call_(.+)_([0-9a-f]{16})")

_REFUSED: dict[type[stops.Stop], int] = {
    stops.Failed: 500,
    stops.TimedOut: 504,
    stops.BudgetExceeded: 403,
    stops.ModelCallDenied: 403,
    stops.Cancelled: 409,
}


class ConversationRequest(Struct, frozen=True):
    """A request of a provider's API.

    Attributes:
        agent: The name of the agent.
        content: The conversation, with instructions, tools and the output schema of the client.
        run_id: The id of the run that answers; by default a new one.
        session: The session to continue with the last message; by default the messages are the whole conversation.
        page: The address of the page of this server.
    """

    agent: str
    content: ModelRequest
    run_id: str | None = None
    session: str | None = None
    page: str = ""


class Answered(Struct, frozen=True):
    """How an answer has ended, of which all pieces were said.

    Attributes:
        run_id: The run that answered.
        finish: Why it ended: ``"tool_calls"`` if it waits for results of the client's tools.
        usage: The usage of the run, nested agents included.
    """

    run_id: str
    finish: FinishReason
    usage: Usage


class NotAnswered(Exception):
    """A run ended without an answer.

    Attributes:
        status: The HTTP status that says so.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: int = status


class Conversation:
    """One request, and the run that answers it.

    Attributes:
        run_id: The id of the run: a new one, or one that waits for the results of the client's tools in the request.
    """

    def __init__(
        self,
        agents: ServedAgents,
        request: ConversationRequest,
        run_id: str,
        decisions: Mapping[str, Decision] = _NOTHING,
        steps: int = 0,
    ) -> None:
        self._agents = agents
        self._request = request
        self._agent = with_client(agents.agent(request.agent), request.content)
        self._decisions = decisions
        self._steps = steps  # of the run, of which the client has what was said
        self._joins = False
        self.run_id: str = run_id

    @classmethod
    async def of(cls, agents: ServedAgents, request: ConversationRequest) -> "Conversation":
        """Return the conversation for a request.

        Raises:
            ZigguratError: the request cannot be answered, such as by an agent that does not exist.
        """
        agent = agents.agent(request.agent)
        if not request.content.messages:
            raise EmptyPrompt("there is no message to answer")
        results = {result.id: result.text for result in _last_results(request.content)}
        matches = [_CALL_ID.fullmatch(call_id) for call_id in results]
        run_ids = {match[1] if match else "" for match in matches}
        if len(run_ids) == 1 and (run_id := run_ids.pop()):
            info = await agent.store.find(run_log(run_id))
            if info is not None and (info.agent, info.status) == (agent.name, "Suspended"):
                status = await agent.attach(run_id).status()
                names = {_call_id(run_id, item): item for item in client_calls(status.pending)}
                decisions = {names[name]: Answer(text) for name, text in results.items() if name in names}
                if decisions:
                    return cls(agents, request, run_id, decisions, len(status.steps))
        return cls(agents, request, request.run_id or new_id())

    async def answer(self, say: Say) -> Answered:
        """Have the agent answer, and pass each piece of its answer to `say`.

        Its own tools are called here and not shown. If it calls tools of the client, the run waits, and goes on when
        their results come in another request.

        Raises:
            ZigguratError: the run cannot be started or continued.
            NotAnswered: it failed or was cancelled.
        """
        speech = _Speech(self._agent.name, say, self._steps)
        if self._agents.full:
            raise NotAnswered(503, "as many runs are driven here as may be; try again")
        driving = self._agents.drive(self.run_id, self._work(speech))
        await asyncio.wait([driving])  # which goes on if this is cancelled
        if driving.cancelled():
            raise NotAnswered(503, f"the server ends; the run {self.run_id} can be resumed")
        return await _conclude(driving.result(), speech, self._request.page)

    async def _work(self, speech: "_Speech") -> AgentRun:
        if self._request.run_id is not None and not self._decisions:
            await self._wait_for_another()
        return await self._run(speech)

    async def _wait_for_another(self) -> None:
        """Wait while the run is driven for another request with its id, which then has the same answer."""
        attached = self._agent.attach(self.run_id)
        with suppress(RunNotFound):
            self._joins = (await attached.status()).driven
            if self._joins:
                await attached.result()

    def _run(self, speech: "_Speech") -> Coroutine[Any, Any, AgentRun]:
        listeners = [speech.hear]
        if self._decisions:
            return self._agent.run(run_id=self.run_id, decisions=self._decisions, listeners=listeners)
        messages, session = self._request.content.messages, self._request.session
        if session is None:
            return self._agent.run(history=messages, run_id=self.run_id, listeners=listeners)
        return self._agent.run(messages[-1], session=session, run_id=self.run_id, listeners=listeners)

    async def cancel(self) -> None:
        """Cancel the run, as nobody wants its answer any more, unless it is that of another request."""
        if self._joins:
            return
        with suppress(RunNotFound):  # it has not begun
            await self._agent.attach(self.run_id).cancel()


class _Speech:
    """Says what an agent itself says and thinks, with an empty line between the texts of two steps."""

    def __init__(self, agent: str, say: Say, steps: int) -> None:
        self._path = escaped(agent)
        self._steps = steps
        self.say = say
        self._step = ""
        self._said = ""  # in the latest step with text

    async def hear(self, event: Event) -> None:
        """Take an event of the run."""
        if not isinstance(event, Delta):
            return
        _, step, place = step_of(event.path, self._path)
        if place.partition("#")[0] != "model" or step <= self._steps:  # of an agent below, or said before
            return
        if isinstance(event.delta, TextDelta):
            await self._text(event.delta.text, event.path)
        elif isinstance(event.delta, ThinkingDelta):
            await self.say(event.delta)

    async def _text(self, text: str, step: str) -> None:
        if not text:
            return
        if step != self._step:
            text, self._step, self._said = ("\n\n" if self._said else "") + text, step, ""
        self._said += text
        await self.say(TextDelta(text))

    async def repeat(self, message: Message, step: str) -> None:
        """Say what a message of a step on record says and thinks."""
        for part in message.parts:
            if isinstance(part, Text):
                await self._text(part.text, step)
            elif isinstance(part, Thinking):
                await self.say(ThinkingDelta(part.text))

    async def end(self, output: object) -> None:
        """Say the answer, unless it was said."""
        text = output if isinstance(output, str) else encode(output).decode()
        if text and self._said.strip() != text.strip():
            await self._text(text, "end")


async def say_recorded(run: AgentRun, entries: Sequence[JournalEntry], say: Say, page: str) -> Answered:
    """Say the answer of a run that is on record, as `Conversation.answer` did when it was given.

    Args:
        run: The run, which has ended or waits.
        entries: Its record.
        say: Takes each piece.
        page: The address of the page of this server.

    Raises:
        NotAnswered: it failed or was cancelled.
    """
    speech = _Speech(run.agent, say, 0)
    for step in recorded_steps(entries, escaped(run.agent))[1]:
        for number, reply in enumerate(step.replies):
            await speech.repeat(reply, f"{step.number}-{number}")
    return await _conclude(run, speech, page)


async def _conclude(run: AgentRun, speech: _Speech, page: str) -> Answered:
    """Say what has not been said of the answer of a run, or raise why it has none."""
    if run.pending:
        return await _wait(run, speech, page)
    status = _REFUSED.get(type(run.stop))
    if status is not None:
        raise NotAnswered(status, run.error or f"the run ended: {stops.status_of(run.stop)}")
    await speech.end(run.output if run.output is not None else run.text)
    return Answered(run.id, _finish(run.stop), run.usage)


async def _wait(run: AgentRun, speech: _Speech, page: str) -> Answered:
    """Say what a run waits for: calls of the client, or a decision of a person, with the address of the page."""
    calls = client_calls(run.pending)
    for index, (item_id, call) in enumerate(calls.items()):
        text = encode(call.arguments).decode()
        await speech.say(ToolCallDelta(index, text, _call_id(run.id, item_id), call.call))
    if calls:
        return Answered(run.id, "tool_calls", run.usage)
    waits = ", ".join(item.call.name if item.stage == "tool" else item.reason or item.stage for item in run.pending)
    where = f" at {page}#/runs/{run.id}" if page else f"; its id is {run.id}"
    await speech.end(f"The run waits for a decision on {waits}{where}")
    return Answered(run.id, "stop", run.usage)


def _last_results(request: ModelRequest) -> Iterator[ToolResult]:
    for message in reversed(request.messages):
        if message.role != "tool":
            break
        yield from message.tool_results


def _finish(stop: stops.Stop) -> FinishReason:
    match stop:
        case stops.Incomplete("length" | "content_filter" | "refusal" as finish):
            return finish
        case stops.MaxSteps():
            return "length"
    return "stop"


def _call_id(run_id: str, item_id: str) -> str:
    return f"call_{run_id}_{item_id[:16]}"
