"""A web service whose agent refunds orders; a person approves, denies or changes each refund over HTTP.

    uvicorn examples.apps.service:app

| request | what it does |
|---|---|
| ``PUT /runs/{id}`` | starts a run; repeated, it changes nothing |
| ``GET /runs/{id}`` | how far it is, and its answer |
| ``GET /runs/{id}/events`` | what happens, as it happens, as server-sent events |
| ``GET /approvals`` | the calls of all runs that wait for a decision |
| ``POST /runs/{id}/approvals/{call}`` | decides a call, and answers when the run has ended or waits again |

Runs are kept in a database. When the service starts, it goes on with those that were interrupted.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

from fastapi import FastAPI, Header, Request
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from ziggurat import Agent, AgentRun, Approve, Deny, Event, Message, Modify, ToolCall, ZigguratError, tool
from ziggurat.errors import RunNotFound
from ziggurat.events import ApprovalRequested, Delta, ToolEnded, ToolStarted
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel


@tool
async def look_up(order: int) -> str:
    """Look an order up.

    Args:
        order: Its number.
    """
    await asyncio.sleep(0.3)  # the system of orders is slow
    return f"order {order}: a teapot, 40 euros, broken on arrival"


@tool(approval=True, effect="once")
async def refund(order: int, euros: int) -> str:
    """Pay money back.

    Args:
        order: The number of the order.
        euros: How much.
    """
    return f"{euros} euros paid back for order {order}"


def stand_in(messages: list[Message]) -> ToolCall | str:
    """Look the order up, pay it back and say so; answers as a model would, without a key."""
    results = messages[-1].tool_results
    order = "".join(character for character in messages[0].text if character.isdigit())
    if not results:
        return tool_call("look_up", order=int(order))
    return tool_call("refund", order=int(order), euros=40) if results[0].name == "look_up" else results[0].text


agent = Agent(
    os.environ.get("MODEL") or FunctionModel(stand_in),
    tools=[look_up, refund],
    instructions="You handle complaints about orders.",
    name="clerk",
    store=os.environ.get("STORE", "sqlite:///service.db"),
)
running: dict[str, asyncio.Task[AgentRun[str]]] = {}


class Complaint(BaseModel):
    prompt: str


class Answer(BaseModel):
    decision: Literal["approve", "deny", "modify"]
    reason: str = "denied"
    arguments: dict[str, Any] = {}

    def decided(self) -> Approve | Deny | Modify:
        if self.decision == "modify":
            return Modify(self.arguments)
        return Approve() if self.decision == "approve" else Deny(self.reason)


class Waiting(BaseModel):
    run: str
    call: str
    tool: str
    arguments: dict[str, Any]


class State(BaseModel):
    status: str
    answer: str | None = None
    error: str | None = None


def state_of(run: AgentRun[str]) -> State:
    answer = run.output if run.has_final_answer else None
    return State(status=type(run.stop).__name__, answer=answer, error=run.error)


async def begin(run_id: str, prompt: str | None) -> State:
    """Start a run, or go on with one, in the background; return when it is on record."""
    recorded = asyncio.Event()

    def heard(_: Event) -> None:
        recorded.set()

    if prompt is None:
        work = agent.resume(run_id, listeners=[heard])
    else:
        work = agent.run(prompt, run_id=run_id, listeners=[heard])
    task = running[run_id] = asyncio.create_task(work)
    task.add_done_callback(lambda _: running.pop(run_id, None))
    task.add_done_callback(lambda _: recorded.set())
    await recorded.wait()
    return state_of(task.result()) if task.done() else State(status="running")


async def settled(run_id: str) -> None:
    """Wait until a run has stopped, if it is in progress."""
    if run_id in running:
        await asyncio.wait([running[run_id]])


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[None, None]:
    assert agent.store is not None
    for status in ("running", "Cancelled"):  # its process was killed, or was stopped
        for info in await agent.store.logs("run:", agent=agent.name, status=status):
            await begin(info.id, None)
    yield


app = FastAPI(title="Refunds", lifespan=lifespan)


@app.put("/runs/{run_id}", status_code=202)
async def start(run_id: str, complaint: Complaint) -> State:
    return State(status="running") if run_id in running else await begin(run_id, complaint.prompt)


@app.get("/runs/{run_id}")
async def read(run_id: str) -> State:
    if run_id in running:
        return State(status="running")
    return state_of(await agent.replay(run_id))


@app.get("/approvals")
async def approvals() -> list[Waiting]:
    waiting = await agent.pending()
    return [
        Waiting(run=run_id, call=item.id, tool=item.call.name, arguments=item.call.parsed())
        for run_id, items in waiting.items()
        for item in items
    ]


@app.post("/runs/{run_id}/approvals/{call}")
async def decide(run_id: str, call: str, answer: Answer) -> State:
    await settled(run_id)  # the other calls of the same step may still be at work
    return state_of(await agent.resume(run_id, {call: answer.decided()}))


@app.get("/runs/{run_id}/events")
async def follow(run_id: str, last_event_id: int = Header(0)) -> StreamingResponse:
    await agent.record(run_id)  # refuses what is no run

    async def lines() -> AsyncGenerator[str, None]:
        async for heard in agent.attach(run_id).events(after=last_event_id):
            match heard.what:
                case Delta(text=text):
                    shown = {"text": text}
                case ToolStarted(_, asked):
                    shown = {"calls": asked.name}
                case ToolEnded(_, asked, result):
                    shown = {"called": asked.name, "result": result.text}
                case ApprovalRequested(_, item):
                    shown = {"waits": item.call.name}
                case _:
                    continue
            yield f"id: {heard.number}\ndata: {json.dumps(shown)}\n\n"
        await settled(run_id)

    return StreamingResponse(lines(), media_type="text/event-stream")


@app.exception_handler(ZigguratError)
async def refuse(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=404 if isinstance(error, RunNotFound) else 409)
