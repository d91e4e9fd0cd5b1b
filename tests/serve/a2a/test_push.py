"""Push notifications go to public addresses only, to those who are configured, and with what they asked for."""

import asyncio
import json

import pytest

from tests.models.http.support import Asked, serving as hooked
from tests.serve.a2a.calling import call, message, refusal, send, state_of
from tests.serve.serving import TOKEN, serving
from tests.serve.ui.talking import served
from ziggurat.http import Fetcher
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp

HERE = Fetcher(allow=["127.0.0.0/8"], ports=None)
NOT_FOUND, UNSUPPORTED, INVALID_PARAMS = -32001, -32004, -32602


def pushing(fetcher: Fetcher) -> ServedApp:
    return app(served().agents.agents.values(), token=TOKEN, push=fetcher)


async def thanks(asked: Asked) -> None:
    await asked.reply(b"{}", content_type="application/json")


async def test_changes_of_a_task_are_sent_with_what_was_asked_for() -> None:
    ended = asyncio.Event()

    async def hook(asked: Asked) -> None:
        await thanks(asked)
        if b"COMPLETED" in asked.body:
            ended.set()

    async with hooked(hook) as receiver, serving(pushing(HERE)) as server:
        known = {"scheme": "Bearer", "credentials": "secret"}
        config = {"url": f"{receiver.url}/hook", "id": "p-1", "token": "t-1", "authentication": known}
        task = await send(server, "payer", message("Pay"), taskPushNotificationConfig=config)
        await send(server, "payer", message("approve", taskId=task["id"]))
        await ended.wait()
        kinds = [next(iter(json.loads(each.body))) for each in receiver.asked]
        assert kinds == ["statusUpdate", "artifactUpdate", "statusUpdate"]
        states = [json.loads(each.body)["statusUpdate"] for each in receiver.asked if b"statusUpdate" in each.body]
        assert [state_of(each) for each in states] == ["INPUT_REQUIRED", "COMPLETED"]
        for each in receiver.asked:
            assert "authorization: Bearer secret\r\n" in each.head
            assert "x-a2a-notification-token: t-1\r\n" in each.head


async def test_configurations_are_kept_listed_and_removed() -> None:
    async with serving(pushing(Fetcher())) as server:
        task = await send(server, "payer", message("Pay"))
        of_task = {"taskId": task["id"]}
        made = await call(
            server, "payer", "CreateTaskPushNotificationConfig", {**of_task, "url": "https://example.com/"}
        )
        assert made["taskId"] == task["id"]
        query = {**of_task, "id": made["id"]}
        assert await call(server, "payer", "GetTaskPushNotificationConfig", query) == made
        assert (await call(server, "payer", "ListTaskPushNotificationConfigs", of_task))["configs"] == [made]
        assert await refusal(server, "clerk", "GetTaskPushNotificationConfig", query) == NOT_FOUND
        for _ in range(2):
            assert await call(server, "payer", "DeleteTaskPushNotificationConfig", query) == {}
        assert await refusal(server, "payer", "GetTaskPushNotificationConfig", query) == NOT_FOUND
        many = {**of_task, "url": "https://example.com/"}
        for number in range(10):
            await call(server, "payer", "CreateTaskPushNotificationConfig", {**many, "id": f"p-{number}"})
        assert await refusal(server, "payer", "CreateTaskPushNotificationConfig", many) == UNSUPPORTED


@pytest.mark.parametrize(
    "url",
    [
        *(
            "http://127.0.0.1/",
            "http://[::1]/",
            "http://169.254.169.254/latest",
            "http://10.0.0.1/",
            "http://2130706433/",
        ),
        *(
            "file:///etc/passwd",
            "ftp://example.com/",
            "http://user@example.com/",
            "http://example.com:22/",
            "/hook",
            "",
        ),
        "http://example.com/\r\nx: y",
    ],
)
async def test_addresses_that_are_not_public_are_refused(url: str) -> None:
    async with serving(pushing(Fetcher())) as server:
        task = await send(server, "clerk", message("Hi"))
        params = {"taskId": task["id"], "url": url}
        assert await refusal(server, "clerk", "CreateTaskPushNotificationConfig", params) == INVALID_PARAMS
        inline = {"message": message("Hi"), "configuration": {"taskPushNotificationConfig": {"url": url}}}
        assert await refusal(server, "clerk", "SendMessage", inline) == INVALID_PARAMS
        assert (await call(server, "clerk", "ListTasks"))["totalSize"] == 1, "nothing was begun"


async def test_a_name_of_this_machine_is_not_reached() -> None:
    async with hooked(thanks) as receiver, serving(pushing(Fetcher(ports=None))) as server:
        config = {"url": f"http://localhost:{receiver.port}/"}
        task = await send(server, "payer", message("Pay"), taskPushNotificationConfig=config)
        await send(server, "payer", message("approve", taskId=task["id"]))
        await server.get(f"/runs/{task['id']}")
        assert receiver.opened == 0
