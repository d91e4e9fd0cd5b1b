"""The era without sessions, from 2026-07-28 on: each request says all that it needs, and what waits is asked for in the
answer."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ziggurat.agents.status import RunStatus
from ziggurat.core.codec import digest
from ziggurat.core.errors import InvalidArguments, RunNotFound
from ziggurat.mcp import wire
from ziggurat.messages.agent import PendingItem
from ziggurat.runs.runs import runs_of
from ziggurat.serve.mcp.caller import Caller, Params, invalid, level_of, missing_capability
from ziggurat.serve.mcp.calls import Calls, ServerEnds
from ziggurat.serve.mcp.contents import Json
from ziggurat.serve.mcp.inputs import capability_of, decision_of, input_requests, keyed, waiting_in
from ziggurat.serve.mcp.methods import Methods
from ziggurat.serve.mcp.offering import Offered
from ziggurat.serve.rows import time_of
from ziggurat.wires import jsonrpc

_POLL = 1_000  # milliseconds after which clients should look at a task again
_DETAILS = ("result", "error", "inputRequests", "statusMessage")


class Tasks:
    """The tasks of a server. The id of one is the signed id of its run."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def created(self, run_id: str, caller: Caller) -> Json:
        task = await self.task(run_id, caller)
        return {"resultType": "task", **{name: value for name, value in task.items() if name not in _DETAILS}}

    async def run_of(self, task_id: str) -> str:
        run_id = self._calls.signer.read("task", task_id)
        try:
            await self._calls.agents.agent_of(run_id)
        except RunNotFound as error:
            raise invalid("there is no such task any more") from error
        return run_id

    async def task(self, run_id: str, caller: Caller) -> Json:
        """Return a task with what its status is about; a run that lost its process goes on here."""
        agent, info = await self._calls.agents.newest_of(run_id)
        task = {
            "taskId": self._calls.signer.sign("task", run_id),
            "status": "working",
            "createdAt": time_of(info.created),
            "lastUpdatedAt": time_of(info.updated),
            "ttlMs": None,
            "pollIntervalMs": _POLL,
        }
        if (text := self._calls.agents.reason_of(run_id)) is not None:
            return task | _failed(jsonrpc.JsonRpcError(text))
        status = await agent.attach(run_id).status()
        if status.driven or self._calls.agents.turn_of(run_id) is not None:
            return task
        if waits := waiting_in(status):
            return task | {"status": "input_required", "inputRequests": input_requests(waits, caller)}
        if status.status in ("running", "Suspended"):
            await self._calls.go_on(run_id)
            return task
        if status.status == "Cancelled":
            return task | {"status": "cancelled"}
        try:
            run = await agent.attach(run_id).result()
            return task | {
                "status": "completed",
                "result": {"resultType": "complete", **self._calls.offered[agent.name].answer(run)},
            }
        except jsonrpc.JsonRpcError as failed:
            return task | _failed(failed)

    async def update(self, task_id: str, responses: Mapping[str, object]) -> None:
        run_id = await self.run_of(task_id)
        agent, _ = await self._calls.agents.agent_of(run_id)
        waits = {item.id: item for item in waiting_in(await agent.attach(run_id).status())}
        decisions = {name: decision_of(waits[name], response) for name, response in responses.items() if name in waits}
        if decisions:
            await self._calls.agents.decide(run_id, decisions)

    async def cancel(self, task_id: str) -> None:
        await self._calls.agents.cancel(await self.run_of(task_id))

    async def follow(self, run_id: str, caller: Caller, tell: Callable[[str, Json], None]) -> None:
        told = ""
        while True:
            agent, info = await self._calls.agents.newest_of(run_id)
            task = await self.task(run_id, caller)
            if (now := digest([task["status"], sorted(task.get("inputRequests", ()))])) != told:
                told = now
                tell("notifications/tasks", task)
            if task["status"] in ("completed", "failed", "cancelled"):
                return
            if task["status"] == "working":
                await self._calls.settled(run_id)
            else:
                await runs_of(agent.store).continued(info.id, info.count)


