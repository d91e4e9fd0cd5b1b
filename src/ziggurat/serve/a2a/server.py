"""A2A: each agent as a server of the Agent2Agent protocol 1.0, by JSON-RPC."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace
from starlette.requests import Request

from ziggurat.core import errors
from ziggurat.core.clock import new_id
from ziggurat.journal.store import LogInfo
from ziggurat.messages.agent import PendingItem
from ziggurat.messages.message import user
from ziggurat.serve import requests
from ziggurat.serve.a2a import tasks
from ziggurat.serve.a2a.push import PushNotifications
from ziggurat.serve.decisions import schema_of_answer
from ziggurat.serve.narration import Tale, ToldRun
from ziggurat.serve.openai.replies import ResponseStream
from ziggurat.serve.served import ServedAgents
from ziggurat.serve.ui import runs
from ziggurat.tools.validator import misfit_of_schema
from ziggurat.wires import a2a, jsonrpc


class A2aServer:
    def __init__(self, agents: ServedAgents, name: str, push: PushNotifications) -> None:
        self._agents = agents
        self._agent = agents.agent(name)
        self._push = push
        self._methods: dict[str, Callable[[Any, Request, jsonrpc.Id], Awaitable[object]]] = {
            "SendMessage": self._send,
            "SendStreamingMessage": self._stream,
            "GetTask": self._get,
            "ListTasks": self._list,
            "CancelTask": self._cancel,
            "SubscribeToTask": self._subscribe,
            "CreateTaskPushNotificationConfig": self._create_config,
            "GetTaskPushNotificationConfig": self._get_config,
            "ListTaskPushNotificationConfigs": self._list_configs,
            "DeleteTaskPushNotificationConfig": self._delete_config,
            "GetExtendedAgentCard": self._extended_card,
        }

    async def answer(self, request: Request) -> jsonrpc.Success | jsonrpc.Failure | ResponseStream | None:
        asked: jsonrpc.Message | None = None
        try:
            asked = jsonrpc.read(await request.body())
            if isinstance(asked, jsonrpc.Notification):
                return None
            if not isinstance(asked, jsonrpc.Request):
                raise jsonrpc.JsonRpcError("a response was sent, and no request", jsonrpc.INVALID_REQUEST)
            version = request.headers.get(a2a.VERSION_HEADER) or a2a.VERSION
            if version.split(".")[0] != a2a.VERSION.split(".")[0]:
                raise a2a.refused(f"the version is {a2a.VERSION}, got {version!r:.50}", a2a.VERSION_NOT_SUPPORTED)
            method = self._methods.get(asked.method)
            if method is None:
                raise jsonrpc.JsonRpcError(f"there is no method {asked.method!r:.100}", jsonrpc.METHOD_NOT_FOUND)
            result = await method(asked.params, request, asked.id)
        except errors.ZigguratError as error:
            return _error(error).answer(asked.id if isinstance(asked, jsonrpc.Request) else None)
        return result if isinstance(result, ResponseStream) else jsonrpc.Success(asked.id, result)

    # -- messages ------------------------------------------------------------------------------------------------

    async def _send(self, params: Any, request: Request, _: jsonrpc.Id) -> object:
        asked = a2a.read_params(params, a2a.SendMessage)
        run = await self._driven(asked, request)
        if asked.configuration.return_immediately:
            return a2a.StreamResponse(task=(await self._view(run.id)).task(asked.configuration.history_length))
        async for _told in run.told():
            pass
        view = await self._view(run.id)
        message = view.message()
        if message is not None:
            return a2a.StreamResponse(message=replace(message, task_id=None))
        return a2a.StreamResponse(task=view.task(asked.configuration.history_length))

    async def _stream(self, params: Any, request: Request, request_id: jsonrpc.Id) -> ResponseStream:
        run = await self._driven(a2a.read_params(params, a2a.SendMessage), request)
        info = await self._find(run.id)
        task = a2a.Task(run.id, a2a.Status(a2a.WORKING), tasks.context_of(info))
        return self._streamed(run, task, request, request_id)

    async def _subscribe(self, params: Any, request: Request, request_id: jsonrpc.Id) -> ResponseStream:
        view = await self._view(a2a.read_params(params, a2a.TaskQuery).id)
        task = view.task()
        if task.status.state in a2a.TERMINAL:
            raise a2a.refused(f"the task {task.id} has ended: get it", a2a.UNSUPPORTED_OPERATION)
        after = 0 if runs.read_place(request) is not None else view.entries
        return self._streamed(self._told(task.id, after, waits=True), task, request, request_id)

    def _streamed(self, run: ToldRun, task: a2a.Task, request: Request, request_id: jsonrpc.Id) -> ResponseStream:
        updates = tasks.Updates(run.id, task.context_id)

        def answers(tale: Tale) -> Iterator[jsonrpc.Success]:
            return (jsonrpc.Success(request_id, each) for each in updates.encode(tale))

        async def events() -> AsyncGenerator[bytes, None]:
            first = jsonrpc.write(jsonrpc.Success(request_id, a2a.StreamResponse(task=task)))
            yield b"data: %b\n\n" % first
            async for frame in runs.frames(run, answers, runs.read_place(request)):
                yield frame

        return ResponseStream(events(), self._agents.closing)

    async def _driven(self, asked: a2a.SendMessage, request: Request) -> ToldRun:
        message, config = asked.message, asked.configuration.task_push_notification_config
        if message.role != "ROLE_USER" or not message.parts:
            raise errors.ConfigurationError("a message to an agent is a user's, and has parts")
        if config is not None:
            self._push.check(config)
        self._agents.admit()
        if message.task_id:
            run, context = await self._continued(message)
        else:
            run = self._told(requests.check_id(request.headers.get("idempotency-key") or new_id()))
            context = requests.check_id(message.context_id or run.id)
            prompt = user(*(part.as_own() for part in message.parts))
            labels = {tasks.CONTEXT: context}
            begun = partial(
                self._agent.run,
                prompt,
                run_id=run.id,
                session=None if self._agents.kinds[self._agent.name] == "Flow" else context,
                labels=labels,
            )
            await self._agents.drive(self._agent, run.id, begun)
        if config is not None:
            self._push.add(run, context, config)
        return run

    async def _continued(self, message: a2a.Message) -> tuple[ToldRun, str]:
        info = await self._find(message.task_id or "")
        context, state = tasks.context_of(info), tasks.state_of(info.status, asks=info.asks)
        if message.context_id not in (None, "", context):
            raise errors.ConfigurationError(f"the task {info.id} belongs to another context")
        if state in a2a.TERMINAL:
            raise a2a.refused(f"the task {info.id} has ended: begin another", a2a.UNSUPPORTED_OPERATION)
        task_id, handle = requests.first_id(info.id), self._agent.attach(info.id)
        if state != a2a.INPUT_REQUIRED:
            run = await self._from_now(task_id)
            await handle.inject(user(*(part.as_own() for part in message.parts)))
            return run, context
        items = [item for item in (await handle.status()).pending if item.needs_decision]
        answers = read_answers(message, items)
        return await runs.continue_run(self._agents, self._agent.name, task_id, answers), context

    # -- tasks ---------------------------------------------------------------------------------------------------

    async def _get(self, params: Any, request: Request, _: jsonrpc.Id) -> object:
        query = a2a.read_params(params, a2a.TaskQuery)
        return (await self._view(query.id)).task(query.history_length)

    async def _list(self, params: Any, request: Request, _: jsonrpc.Id) -> object:
        return await tasks.list_tasks(self._agent, a2a.read_params(params, a2a.TasksQuery))

    async def _cancel(self, params: Any, request: Request, _: jsonrpc.Id) -> object:
        info = await self._find(a2a.read_params(params, a2a.TaskQuery).id)
        if tasks.state_of(info.status, asks=info.asks) in a2a.TERMINAL:
            raise a2a.refused(f"the task {info.id} has ended", a2a.TASK_NOT_CANCELABLE)
        run = await self._from_now(requests.first_id(info.id))
        await self._agents.cancel(info.id)
        async for _told in run.told():
            pass
        return (await self._view(run.id)).task()

    async def _find(self, task_id: str) -> LogInfo:
        _, info = await self._agents.newest_of(requests.check_id(task_id))
        if info.agent != self._agent.name:
            raise errors.RunNotFound(f"there is no task {task_id!r:.150}")
        return info

    async def _from_now(self, task_id: str) -> ToldRun:
        return self._told(task_id, (await self._view(task_id)).entries)

    def _told(self, task_id: str, after: int = 0, *, waits: bool = False) -> ToldRun:
        return ToldRun(task_id, self._agent, after, waits=waits, failures=self._agents.failures)

    async def _view(self, task_id: str) -> tasks.TaskView:
        info = await self._find(task_id)
        return await tasks.TaskView.of(self._agent, info, None if info.owner else self._agents.reason_of(task_id))

    # -- push notifications --------------------------------------------------------------------------------------

    async def _create_config(self, params: Any, request: Request, _: jsonrpc.Id) -> object:
        config = a2a.read_params(params, a2a.PushConfig)
        self._push.check(config)
        info = await self._find(config.task_id)
        return self._push.add(await self._from_now(config.task_id), tasks.context_of(info), config)

    async def _get_config(self, params: Any, request: Request, _: jsonrpc.Id) -> object:
        query = a2a.read_params(params, a2a.TaskQuery)
        for config in await self._configs(query.task_id):
            if config.id == query.id:
                return config
        raise errors.RunNotFound(f"the task has no push notification {query.id!r:.150}")

    async def _list_configs(self, params: Any, request: Request, _: jsonrpc.Id) -> object:
        configs = await self._configs(a2a.read_params(params, a2a.TaskQuery).task_id)
        return {"configs": configs, "nextPageToken": ""}

    async def _delete_config(self, params: Any, request: Request, _: jsonrpc.Id) -> object:
        query = a2a.read_params(params, a2a.TaskQuery)
        await self._configs(query.task_id)
        self._push.remove(query.task_id, query.id)
        return {}

    async def _configs(self, task_id: str) -> list[a2a.PushConfig]:
        self._push.allowed()
        await self._find(task_id)
        return self._push.of(task_id)

    async def _extended_card(self, params: Any, request: Request, _: jsonrpc.Id) -> object:
        raise a2a.refused("there is no extended card", a2a.UNSUPPORTED_OPERATION)


def _error(error: errors.ZigguratError) -> jsonrpc.JsonRpcError:
    if isinstance(error, jsonrpc.JsonRpcError):
        return error
    if isinstance(error, errors.RunNotFound):
        return a2a.refused(str(error), a2a.TASK_NOT_FOUND)
    mistaken = isinstance(error, (errors.CallerError, errors.Denied, errors.AlreadyDecided))
    return jsonrpc.JsonRpcError(str(error), jsonrpc.INVALID_PARAMS if mistaken else jsonrpc.INTERNAL_ERROR)


_YES, _NO = ("approve", "approved", "yes", "true"), ("deny", "denied", "no", "false")


def read_answers(message: a2a.Message, items: list[PendingItem]) -> Mapping[str, object]:
    """Return the answers in a message to what a task waits for: a value by its id, or the text of the only answer."""
    ids = {item.id for item in items}
    data = [part.data for part in message.parts if isinstance(part.data, dict)]
    answers = {name: value for each in data for name, value in each.items() if name in ids}
    if answers:
        return answers
    if len(items) != 1:
        raise errors.ConfigurationError(f"the task waits for several answers, by their ids: {', '.join(ids)}")
    return {items[0].id: _answer(message, items[0])}


def _answer(message: a2a.Message, item: PendingItem) -> object:
    values = [part.data for part in message.parts if part.data is not UNSET]
    if values:
        return values[0]
    text = message.text
    if item.stage == "question":
        schema = schema_of_answer(item)
        return text if misfit_of_schema(schema, text) is None else requests.value_of(text)
    word = text.strip().lower()
    if item.interrupted or word not in (*_YES, *_NO):
        raise errors.ConfigurationError(f"{item.call.name}: answer 'approve' or 'deny', or with data of its schema")
    return {"approved": word in _YES}
