"""Tasks: runs of calls that take long, as clients that know tasks look at them, answer their questions and end them."""

from collections.abc import Callable, Mapping

from ziggurat.core.codec import digest
from ziggurat.core.errors import RunNotFound
from ziggurat.core.jsonrpc import INVALID_PARAMS, JsonRpcError
from ziggurat.runs.runs import runs_of
from ziggurat.serve.mcp.caller import Caller
from ziggurat.serve.mcp.calls import Calls
from ziggurat.serve.mcp.contents import Json
from ziggurat.serve.mcp.inputs import decision_of, input_requests, waiting_in
from ziggurat.serve.run_rows import time_of

_POLL = 1_000
"""Milliseconds after which clients should look at a task again."""

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
            raise JsonRpcError("there is no such task any more", INVALID_PARAMS) from error
        return run_id

    async def task(self, run_id: str, caller: Caller) -> Json:
        """Return a task with what its status is about: its result, what it waits for, or its error.

        A run that lost its process goes on here.
        """
        agent, info = await self._calls.agents.newest_of(run_id)
        task = {
            "taskId": self._calls.signer.sign("task", run_id),
            "status": "working",
            "createdAt": time_of(info.created),
            "lastUpdatedAt": time_of(info.updated),
            "ttlMs": None,
            "pollIntervalMs": _POLL,
        }
        if (error := self._calls.failure_of(run_id)) is not None:
            return task | _failed(error)
        status = await agent.attach(run_id).status()
        if status.driven or self._calls.is_driven(run_id):
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
                "result": {"resultType": "complete", **self._calls.answer(agent.name, run)},
            }
        except JsonRpcError as failed:
            return task | _failed(failed)

    async def update(self, task_id: str, responses: Mapping[str, object]) -> None:
        """Pass on the responses of a client to what a task waits for; others are ignored."""
        run_id = await self.run_of(task_id)
        agent, _ = await self._calls.agents.agent_of(run_id)
        waits = {item.id: item for item in waiting_in(await agent.attach(run_id).status())}
        decisions = {name: decision_of(waits[name], response) for name, response in responses.items() if name in waits}
        if decisions:
            await self._calls.decide(run_id, decisions)

    async def cancel(self, task_id: str) -> None:
        await self._calls.agents.cancel(await self.run_of(task_id))

    async def follow(self, run_id: str, caller: Caller, tell: Callable[[str, Json], None]) -> None:
        """Tell a client of each change of a task, until it has ended."""
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


def _failed(error: JsonRpcError) -> Json:
    return {"status": "failed", "statusMessage": error.message, "error": {"code": error.code, "message": error.message}}
