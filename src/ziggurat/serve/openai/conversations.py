"""Answer a request of a provider's API with a run of an agent: one stage for all formats."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.hooks import HookChain
from ziggurat.core.clock import new_id
from ziggurat.core.errors import CallerError, EmptyPrompt, RunNotFound
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.conversation import Conversation as Messages
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.usage import Usage
from ziggurat.serve.openai import answers
from ziggurat.serve.openai.client_request import hooked, with_client
from ziggurat.serve.openai.continuations import Continuation, find_continuation
from ziggurat.serve.openai.speech import Say, Speech
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.types import ApprovalResponse


class ConversationRequest(Struct, frozen=True):
    agent: str
    content: ModelRequest
    run_id: str | None = None
    previous: str | None = None
    approvals: tuple[ApprovalResponse, ...] = ()
    page: str = ""


class Conversation:
    def __init__(self, agents: ServedAgents, request: ConversationRequest, waiting: Continuation | None) -> None:
        self._agents = agents
        self.request: ConversationRequest = request
        self.begun: asyncio.Event = asyncio.Event()
        self._agent = with_client(agents.agent(request.agent), request.content)
        self._waiting = waiting or Continuation(request.run_id or new_id(), 0, Usage(), {})
        self._joins = False
        self.id: answers.ResponseId = answers.ResponseId(self._waiting.run_id, self._waiting.after)

    @classmethod
    async def of(cls, agents: ServedAgents, request: ConversationRequest) -> "Conversation":
        agent, content = agents.agent(request.agent), request.content
        if not (content.messages or request.approvals):
            raise EmptyPrompt("there is no message to answer")
        waiting = await find_continuation(agent, content, request.previous, request.approvals)
        if waiting is None and request.previous is not None:
            earlier = await _messages_of(agents, request.previous)
            content = replace(content, messages=Messages([*earlier, *content.messages]).view())
            request = replace(request, content=content, previous=None)
        return cls(agents, request, waiting)

    async def answer(self, say: Say) -> answers.Answered:
        speech = Speech(say, self.id.after, [tool.name for tool in self.request.content.tools])
        self._agents.admit()
        agent, run_id = hooked(self._agent, HookChain((speech,))), self.id.run_id
        turn = await self._agents.drive(agent, run_id, partial(self._work, agent), [speech.wait])
        self.begun.set()
        following = asyncio.ensure_future(speech.follow(self._agent, run_id))
        both: list[asyncio.Future[Any]] = [turn, following]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                await following
            await asyncio.wait([turn])  # which goes on if this is cancelled
            if turn.cancelled():
                raise answers.NotAnswered(503, f"the server ends; the run {run_id} can be resumed")
            try:
                run = turn.result()
            except CallerError as error:  # a mistake in the code of the server: the request was taken
                raise answers.NotAnswered(500, str(error)) from error
            await following
        finally:
            following.cancel()
        answered = await answers.conclude(run, speech, self.request.page)
        return replace(answered, usage=answers.used_since(answered.usage, self._waiting.before))

    async def _work(self, agent: Runnable[Any], **options: Any) -> AgentRun:
        if self.request.run_id is not None and not self._waiting.decisions:
            await self._wait_for_another()
        for message in self._waiting.messages:
            await self._agent.attach(self.id.run_id).inject(message)
        if self._waiting.decisions:
            return await agent.run(run_id=self.id.run_id, decisions=self._waiting.decisions, **options)
        return await agent.run(history=self.request.content.messages, run_id=self.id.run_id, **options)

    async def _wait_for_another(self) -> None:
        """Wait while the run is driven for another request with its id, which then has the same answer."""
        attached = self._agent.attach(self.id.run_id)
        with suppress(RunNotFound):
            self._joins = (await attached.status()).driven
            if self._joins:
                await attached.result()

    async def cancel(self) -> None:
        """Cancel the run, as nobody wants its answer any more, unless it is that of another request."""
        if self._joins:
            return
        with suppress(RunNotFound):  # it has not begun
            await self._agent.attach(self.id.run_id).cancel()


async def _messages_of(agents: ServedAgents, run_id: str) -> Sequence[Message]:
    agent, _ = await agents.agent_of(run_id)
    status = await agent.attach(run_id).status()
    if status.status in ("running", "Suspended"):
        waits = answers.waits_of(status.pending)
        why = f"it waits for {waits}; send the results or approvals first" if waits else "it is in progress"
        raise answers.NotAnswered(409, f"previous_response_id: the response has not ended: {why}")
    return status.messages
