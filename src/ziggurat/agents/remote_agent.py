"""a2a: a remote agent that speaks A2A; messages, states and questions of its task are on record."""

import asyncio
import contextlib
import itertools
from functools import partial

from ziggurat.agents.inherited import agent_parts, facts_of
from ziggurat.agents.program import run_program
from ziggurat.agents.remote_client import A2aClient
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.awaited import ask
from ziggurat.calls.step import step
from ziggurat.core.codec import digest, encode
from ziggurat.core.context import Context
from ziggurat.core.errors import ServiceError
from ziggurat.core.service import Effect
from ziggurat.core.settings import NonEmptyText, SecretText, checked
from ziggurat.journal.journal import journal_of
from ziggurat.journal.store import Store
from ziggurat.layers.retry import retry
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message, Text
from ziggurat.wires import a2a as wire

_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between looks at a task whose server has no streams; the last again and again."""

_SETTLED = (wire.INPUT_REQUIRED, "TASK_STATE_AUTH_REQUIRED", *wire.TERMINAL)
"""The states of a task that does nothing until it is told more."""

_LONGEST = 10_000
"""Characters of a question of a remote agent."""

_CANCELLING = 5.0
"""Seconds in which a remote task is told that it is cancelled."""


@checked
def a2a(
    url: NonEmptyText,
    *,
    name: NonEmptyText,
    description: str = "",
    token: SecretText | None = None,
    effect: Effect = "repeatable",
    store: str | Store | None = None,
) -> Runnable[str]:
    """Return a remote agent that speaks A2A 1.0, to be used as any other agent::

        weather = a2a("https://agents.example.com/weather", name="weather", description="Knows the weather.")
        desk = Agent("openai:gpt-5", tools=[weather])

    It is sent the conversation, and its answer is the output, as text; a value comes as JSON. What it is asked for
    besides, is a question of the run, which waits for the answer. The task of the remote agent is on record: a run
    that is resumed goes on with it. If the call is cancelled, so is the task.

    Nothing is asked for before it is called. Its name and description are yours, for a model reads them: those of the
    card are not shown to it. The card must lead to the server of its own address.

    Args:
        url: The address of the agent, below which its card is, at ``/.well-known/agent-card.json``.
        token: A bearer token that its server asks for.
        effect: Whether a message may be sent again if it is unknown whether it has arrived; see `step`. Servers of
            Ziggurat take a message once in any case.
        name, description, store: As for an `Agent`.

    Raises:
        MissingExtra: the extra ``http`` is not installed.
    """
    return Runnable(_RemoteAgent(A2aClient(url, token), name, description, effect), name=name, store=store)


class _RemoteAgent:
    def __init__(self, client: A2aClient, name: str, description: str, effect: Effect) -> None:
        self._client = client
        self._name = name
        nothing = frozenset[str]()
        parts = agent_parts(
            name, {}, setup=lambda: {"flow": name}, description=description, permissions=nothing, read=None, keep=None
        )
        self.facts = facts_of(parts, effect)
        self._send = step(name="send", effect=effect, layers=[retry()], context=True)(self._send_message)
        self._wait = step(name="wait", effect="none", layers=[retry()], context=True)(self._wait_for_task)

    async def __call__(self, request: AgentRequest, ctx: Context, /) -> AgentRun[str]:
        parts = await run_program(partial(self._converse, request, ctx), ctx)
        own = tuple(part.as_own() for part in parts)
        text = "\n".join(part.text for part in own if isinstance(part, Text))
        answer = Message("assistant", own or (Text(text),))
        messages = Transcript.of(*request.messages, answer)
        start = len(request.messages)
        return AgentRun(messages, stops.Completed(), text, id=ctx.run_id, agent=self._name, start=start)

    async def _converse(self, request: AgentRequest, ctx: Context) -> tuple[wire.Part, ...]:
        first = _parts_of(request)
        answered = await self._send(encode(wire.Message("", "ROLE_USER", first)).decode())
        while answered.message is None:
            task = answered.task or wire.Task("", wire.Status(wire.WORKING))
            if task.status.state not in _SETTLED:
                task = await self._wait(task.id)
            said = () if task.status.message is None else task.status.message.parts
            match task.status.state:
                case "TASK_STATE_COMPLETED":
                    return task.parts or said
                case "TASK_STATE_INPUT_REQUIRED":
                    question = "\n".join(part.text for part in said if part.text) or f"{self._name} needs an answer."
                    parts: tuple[wire.Part, ...] = (wire.Part(text=await ask(question[:_LONGEST])),)
                    message = wire.Message("", "ROLE_USER", parts, task.context_id or None, task.id)
                case "TASK_STATE_CANCELED" if journal_of(ctx).reopened:  # by the end of the process that waited
                    message = wire.Message("", "ROLE_USER", first)
                case state:
                    why = "; ".join(part.text for part in said if part.text)
                    raise ServiceError(f"{self._name} has ended its task: {state} {why}"[:_LONGEST], transient=False)
            answered = await self._send(encode(message).decode())
        return answered.message.parts

    async def _send_message(self, ctx: Context, message: str) -> wire.StreamResponse:
        sent = wire.read_params(message.encode(), wire.Message)
        key = digest(ctx.idempotency_key)
        params = {
            "message": wire.Message(key, sent.role, sent.parts, sent.context_id, sent.task_id),
            "configuration": {"returnImmediately": True},
        }
        try:
            return await self._client.call("SendMessage", params, wire.StreamResponse, ctx, key)
        except ServiceError:
            if not sent.task_id:
                raise
            task = await self._client.call("GetTask", {"id": sent.task_id}, wire.Task, ctx)
            if task.status.state == wire.INPUT_REQUIRED:
                raise
            return wire.StreamResponse(task=task)  # it had arrived before
        except asyncio.CancelledError:
            await self._cancel(sent.task_id or key, ctx)  # servers of Ziggurat have the task by this id
            raise

    async def _wait_for_task(self, ctx: Context, task_id: str) -> wire.Task:
        pauses = itertools.chain(_PAUSES, itertools.repeat(_PAUSES[-1]))
        try:
            while True:
                task = await self._client.call("GetTask", {"id": task_id}, wire.Task, ctx)
                if task.status.state in _SETTLED:
                    return task
                if not (self._client.streams and await self._changes(task_id, ctx)):
                    await ctx.clock.sleep(next(pauses))
        except asyncio.CancelledError:
            await self._cancel(task_id, ctx)
            raise

    async def _changes(self, task_id: str, ctx: Context) -> bool:
        """Follow a task; return whether it has settled, before the stream or in it, and not only the stream ended."""
        with contextlib.suppress(ServiceError):  # to look at the task tells more
            async with contextlib.aclosing(self._client.follow(task_id, ctx)) as updates:
                async for update in updates:
                    told = update.status_update or update.task  # the first is the task as it was found
                    if told is not None and told.status.state in _SETTLED:
                        return True
        return False

    async def _cancel(self, task_id: str, ctx: Context) -> None:
        with contextlib.suppress(ServiceError, TimeoutError):
            async with asyncio.timeout(_CANCELLING):
                await asyncio.shield(self._client.call("CancelTask", {"id": task_id}, wire.Task, ctx))

    def __repr__(self) -> str:
        return f"a2a({self._name})"


def _parts_of(request: AgentRequest) -> tuple[wire.Part, ...]:
    *earlier, last = request.messages
    said = tuple(wire.Part(text=f"[{each.role}] {each.text}") for each in earlier if each.text)
    return said + tuple(shown for part in last.parts if (shown := wire.Part.of(part)) is not None)
