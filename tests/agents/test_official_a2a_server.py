"""Our client of A2A talks with agents that the official package serves."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from ziggurat.agents import Answer, a2a
from ziggurat.stops import Cancelled, Completed, Failed
from ziggurat.stores import InMemoryStore

execution: Any = pytest.importorskip("a2a.server.agent_execution", reason="a2a-sdk is not installed")
handlers: Any = pytest.importorskip("a2a.server.request_handlers")
helpers: Any = pytest.importorskip("a2a.helpers.proto_helpers")
routes: Any = pytest.importorskip("a2a.server.routes")
tasks: Any = pytest.importorskip("a2a.server.tasks")
types: Any = pytest.importorskip("a2a.types.a2a_pb2")


class Executor(execution.AgentExecutor):  # type: ignore[misc]
    """Does what it is told: answer with a message, a task or data, ask, fail, or work until it is cancelled."""

    def __init__(self) -> None:
        self.working = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.tasks = 0

    async def execute(self, context: Any, queue: Any) -> None:
        said = context.get_user_input()
        updater = tasks.TaskUpdater(queue, context.task_id, context.context_id)
        if said == "message":
            await queue.enqueue_event(updater.new_agent_message([types.Part(text="At once.")]))
            return
        if context.current_task is None:
            self.tasks += 1
            await queue.enqueue_event(helpers.new_task_from_user_message(context.message))
        await updater.start_work()
        if said == "ask":
            await updater.requires_input(updater.new_agent_message([types.Part(text="Which city?")]))
        elif said == "fail":
            await updater.failed(updater.new_agent_message([types.Part(text="no luck")]))
        elif said == "work":
            self.working.set()
            await asyncio.Event().wait()
        else:
            await asyncio.sleep(0.01)
            await updater.add_artifact([types.Part(text=f"You said {said}.")])
            await updater.complete()

    async def cancel(self, context: Any, queue: Any) -> None:
        await tasks.TaskUpdater(queue, context.task_id, context.context_id).cancel()
        self.cancelled.set()


@asynccontextmanager
async def official(*, streaming: bool = True) -> AsyncIterator[tuple[str, Executor]]:
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://localhost:{listener.getsockname()[1]}"
    interface = types.AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="1.0")
    card = types.AgentCard(
        name="x",
        description="x",
        version="1",
        supported_interfaces=[interface],
        capabilities=types.AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )
    executor = Executor()
    handler = handlers.DefaultRequestHandlerV2(executor, tasks.InMemoryTaskStore(), card)
    application = Starlette(
        routes=[*routes.create_agent_card_routes(card), *routes.create_jsonrpc_routes(handler, "/rpc")]
    )
    server = uvicorn.Server(uvicorn.Config(application, log_level="error", lifespan="off"))
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    yield url.replace("localhost", "127.0.0.1"), executor
    server.should_exit = True
    await serving


@pytest.mark.parametrize("streaming", [True, False])
async def test_answers_come_as_messages_and_as_tasks(streaming: bool) -> None:
    async with official(streaming=streaming) as (url, _):
        there = a2a(url, name="there")
        assert (await there.run("message")).output == "At once."
        run = await there.run("hello")
        assert (run.stop, run.output) == (Completed(), "You said hello.")


@pytest.mark.parametrize("streaming", [True, False])
async def test_what_is_asked_is_answered_in_the_same_task(streaming: bool) -> None:
    async with official(streaming=streaming) as (url, executor):
        there = a2a(url, name="there", store=InMemoryStore())
        run = await there.run("ask", run_id="r-1")
        assert [item.reason for item in run.pending] == ["Which city?"]
        done = await there.resume("r-1", {run.pending[0].id: Answer("Oslo")})
        assert (done.output, executor.tasks) == ("You said Oslo.", 1)


async def test_a_failure_is_one_of_the_run() -> None:
    async with official() as (url, _):
        stop = (await a2a(url, name="there").run("fail")).stop
        assert isinstance(stop, Failed)
        assert "no luck" in stop.error


async def test_a_cancellation_reaches_the_task() -> None:
    async with official() as (url, executor):
        handle = a2a(url, name="there", store=InMemoryStore()).start("work", run_id="r-1")
        async for item in handle.events():
            if item.what.path == "there/send":
                break
        await executor.working.wait()
        await handle.cancel()
        assert isinstance((await handle.result()).stop, Cancelled)
        await executor.cancelled.wait()