def _failed(error: jsonrpc.JsonRpcError) -> Json:
    return {"status": "failed", "statusMessage": error.message, "error": {"code": error.code, "message": error.message}}


_CACHED = ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "server/discover")
_NEEDS_TASKS: Json = {"extensions": {wire.TASKS: {}}}
_TTL = 60_000  # milliseconds for which a list is fresh


def is_modern(method: str, params: Params) -> bool:
    """Return whether a request is one of this era, which says its revision itself, or has methods of its own."""
    return wire.PREFIX + "protocolVersion" in params.meta or method in ("server/discover", "subscriptions/listen")


class ModernEra:
    def __init__(self, methods: Methods) -> None:
        self._methods = methods
        self._calls: Calls = methods.calls
        self._tasks = Tasks(methods.calls)

    @staticmethod
    def caller(params: Params, send: Callable[[jsonrpc.Message], None]) -> Caller:
        meta = params.meta
        version, capabilities = meta.get(wire.PREFIX + "protocolVersion"), meta.get(wire.PREFIX + "clientCapabilities")
        if not isinstance(version, str):
            raise invalid(f"_meta must have {wire.PREFIX}protocolVersion, a text")
        if version != wire.MODERN:
            data = {"supported": [wire.MODERN, *wire.LEGACY], "requested": version}
            raise jsonrpc.JsonRpcError("unsupported protocol version", wire.UNSUPPORTED_VERSION, data)
        if not isinstance(capabilities, dict):
            raise invalid(f"_meta must have {wire.PREFIX}clientCapabilities, an object")
        level, token = meta.get(wire.PREFIX + "logLevel"), meta.get("progressToken")
        level = "" if level is None else level_of(level)
        return Caller(version, capabilities, send, token if isinstance(token, str | int) else None, level)

    async def answer(self, method: str, params: Params, caller: Caller, request_id: jsonrpc.Id) -> Json:
        match method:
            case "server/discover":
                result = self._discovered()
            case "tools/call" | "prompts/get" if method == "tools/call" or self._methods.server.prompts:
                result = await self._call(self._methods.find(method, params.name), method, params, caller)
            case "subscriptions/listen":
                return await self._listen(request_id, params, caller)
            case "tasks/get" | "tasks/update" | "tasks/cancel":
                result = await self._task(method, params, caller)
            case _:
                result = await self._methods.answer(method, params)
        if method in _CACHED:
            result = {**result, "ttlMs": _TTL, "cacheScope": "private"}
        elif method == "resources/read":
            result = {**result, "ttlMs": 0, "cacheScope": "private"}
        return {"resultType": "complete", "_meta": {wire.PREFIX + "serverInfo": self._methods.identity}, **result}

    def _discovered(self) -> Json:
        can = self._methods.capabilities() | _NEEDS_TASKS
        found: Json = {"supportedVersions": [wire.MODERN, *wire.LEGACY], "capabilities": can}
        if self._methods.server.instructions:
            found["instructions"] = self._methods.server.instructions
        return found

    # -- calls ---------------------------------------------------------------------------------------------------

    async def _call(self, offered: Offered, method: str, params: Params, caller: Caller) -> Json:
        bound = params.bound_to(method)
        responses = dict(params.input_responses or {})
        needs_task = offered.spec.name in self._methods.server.tasks and method == "tools/call"
        if needs_task and not caller.knows_tasks:
            raise missing_capability(_NEEDS_TASKS, f"{offered.spec.name} takes long: its calls are tasks")
        if params.request_state is None:
            try:
                run_id = await self._calls.begin(offered, params.arguments, caller)
            except InvalidArguments as error:
                return offered.misfit(error)
        else:
            run_id = self._calls.signer.read("requestState", params.request_state, bound).partition("~")[0]
            await self._continue(run_id, responses, caller)
        try:
            if needs_task:
                return await self._tasks.created(run_id, caller)
            return await self._outcome(run_id, bound, responses, caller)
        except ServerEnds:  # the client is to call again, whoever serves it then
            state = self._calls.signer.sign("requestState", run_id, bound)
            return {"resultType": "input_required", "requestState": state}
        except asyncio.CancelledError:
            await self._calls.agents.cancel(run_id)
            raise

    async def _outcome(self, run_id: str, bound: str, responses: dict[str, Any], caller: Caller) -> Json:
        within = self._methods.server.task_after if caller.knows_tasks else None
        while True:
            reached = await self._calls.reach(run_id, caller, within)
            if reached is None:
                return await self._tasks.created(run_id, caller)
            if not isinstance(reached, RunStatus):
                return reached
            items = keyed(waiting_in(reached))
            if not await self._use(run_id, items, responses, caller):
                state = self._calls.signer.sign("requestState", f"{run_id}~{reached.entries}", bound)
                return self._asking(items, state, caller, run_id)

    async def _continue(self, run_id: str, responses: dict[str, Any], caller: Caller) -> None:
        try:
            agent, _ = await self._calls.agents.agent_of(run_id)
        except RunNotFound as error:
            raise invalid("the run of this call is gone: call again without its state") from error
        status = await agent.attach(run_id).status()
        if not await self._use(run_id, keyed(waiting_in(status)), responses, caller):
            await self._calls.revive(run_id, caller.hear)

    async def _use(
        self, run_id: str, items: Mapping[str, PendingItem], responses: dict[str, Any], caller: Caller
    ) -> bool:
        """Decide by the responses to what waits, each of which is used once; return whether there were any."""
        found = [name for name in items if name in responses]
        if found:
            decisions = {items[name].id: decision_of(items[name], responses.pop(name)) for name in found}
            await self._calls.agents.decide(run_id, decisions, caller.hear)
        return bool(found)

    @staticmethod
    def _asking(items: Mapping[str, PendingItem], state: str, caller: Caller, run_id: str) -> Json:
        requests = input_requests(items, caller)
        if not requests:
            needed: Json = {capability_of(item): {} for item in items.values()}
            raise missing_capability(needed, f"the call waits for its user, as the run {run_id}")
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    async def _task(self, method: str, params: Params, caller: Caller) -> Json:
        if not caller.knows_tasks:
            raise missing_capability(_NEEDS_TASKS, f"{method} is for clients that know tasks")
        if method == "tasks/get":
            return await self._tasks.task(await self._tasks.run_of(params.task_id), caller)
        if method == "tasks/update":
            await self._tasks.update(params.task_id, params.input_responses or {})
        else:
            await self._tasks.cancel(params.task_id)
        return {}

    # -- subscriptions -------------------------------------------------------------------------------------------

    async def _listen(self, request_id: jsonrpc.Id, params: Params, caller: Caller) -> Json:
        tag = {wire.PREFIX + "subscriptionId": request_id}

        def tell(method: str, content: Json) -> None:
            caller.send(jsonrpc.Notification(method, {"_meta": tag, **content}))

        wanted = params.notifications.get("resourceSubscriptions") or []
        tasks = params.notifications.get("taskIds") or []
        if not (isinstance(wanted, list) and isinstance(tasks, list)):
            raise invalid("resourceSubscriptions and taskIds are lists of texts")
        if tasks and not caller.knows_tasks:
            raise missing_capability(_NEEDS_TASKS, "taskIds is for clients that know tasks")
        uris = [str(uri) for uri in wanted if self._methods.server.resources and self._methods.resource_at(str(uri))]
        runs = [await self._tasks.run_of(str(each)) for each in tasks]
        heeded: Json = ({"resourceSubscriptions": uris} if uris else {}) | ({"taskIds": tasks} if tasks else {})
        tell("notifications/subscriptions/acknowledged", {"notifications": heeded})
        end = self._methods.server.follow(
            lambda uri: tell("notifications/resources/updated", {"uri": uri}) if uri in uris else None
        )
        following = [asyncio.ensure_future(self._tasks.follow(run_id, caller, tell)) for run_id in runs]
        try:
            await self._methods.agents.closing.wait()
        finally:
            end()
            for each in following:
                each.cancel()
        return {"resultType": "complete", "_meta": tag}
