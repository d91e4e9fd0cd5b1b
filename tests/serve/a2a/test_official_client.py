"""The official client of A2A talks with our servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.models.http.support import Asked, serving as hooked
from tests.serve.serving import TOKEN, Serving, serving
from tests.serve.ui.talking import served
from ziggurat.http import Fetcher
from ziggurat.serve import app

a2a_client: Any = pytest.importorskip("a2a.client", reason="a2a-sdk is not installed")
a2a_errors: Any = pytest.importorskip("a2a.utils.errors")
types: Any = pytest.importorskip("a2a.types.a2a_pb2")


@asynccontextmanager
async def client_of(server: Serving, agent: str, *, streaming: bool) -> AsyncIterator[Any]:
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20) as http:
        factory = a2a_client.ClientFactory(a2a_client.ClientConfig(httpx_client=http, streaming=streaming))
        yield await factory.create_from_url(f"{server.address}/a2a/{agent}")


def request(text: str, task: str = "") -> Any:
    message = types.Message(message_id="m", role=types.ROLE_USER, parts=[types.Part(text=text)], task_id=task)
    return types.SendMessageRequest(message=message)


def text_of(task: Any) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


@pytest.mark.parametrize("streaming", [False, True])
async def test_messages_are_answered(streaming: bool) -> None:
    async with serving(served()) as server, client_of(server, "clerk", streaming=streaming) as client:
        events = [event async for event in client.send_message(request("Hi"))]
        kinds = [event.WhichOneof("payload") for event in events]
        assert kinds == (["task", "artifact_update", "status_update"] if streaming else ["task"])
        task = await client.get_task(types.GetTaskRequest(id=events[0].task.id))
        assert (task.status.state, text_of(task)) == (types.TASK_STATE_COMPLETED, "Good day.")
        listed = await client.list_tasks(types.ListTasksRequest(page_size=10))
        assert [each.id for each in listed.tasks] == [task.id]
        with pytest.raises(a2a_errors.TaskNotFoundError):
            await client.get_task(types.GetTaskRequest(id="nobody"))


async def test_input_is_given_and_a_task_is_followed_and_cancelled() -> None:
    async with serving(served()) as server, client_of(server, "payer", streaming=True) as client:
        *_, last = [event async for event in client.send_message(request("Pay"))]
        assert last.status_update.status.state == types.TASK_STATE_INPUT_REQUIRED
        task_id = last.status_update.task_id
        followed = client.subscribe(types.SubscribeToTaskRequest(id=task_id))
        assert (await anext(followed)).task.status.state == types.TASK_STATE_INPUT_REQUIRED
        *_, done = [event async for event in client.send_message(request("approve", task_id))]
        assert done.status_update.status.state == types.TASK_STATE_COMPLETED
        *_, seen = [event async for event in followed]
        assert seen.status_update.status.state == types.TASK_STATE_COMPLETED
        *_, other = [event async for event in client.send_message(request("Pay"))]
        ended = await client.cancel_task(types.CancelTaskRequest(id=other.status_update.task_id))
        assert ended.status.state == types.TASK_STATE_CANCELED


async def test_push_notifications_are_configured() -> None:
    async def hook(asked: Asked) -> None:
        await asked.reply(b"{}", content_type="application/json")

    fetcher = Fetcher(allow=["127.0.0.0/8"], ports=None)
    application = app(served().agents.agents.values(), token=TOKEN, push=fetcher)
    async with (
        hooked(hook) as receiver,
        serving(application) as server,
        client_of(server, "payer", streaming=False) as client,
    ):
        [first] = [event async for event in client.send_message(request("Pay"))]
        made = await client.create_task_push_notification_config(
            types.TaskPushNotificationConfig(task_id=first.task.id, url=receiver.url)
        )
        query = types.GetTaskPushNotificationConfigRequest(task_id=first.task.id, id=made.id)
        assert await client.get_task_push_notification_config(query) == made
        [done] = [event async for event in client.send_message(request("approve", first.task.id))]
        assert done.task.status.state == types.TASK_STATE_COMPLETED
        await client.delete_task_push_notification_config(
            types.DeleteTaskPushNotificationConfigRequest(task_id=first.task.id, id=made.id)
        )
