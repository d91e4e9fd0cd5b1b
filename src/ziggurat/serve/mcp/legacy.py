"""The era of sessions, up to 2025-11-25: a client connects once, and what waits is asked by requests to it."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import json

from ziggurat.agents.status import RunStatus
from ziggurat.core.codec import encode
from ziggurat.core.errors import CallerError, InvalidArguments
from ziggurat.core.tasks import first_of
from ziggurat.messages.agent import Decision, Deny
from ziggurat.runs.runs import runs_of
from ziggurat.serve.mcp.caller import Caller, Params, Session, Sessions, invalid, level_of
from ziggurat.serve.mcp.calls import Calls
from ziggurat.serve.mcp.contents import Json
from ziggurat.serve.mcp.inputs import capability_of, decision_of, request_for, waiting_in
from ziggurat.serve.mcp.methods import Methods
from ziggurat.wires import jsonrpc


class LegacyEra:
    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._calls: Calls = methods.calls
        self.sessions: Sessions = Sessions(methods.signer)
        self._asked: dict[str, asyncio.Future[Decision]] = {}

    def initialized(self, session: Session) -> Json:
        can = self._methods.capabilities() | {"logging": {}}
        answer: Json = {"protocolVersion": session.version, "capabilities": can, "serverInfo": self._methods.identity}
        if self._methods.server.instructions:
            answer["instructions"] = self._methods.server.instructions
        return answer

    async def follow(self, session: Session, tell: Callable[[jsonrpc.Notification], None]) -> Json:
        def changed(uri: str) -> None:
            if uri in session.uris:
                tell(jsonrpc.Notification("notifications/resources/updated", {"uri": uri}))

        end = self._methods.server.follow(changed)
        try:
            await self._methods.agents.closing.wait()
        finally:
            end()
        return {}

    # -- requests ------------------------------------------------------------------------------------------------

    async def answer(self, message: jsonrpc.Request, params: Params, caller: Caller, session: Session) -> Json:
        match method := message.method:
            case "ping":
                return {}
            case "logging/setLevel":
                session.level = level_of(params.level)
                return {}
            case "resources/subscribe" | "resources/unsubscribe" if self._methods.server.resources:
                self._methods.resource_at(params.uri)
                (session.uris.add if method == "resources/subscribe" else session.uris.discard)(params.uri)
                return {}
            case "tools/call" | "prompts/get" if method == "tools/call" or self._methods.server.prompts:
                offered = self._methods.find(method, params.name)
                try:
                    run_id = await self._calls.begin(offered, params.arguments, caller)
                except InvalidArguments as error:
                    return offered.misfit(error)
                session.runs[message.id] = run_id
                try:
                    return await self.finish(run_id, caller)
                finally:
                    session.runs.pop(message.id, None)
        return await self._methods.answer(method, params)

    async def notified(self, message: jsonrpc.Notification, session: Session) -> None:
        request_id = jsonrpc.parse(message.params, Params).request_id
        run_id = session.runs.get(request_id) if isinstance(request_id, str | int) else None
        if message.method == "notifications/cancelled" and run_id is not None:
            await self._calls.agents.cancel(run_id)

    async def finish(self, run_id: str, caller: Caller) -> Json:
        while isinstance(reached := await self._calls.reach(run_id, caller), RunStatus):
            await self._ask(run_id, reached, caller)
        assert reached is not None
        return reached

    def place_of(self, run_id: str, request_id: jsonrpc.Id, session: Session) -> str:
        """Return the id by which a client comes back for an answer if its connection is cut; "" without a session."""
        text = encode([run_id, request_id]).hex()
        return self._calls.signer.sign("Last-Event-ID", text, session.name) if session.name else ""

    def read_place(self, place: str, session: Session) -> tuple[str, jsonrpc.Id]:
        text = self._calls.signer.read("Last-Event-ID", place, session.name)
        return json.decode(bytes.fromhex(text), type=tuple[str, jsonrpc.Id])

    async def come_back(self, run_id: str, caller: Caller) -> Json:
        """Return what the run of a call has answered, whose client was cut off; it may have lost its process."""
        await self._calls.revive(run_id, caller.hear)
        return await self.finish(run_id, caller)

    async def _ask(self, run_id: str, status: RunStatus, caller: Caller) -> None:
        """Ask the client what a run waits for, and decide by its answers; anybody else may decide before it does."""
        items = waiting_in(status)
        asked = [item for item in items if caller.can(capability_of(item))]
        if not asked:
            needed = ", ".join(sorted({capability_of(item) for item in items}))
            text = f"the call waits for its user, as the run {run_id}; the client has no {needed}"
            raise invalid(text)
        agent, info = await self._calls.agents.newest_of(run_id)
        loop = asyncio.get_running_loop()
        names = {self._calls.signer.sign("request", f"{run_id}~{item.id}"): item for item in asked}
        answers: dict[str, asyncio.Future[Decision]] = {name: loop.create_future() for name in names}
        try:
            self._asked |= answers
            for name, item in names.items():
                caller.send(jsonrpc.Request(name, *request_for(item)))
            await first_of(
                asyncio.wait(answers.values(), return_when=asyncio.FIRST_EXCEPTION),
                runs_of(agent.store).continued(info.id, status.entries),  # decided elsewhere
                self._calls.agents.closing.wait(),
            )
            decisions = {names[name].id: answer.result() for name, answer in answers.items() if answer.done()}
            if len(decisions) == len(asked):
                await self._calls.agents.decide(run_id, decisions, caller.hear)
        finally:
            for name in names:
                del self._asked[name]

    async def respond(self, response: jsonrpc.Success | jsonrpc.Failure) -> None:
        run_id, _, item_id = self._calls.signer.read("request", str(response.id)).partition("~")
        agent, _ = await self._calls.agents.agent_of(run_id)
        items = {item.id: item for item in waiting_in(await agent.attach(run_id).status())}
        if item_id not in items:  # somebody has decided before
            return
        here = self._asked.get(str(response.id))
        try:
            if isinstance(response, jsonrpc.Failure):
                decision: Decision = Deny(f"the client has refused: {response.error.message[:500]}")
            else:
                decision = decision_of(items[item_id], jsonrpc.parse(response.result, dict[str, Any]))
        except (jsonrpc.JsonRpcError, CallerError) as error:
            if here is None or here.done():
                raise
            here.set_exception(error)
            return
        if here is not None and not here.done():
            here.set_result(decision)
        elif here is None:  # the call is answered by another process
            await self._calls.agents.decide(run_id, {item_id: decision})
