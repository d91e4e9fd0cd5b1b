"""Calls: the runs that answer calls of tools and prompts, begun, continued and followed."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.core.clock import new_id
from ziggurat.core.codec import encode
from ziggurat.core.errors import CallerError
from ziggurat.core.event import Listener
from ziggurat.core.jsonrpc import INTERNAL_ERROR, JsonRpcError
from ziggurat.messages.agent import AgentRun, Decision
from ziggurat.serve.driving import Work
from ziggurat.serve.mcp.caller import Caller, Signer
from ziggurat.serve.mcp.contents import Json
from ziggurat.serve.mcp.inputs import waiting_in
from ziggurat.serve.mcp.offered import Offered
from ziggurat.serve.requests import IN_PROGRESS
from ziggurat.serve.served import ServedAgents


class ServerEnds(JsonRpcError):
    """The server ends before an answer is there; the run goes on elsewhere."""


class Calls:
    def __init__(self, agents: ServedAgents, offered: Mapping[str, Offered], signer: Signer) -> None:
        self.agents = agents
        self.signer = signer
        self._offered = offered  # by the names of their runnables
        self._driving: dict[str, asyncio.Future[AgentRun]] = {}
        self._failed: dict[str, Exception] = {}  # runs that ended with what is not on record, the latest

    # -- one run -------------------------------------------------------------------------------------------------

    async def begin(self, offered: Offered, arguments: Mapping[str, Any], caller: Caller) -> str:
        prompt, run_id = offered.prompt(encode(arguments).decode()), new_id()
        agent = self.agents.agent(offered.runnable.name)
        self.agents.admit()
        caller.begun(run_id)
        await self._drive(agent, run_id, partial(agent.run, prompt, run_id=run_id), caller.hear)
        return run_id

    async def decide(self, run_id: str, decisions: Mapping[str, Decision], listener: Listener | None = None) -> None:
        """Record decisions, and go on with the run if nothing else is to be decided."""
        agent, _ = await self.agents.agent_of(run_id)
        await agent.attach(run_id).decide(decisions)
        if not waiting_in(await agent.attach(run_id).status()):
            await self.go_on(run_id, listener)

    async def go_on(self, run_id: str, listener: Listener | None = None) -> None:
        """Go on with a run that can, unless somebody does."""
        agent, info = await self.agents.newest_of(run_id)
        if run_id not in self._driving:
            self.agents.admit()
            with suppress(*IN_PROGRESS):  # another process goes on with it
                await self._drive(agent, run_id, partial(agent.resume, info.id), listener)

    async def revive(self, run_id: str, listener: Listener) -> None:
        """Go on with a run that has lost its process."""
        agent, _ = await self.agents.agent_of(run_id)
        status = await agent.attach(run_id).status()
        if status.status == "running" and not status.driven:
            await self.go_on(run_id, listener)

    async def settled(self, run_id: str, within: float | None = None) -> AgentRun | None:
        """Wait until a run has ended or only others can go on with it, and return it; None if that takes too long."""
        agent, _ = await self.agents.agent_of(run_id)
        turn = self._driving.get(run_id)
        following = asyncio.ensure_future(agent.attach(run_id).result()) if turn is None else asyncio.shield(turn)
        ending = asyncio.ensure_future(self.agents.closing.wait())
        try:
            both: list[asyncio.Future[Any]] = [following, ending]
            await asyncio.wait(both, timeout=within, return_when=asyncio.FIRST_COMPLETED)
            if not following.done():
                if ending.done():
                    raise ServerEnds("the server ends")
                return None
            return following.result()
        except asyncio.CancelledError:
            if following.cancelled():
                raise ServerEnds("the server ends") from None
            raise
        except Exception as error:
            raise error if isinstance(error, JsonRpcError) else self._failure(error) from error
        finally:
            following.cancel()
            ending.cancel()

    async def _drive(self, agent: Runnable[Any], run_id: str, work: Work, listener: Listener | None) -> None:
        turn = await self.agents.drive(agent, run_id, work, () if listener is None else (listener,))
        self._driving[run_id] = turn
        turn.add_done_callback(partial(self._ended, run_id))

    def _ended(self, run_id: str, turn: "asyncio.Future[AgentRun]") -> None:
        if self._driving.get(run_id) is turn:
            del self._driving[run_id]
        if not turn.cancelled() and isinstance(error := turn.exception(), Exception):
            self._failed[run_id] = error
            if len(self._failed) > 1_000:
                del self._failed[next(iter(self._failed))]

    def failure_of(self, run_id: str) -> JsonRpcError | None:
        """Return with what a run has ended here that is not on record; None if there is nothing."""
        error = self._failed.get(run_id)
        return None if error is None else self._failure(error)

    def is_driven(self, run_id: str) -> bool:
        """Return whether this process drives a run, or waits for its time."""
        return run_id in self._driving

    @staticmethod
    def _failure(error: Exception) -> JsonRpcError:
        """Return the error for the client: of ours, which say what is wrong, the text; of others none."""
        return JsonRpcError(str(error) if isinstance(error, CallerError) else "internal error", INTERNAL_ERROR)

    def answer(self, name: str, run: AgentRun) -> Json:
        return self._offered[name].answer(run)
