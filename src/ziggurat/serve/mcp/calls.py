"""Calls: the runs that answer calls of tools and prompts, begun, continued and followed."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ziggurat.agents.status import RunStatus
from ziggurat.core.clock import new_id
from ziggurat.core.codec import encode
from ziggurat.core.errors import IN_PROGRESS, CallerError
from ziggurat.core.event import Listener
from ziggurat.core.tasks import first_of
from ziggurat.messages.agent import AgentRun
from ziggurat.serve.mcp.caller import Caller, Signer
from ziggurat.serve.mcp.contents import Json
from ziggurat.serve.mcp.inputs import waiting_in
from ziggurat.serve.mcp.offering import Offered
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.jsonrpc import INTERNAL_ERROR, JsonRpcError


class ServerEnds(JsonRpcError):
    """The server ends before an answer is there; the run goes on elsewhere."""


class Calls:
    def __init__(self, agents: ServedAgents, offered: Mapping[str, Offered], signer: Signer) -> None:
        self.agents = agents
        self.signer = signer
        self.offered = offered  # by the names of their runnables

    async def begin(self, offered: Offered, arguments: Mapping[str, Any], caller: Caller) -> str:
        prompt, run_id = offered.prompt(encode(arguments).decode()), new_id()
        agent = self.agents.agent(offered.runnable.name)
        self.agents.admit()
        caller.begun(run_id)
        await self.agents.drive(agent, run_id, partial(agent.run, prompt, run_id=run_id), [caller.hear])
        return run_id

    async def go_on(self, run_id: str, *listeners: Listener) -> None:
        if self.agents.turn_of(run_id) is None:
            self.agents.admit()
            with suppress(*IN_PROGRESS):  # another process goes on with it
                await self.agents.resume(run_id, *listeners)

    async def revive(self, run_id: str, listener: Listener) -> None:
        agent, _ = await self.agents.agent_of(run_id)
        status = await agent.attach(run_id).status()
        if status.status == "running" and not status.driven:
            await self.go_on(run_id, listener)

    async def reach(self, run_id: str, caller: Caller, within: float | None = None) -> Json | RunStatus | None:
        """Return the answer of a call, or the status of a run that asks the client; None if both take too long."""
        while (run := await self.settled(run_id, within)) is not None:
            agent, _ = await self.agents.agent_of(run_id)
            if not any(item.needs_decision for item in run.pending):
                return self.offered[agent.name].answer(run)
            status = await agent.attach(run_id).status()
            if waiting_in(status):
                return status
            await self.go_on(run_id, caller.hear)  # somebody else has decided
        return None

    async def settled(self, run_id: str, within: float | None = None) -> AgentRun | None:
        """Wait until a run has ended or only others can go on with it, and return it; None if that takes too long."""
        agent, _ = await self.agents.agent_of(run_id)
        turn = self.agents.turn_of(run_id)
        following = asyncio.ensure_future(agent.attach(run_id).result()) if turn is None else asyncio.shield(turn)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(within):
                    await first_of(asyncio.wait([following]), self.agents.closing.wait())
            if not following.done():
                if self.agents.closing.closed:
                    raise ServerEnds("the server ends")
                return None
            return following.result()
        except asyncio.CancelledError:
            if following.cancelled():
                raise ServerEnds("the server ends") from None
            raise
        except Exception as error:
            if isinstance(error, JsonRpcError):
                raise
            text = str(error) if isinstance(error, CallerError) else "internal error"
            raise JsonRpcError(text, INTERNAL_ERROR) from error
        finally:
            following.cancel()
