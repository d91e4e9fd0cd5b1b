"""Tests of the server over real connections: runs are started, watched, decided on, steered, and read."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct

from tests.serve.serving import TOKEN, serving
from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError, Context, Image, Key, Message, Middleware, ToolCall, tool
from ziggurat.errors import StoreError
from ziggurat.events import Delta, TextDelta
from ziggurat.flows import ask, continue_as_new, flow
from ziggurat.journal import LogInfo
from ziggurat.messages import stops, tool_call
from ziggurat.models import FunctionModel
from ziggurat.observe import Metrics
from ziggurat.plans import Graph
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp
from ziggurat.stores import InMemoryStore
from ziggurat.teams import handoffs
from ziggurat.testing import ScriptedModel


def paying(acts: list[int], **arguments: Any) -> Agent:
    """Return an agent that pays when a person has approved."""

    @tool(effect="once", approval=True)
    def pay(amount: int) -> str:
        """Pay."""
        acts.append(amount)
        return f"paid {amount}"

    return Agent(ScriptedModel(tool_call("pay", amount=3), "Done."), name="desk", tools=[pay], **arguments)


def served(*agents: Any, **arguments: Any) -> ServedApp:
    return app(agents, token=TOKEN, **arguments)


async def test_a_run_is_started_watched_and_read() -> None:
    reply = [TextDelta("Good "), TextDelta("day.")]
    agent = Agent(ScriptedModel(reply, reply), name="greeter")
    async with serving(served(agent)) as server:
        assert await server.get("/agents") == {"agents": [{"name": "greeter", "kind": "Agent", "description": ""}]}
        body = {"agent": "greeter", "prompt": "Greet.", "run_id": "r-1", "labels": {"user": "ann", "size": 3}}
        assert await server.post("/runs", body, 201) == {"run_id": "r-1"}
        events = [each async for each in server.events("/runs/r-1/events")]
        names = [name for _, name, _ in events]
        assert names[0] == "Opened"
        assert names[-1] == "end"
        [said] = [data for _, name, data in events if name == "ModelEnded"]
        assert "Good day." in str(said)
        run = await server.get("/runs/r-1")
        assert (run["status"], run["output"], run["prompt"]) == ("Completed", "Good day.", "Greet.")
        listed = await server.get("/runs?label=user:ann&status=Completed&search=GREET&label=size:3")
        assert [row["run_id"] for row in listed["runs"]] == ["r-1"]
        assert (await server.get("/runs?label=user:ben"))["runs"] == []
        for label in ("user", ":ann", "user:"):
            status = 200 if label == "user:" else 422
            assert (await server.client.get("/runs", params={"label": label})).status_code == status
        tree = await server.get("/runs/r-1/tree?from=1&count=1")
        assert (tree["total"], [node["name"] for node in tree["nodes"]]) == (3, ["step-1"])
        picture = await server.client.get("/runs/r-1/standing")
        assert picture.headers["content-type"].startswith("image/svg+xml")
        assert 'fill="#dff0d8"' in picture.text  # the agent is done
        assert len((await server.client.get("/runs/r-1/record")).text.splitlines()) == run["entries"]
        assert (await server.post("/runs/r-1/replay"))["answer"] == "Good day."
        [number] = [place for place, name, _ in events if name == "ModelEnded"]
        call = await server.get(f"/runs/r-1/nodes/{number}")
        assert (call["kind"], call["reply"]) == ("model", "Good day.")
        assert [message["content"] for message in call["messages"]] == ["Greet."]
        forked = await server.post("/runs/r-1/fork", {"at": call["number"], "prompt": "Again."}, 201)
        await server.ended(forked["run_id"])
        rows = (await server.get(f"/diff?a=r-1&b={forked['run_id']}"))["rows"]
        assert {row["kind"] for row in rows} <= {"same", "changed"}


async def test_a_run_is_forked_at_a_call_whatever_the_name_of_its_agent() -> None:
    agent = Agent(ScriptedModel(always="Good day."), name="desk/night: 7 %")
    async with serving(served(agent)) as server:
        await server.post("/runs", {"agent": agent.name, "prompt": "Greet.", "run_id": "r-1"}, 201)
        assert (await server.ended("r-1"))["output"] == "Good day."
        places = [place async for place, name, _ in server.events("/runs/r-1/events") if name == "ModelEnded"]
        await server.post("/runs/r-1/fork", {"at": int(places[0]), "run_id": "r-2"}, 201)
        assert (await server.ended("r-2"))["agent"] == agent.name


async def test_each_call_of_a_run_can_be_read_by_its_number() -> None:
    @tool
    async def draw(what: str) -> Image:
        """Draw something."""
        return Image(what.encode(), media_type="image/png")

    calls = [tool_call("draw", what="a cat"), tool_call("draw", what="a dog"), tool_call("ask_ben", input="go")]
    inner = Agent(ScriptedModel(tool_call("draw", what="a cow"), "done"), name="ben", tools=[draw])
    agent = Agent(
        ScriptedModel(calls, "done"), name="ann", tools=[draw, inner.as_tool(name="ask_ben", description="Ask Ben.")]
    )
    async with serving(served(agent)) as server:
        await server.post("/runs", {"agent": "ann", "prompt": "Draw.", "run_id": "r-1"}, 201)
        await server.ended("r-1")
        nodes = (await server.get("/runs/r-1/tree"))["nodes"]
        assert len({str(node["number"]) for node in nodes}) == len(nodes)
        drawn = []
        for node in nodes:
            call = await server.get(f"/runs/r-1/nodes/{node['number']}")
            assert (call["path"], call["number"]) == (node["path"], node["number"])
            if node["name"] == "draw":
                drawn.append((call["arguments"]["what"], call["result"][0]["media_type"]))
        assert sorted(drawn) == [(what, "image/png") for what in ("a cat", "a cow", "a dog")]
        for wrong in ("abc", "-1", "0", "9999", "²"):
            assert (await server.client.get(f"/runs/r-1/nodes/{wrong}")).status_code == 404


@pytest.mark.parametrize("decision", ["approve", "deny", "modify"])
async def test_what_waits_is_decided_once(decision: str, tmp_path: Path) -> None:
    acts: list[int] = []
    async with serving(served(paying(acts), store=f"sqlite:///{tmp_path / 'runs.db'}")) as server:
        await server.post("/runs", {"agent": "desk", "prompt": "Pay.", "run_id": "r-1"}, 201)
        run = await server.ended("r-1")
        assert (run["status"], acts) == ("Suspended", [])
        [item] = run["pending"]
        assert (item["kind"], item["tool"], item["arguments"]) == ("approval", "pay", {"amount": 3})
        made = {"id": item["id"], "action": decision} | ({"arguments": {"amount": 2}} if decision == "modify" else {})
        await server.post("/runs/r-1/decisions", {"decisions": [made]})
        run = await server.until("r-1", "end")
        assert run["output"] == "Done."
        assert acts == {"approve": [3], "deny": [], "modify": [2]}[decision]
        other = {"id": item["id"], "action": "deny" if decision == "approve" else "approve"}
        refused = await server.client.post("/runs/r-1/decisions", json={"decisions": [other]})
        assert refused.status_code in (409, 422)
    assert len(acts) <= 1


class _Failing(InMemoryStore):
    """A store that opens no run while it fails."""

    failing = False

    async def create(self, *arguments: Any, **more: Any) -> int:
        if self.failing:
            raise StoreError("it fails")
        return await super().create(*arguments, **more)

    async def lease(self, log: str) -> int:
        if self.failing:
            raise StoreError("it fails")
        return await super().lease(log)


@pytest.mark.parametrize("verb", ["start", "resume", "decisions", "fork"])
async def test_what_begins_work_is_answered_when_that_could_be_opened_or_not(verb: str) -> None:
    store, acts = _Failing(), list[int]()
    async with serving(served(paying(acts), store=store)) as server:
        await server.post("/runs", {"agent": "desk", "prompt": "Pay.", "run_id": "r-1"}, 201)
        [item] = (await server.ended("r-1"))["pending"]
        body: dict[str, Any] = {"agent": "desk", "prompt": "Pay.", "run_id": "r-2"} if verb == "start" else {}
        if verb == "decisions":
            body = {"decisions": [{"id": item["id"], "action": "approve"}]}
        path = "/runs" if verb == "start" else f"/runs/r-1/{verb}"
        store.failing = True
        assert (await server.post(path, body, 409))["error"] == {"type": "StoreError", "message": "it fails"}
        store.failing = False
        await server.post(path, body, 201 if verb in ("start", "fork") else 200)
        if verb == "decisions":
            assert (await server.until("r-1", "end"))["output"] == "Done."
    assert acts == ([3] if verb == "decisions" else [])


async def test_a_question_is_answered() -> None:
    @flow
    async def book(city: str) -> str:
        return f"{city}: {await ask('Which seat?', str)}"

    async with serving(served(book)) as server:
        await server.post("/runs", {"agent": "book", "prompt": "Oslo", "run_id": "r-1"}, 201)
        [item] = (await server.ended("r-1"))["pending"]
        assert (item["kind"], item["text"], item["answer"]) == ("question", "Which seat?", {"type": "string"})
        await server.post(
            "/runs/r-1/decisions", {"decisions": [{"id": item["id"], "action": "answer", "answer": "12a"}]}
        )
        await server.until("r-1", "end")
        assert (await server.post("/runs/r-1/replay"))["answer"] == "Oslo: 12a"


class Seen(Struct):
    number: int


class Ticket(Struct):
    kind: Literal["refund", "question"]
    order: int


PROMPTS = {"graph": '{"number": 21}'}


async def test_the_output_of_every_kind_of_agent_and_why_each_stopped_is_given() -> None:
    @flow
    async def double(number: int) -> int:
        return 2 * number

    @flow
    async def broken(number: int) -> int:
        raise ValueError("no such number")

    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    graph = Graph(Seen)

    @graph.node(writes="number")
    async def count(state: Seen) -> int:
        return state.number + 1

    graph.edge("start", count, "end")

    looking = [tool_call("look"), tool_call("look")]
    finish = tool_call("final_answer", kind="refund", order=7)
    passing = Agent(ScriptedModel(tool_call("handoff_to_b"), per_run=True), name="a")
    agents = [
        double,
        broken,
        Agent(ScriptedModel("Yes.", per_run=True), name="plain"),
        Agent(ScriptedModel(finish, per_run=True), output=Ticket, name="typed"),
        Agent(ScriptedModel(*looking, per_run=True), tools=[look], max_steps=1, name="steps"),
        handoffs(passing, Agent(ScriptedModel("Refunded.", per_run=True), name="b"), name="team"),
        graph.build("graph"),
    ]
    given = {
        "double": ("Completed", 42, None),
        "plain": ("Completed", "Yes.", None),
        "typed": ("Completed", {"kind": "refund", "order": 7}, None),
        "team": ("Completed", "Refunded.", None),
        "graph": ("Completed", {"number": 22}, None),
    }
    async with serving(served(*agents)) as server:
        for name in [*given, "broken", "steps"]:
            await server.post("/runs", {"agent": name, "prompt": PROMPTS.get(name, "21"), "run_id": name}, 201)
            run = await server.ended(name)
            forked = await server.post(f"/runs/{name}/fork", {"run_id": f"{name}-2"}, 201)
            assert (await server.ended(forked["run_id"]))["run_id"] == f"{name}-2"
            if name in given:
                assert (run["status"], run["output"], run["error"]) == given[name]
                assert (await server.post(f"/runs/{name}/replay"))["answer"] == given[name][1]
            else:
                status, reason = {"broken": ("Failed", "no such number"), "steps": ("MaxSteps", "1")}[name]
                assert run["status"] == status
                assert reason in run["error"]


class Gate:
    """Lets a model go on piece by piece."""

    def __init__(self) -> None:
        self.pieces = asyncio.Semaphore(0)

    async def __call__(self, event: object) -> None:
        if isinstance(event, Delta):
            await self.pieces.acquire()


async def test_a_session_is_continued_and_read() -> None:
    async with serving(served(Agent(ScriptedModel("One.", "Two."), name="a"))) as server:
        for number in (1, 2):
            body = {"agent": "a", "prompt": f"{number}?", "session": "s-1", "run_id": f"r-{number}"}
            await server.post("/runs", body, 201)
            await server.ended(f"r-{number}")
        assert [each["id"] for each in (await server.get("/sessions"))["sessions"]] == ["s-1"]
        messages = (await server.get("/sessions/s-1"))["messages"]
        assert [message["content"] for message in messages] == ["1?", "One.", "2?", "Two."]
        await server.get("/sessions/none", 404)


async def test_an_unknown_place_in_a_stream_begins_anew() -> None:
    async with serving(served(Agent(ScriptedModel("x"), name="a"))) as server:
        await server.post("/runs", {"agent": "a", "prompt": "x", "run_id": "r-1"}, 201)
        await server.ended("r-1")
        names = [name async for _, name, _ in server.events("/runs/r-1/events?after=900")]
        assert names[:2] == ["reset", "Opened"]
        assert names[-1] == "end"
        again = [place async for place, _, _ in server.events("/runs/r-1/events", after="2")]
        assert again[0] == "3"


async def test_a_run_is_cancelled_and_told_something_while_it_goes_on() -> None:
    gate = Gate()
    agent = Agent(ScriptedModel([TextDelta("a"), TextDelta("b")], "heard"), name="a")
    application = served(agent)
    async with serving(application) as server:
        handle = application.agents.agent("a").start("go", run_id="r-1", listeners=[gate])
        await handle.recorded()
        assert await server.post("/runs/r-1/inject", {"text": "More."}) == {"done": True}
        assert await server.post("/runs/r-1/cancel") == {"done": True}
        assert isinstance((await handle.result()).stop, stops.Cancelled)
        assert await server.post("/runs/r-1/cancel") == {"done": False}


async def test_a_submitted_run_is_queued_until_somebody_drives_it(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    async with serving(served(Agent(ScriptedModel("x"), name="a"), store=store)) as server:
        await Agent(ScriptedModel("x"), name="a", store=store).submit("Go", run_id="r-1")
        [row] = (await server.get("/runs"))["runs"]
        run = await server.get("/runs/r-1")
        assert (row["status"], run["status"], run["driven"]) == ("queued", "queued", False)
        await server.post("/runs/r-1/resume")
        assert (await server.until("r-1", "end"))["status"] == "Completed"


async def test_a_cancelled_run_is_resumed_with_decisions() -> None:
    acts: list[int] = []
    async with serving(served(paying(acts))) as server:
        await server.post("/runs", {"agent": "desk", "prompt": "Pay.", "run_id": "r-1"}, 201)
        [item] = (await server.until("r-1", "waiting"))["pending"]
        assert await server.post("/runs/r-1/cancel") == {"done": True}
        assert (await server.ended("r-1"))["status"] == "Cancelled"
        body = {"decisions": [{"id": item["id"], "action": "approve"}]}
        assert (await server.post("/runs/r-1/decisions", body, 409))["error"]["type"] == "AlreadyDecided"
        await server.post("/runs/r-1/resume", body)
        assert (await server.until("r-1", "end"))["status"] == "Completed"
    assert acts == [3]


async def test_the_same_request_again_is_the_same_run_whatever_it_does() -> None:
    waiting, gate = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        waiting.set()
        await gate.wait()
        return "over"

    def agent(store: InMemoryStore) -> Agent:
        return Agent(ScriptedModel(tool_call("wait"), "Done.", per_run=True), name="a", tools=[wait], store=store)

    store = InMemoryStore()
    body = {"agent": "a", "prompt": "x", "run_id": "r-1", "session": "s-1"}
    async with (
        serving(served(agent(store))) as server,
        serving(served(agent(InMemoryStore(shared=store)))) as other,
    ):
        assert await server.post("/runs", body, 201) == {"run_id": "r-1"}
        await waiting.wait()
        for each in (server, other):
            assert await each.post("/runs", body, 201) == {"run_id": "r-1"}
            for changed in ({"prompt": "y"}, {"session": "s-2"}):
                refused = await each.post("/runs", body | changed, 409)
                assert refused["error"]["type"] == "RunExists"
        assert (await server.post("/runs/r-1/resume", None, 409))["error"]["type"] == "RunInProgress"
        assert (await other.post("/runs/r-1/resume", None, 409))["error"]["type"] == "LeaseHeld"
        gate.set()
        assert (await server.until("r-1", "end"))["tool_calls"] == 1
        for each in (server, other):
            assert await each.post("/runs", body, 201) == {"run_id": "r-1"}
        assert (await server.get("/runs/r-1"))["tool_calls"] == 1


async def test_runs_have_a_grace_to_end_with_the_server_and_the_others_are_recovered(tmp_path: Path) -> None:
    began, ends, gate = asyncio.Semaphore(0), asyncio.Event(), asyncio.Event()

    def agent(*gates: asyncio.Event) -> Agent:
        waits = dict(zip(("quick", "slow"), gates, strict=False))

        @tool
        async def wait(name: str) -> str:
            """Wait."""
            began.release()
            if name in waits:
                await waits[name].wait()
            return "over"

        def answer(messages: list[Message]) -> str | ToolCall:
            return "Done." if messages[-1].tool_results else tool_call("wait", name=messages[0].text)

        return Agent(FunctionModel(answer), name="a", tools=[wait], store=f"sqlite:///{tmp_path / 'runs.db'}")

    served_here = served(agent(ends, gate))
    served_here.agents.closing.streams.add(ends.set)
    async with serving(served_here, grace=0.5) as server:
        for name in ("quick", "slow"):
            await server.post("/runs", {"agent": "a", "prompt": name, "run_id": name}, 201)
            await began.acquire()
    other = agent()
    quick, slow = [await other.attach(name).status() for name in ("quick", "slow")]
    assert (quick.status, slow.status, slow.driven) == ("Completed", "running", False)
    recovery = await other.recover()
    assert {name: run.output for name, run in recovery.runs.items()} == {"slow": "Done."}


WRONG: list[tuple[str, Any, int]] = [
    ("/runs", {"agent": "nobody", "prompt": "x"}, 404),
    ("/runs", {"agent": "a"}, 422),
    ("/runs", {"agent": "a", "prompt": "x", "run_id": "../x"}, 422),
    ("/runs", {"agent": "a", "prompt": "x", "run_id": "."}, 422),
    ("/runs", {"agent": "a", "prompt": "x", "run_id": ".."}, 422),
    ("/runs", {"agent": "a", "prompt": "x", "what": 1}, 422),
    ("/runs", [], 422),
    ("/runs/none/cancel", {}, 404),
    ("/runs/none/decisions", {"decisions": []}, 404),
    ("/runs/r-1/decisions", {"decisions": [{"id": "x", "action": "approve"}]}, 422),
    ("/runs/r-1/inject", {"text": ""}, 422),
    ("/runs/none/events", {"name": "paid"}, 404),
    ("/runs/r-1/events", {"name": ""}, 422),
    ("/runs/r-1/events", {"name": "late"}, 422),
    ("/nowhere", {}, 404),
    ("/agents", {}, 405),
]


async def test_wrong_requests_are_refused_with_a_reason() -> None:
    async with serving(served(Agent(ScriptedModel("x"), name="a"))) as server:
        await server.post("/runs", {"agent": "a", "prompt": "x", "run_id": "r-1"}, 201)
        await server.ended("r-1")
        for path, body, status in WRONG:
            assert (await server.post(path, body, status))["error"]["message"], path


FIELDS: list[tuple[str, Any, str]] = [
    ("/runs", {"agnt": "a"}, "agent, prompt, session, run_id, labels"),
    ("/runs", [], "agent, prompt, session, run_id, labels"),
    ("/runs/r-1/decisions", {"decision": []}, "decisions, each with id, action, reason, arguments, answer, result"),
    ("/runs/r-1/decisions", {"decisions": [{"ident": ""}]}, "decisions, each with id, action, reason"),
    ("/runs/r-1/inject", {"txt": ""}, "with text"),
    ("/runs/r-1/events", {"event": "paid"}, "name, value, key"),
    ("/runs/r-1/fork", {"att": 2}, "at, prompt, run_id"),
]


@pytest.mark.parametrize(("path", "body", "fields"), FIELDS, ids=str)
async def test_a_wrong_body_is_refused_with_the_fields_that_it_has(path: str, body: Any, fields: str) -> None:
    async with serving(served(Agent(ScriptedModel("x"), name="a"))) as server:
        await server.post("/runs", {"agent": "a", "prompt": "x", "run_id": "r-1"}, 201)
        assert fields in (await server.post(path, body, 422))["error"]["message"]


def test_wrong_arguments_are_refused_at_the_door() -> None:
    agent = Agent(ScriptedModel("x"), name="a")
    cases: tuple[dict[str, Any], ...] = (
        {"agents": []},
        {"agents": [agent, agent]},
        {"agents": agent, "token": "short"},
    )
    for arguments in cases:
        with pytest.raises(ConfigurationError):
            app(**wrong(arguments))


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_metrics_that_all_agents_share_are_a_page_for_prometheus(number: int) -> None:
    one, other = Metrics(), Metrics()
    several: list[list[list[Middleware]]] = [[[], []], [[one], [one]], [[one], [other]]]
    agents = [Agent(ScriptedModel("Yes."), name=f"a{each}", middleware=several[number][each]) for each in range(2)]
    async with serving(served(*agents)) as server:
        body = {"agent": "a0", "prompt": "Well?", "run_id": "r-1"}
        await server.post("/runs", body, 201)
        await server.ended("r-1")
        answer = await server.client.get("/metrics")
    if number == 1:
        assert answer.headers["content-type"].startswith("text/plain")
        assert 'gen_ai_invoke_agent_duration_seconds_count{gen_ai_agent_name="a0"} 1' in answer.text
    else:
        assert answer.status_code == 404
        assert "give one Metrics()" in answer.text


async def test_a_run_that_continues_as_new_names_the_next() -> None:
    @flow(name="count")
    async def counting(text: str) -> str:
        if len(text) < 3:
            await continue_as_new(text + "+")
        return text

    async with serving(served(counting)) as server:
        await server.post("/runs", {"agent": "count", "prompt": "+", "run_id": "r-1"}, 201)
        runs, run_id = list[tuple[str, str, object]](), "r-1"
        while run_id:
            run = await server.until(run_id, "end")
            runs.append((run["run_id"], run["status"], run["output"]))
            run_id = run["next"]
    assert runs == [("r-1", "Continued", None), ("r-1~2", "Continued", None), ("r-1~3", "Completed", "+++")]


DESK: Key[str] = Key("desk")


@tool
def look(ctx: Context) -> str:
    """Look."""
    return ctx.scope[DESK]


class Moving(InMemoryStore):
    """A store in which something happens after the next run was looked up."""

    move: Callable[[], Awaitable[object]] | None = None

    async def find(self, log: str) -> LogInfo | None:
        found = await super().find(log)
        if self.move is not None:
            move, self.move = self.move, None
            await move()
        return found


async def test_a_run_that_ends_while_it_is_read_is_shown_with_its_output() -> None:
    gate, store = asyncio.Event(), Moving()
    agent = Agent(ScriptedModel(["Good ", gate, "day."]), name="greeter", store=store)
    async with serving(served(agent)) as server:
        handle = agent.start("Greet.", run_id="r-1")
        await handle.recorded()

        async def end() -> None:
            gate.set()
            await handle.result()

        store.move = end
        run = await server.get("/runs/r-1")
        assert (run["status"], run["output"]) == ("Completed", "Good day.")


def looking() -> Agent:
    model = ScriptedModel(rules=[("tidy", "Done.")], always=tool_call("look"))
    return Agent(model, name="desk", tools=[look])


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
async def test_a_run_that_a_mistake_has_interrupted_shows_the_reason_and_can_be_cancelled(
    stored: bool, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}" if stored else None
    async with serving(served(looking(), store=store)) as server:
        await server.post("/runs", {"agent": "desk", "prompt": "x", "run_id": "r-1"}, 201)
        async for _, name, data in server.events("/runs/r-1/events"):
            if name == "waiting" and data:
                assert "desk" in data["error"]
                break
        run = await server.get("/runs/r-1")
        assert (run["status"], run["driven"], "desk" in run["error"]) == ("interrupted", False, True)
        assert (await server.post("/runs/r-1/cancel"))["done"]
        assert (await server.until("r-1", "end"))["status"] == "Cancelled"


_CHAT = {"id": "c", "messages": [{"id": "1", "role": "user", "parts": [{"type": "text", "text": "x"}]}]}
_SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
_ASKED: dict[str, Any] = {"threadId": "t", "runId": "g", "messages": [{"id": "1", "role": "user", "content": "x"}]}


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "stored"])
@pytest.mark.parametrize(
    ("path", "body", "failed"),
    [
        ("/ag-ui/desk", _ASKED | {"state": {}, "tools": [], "context": [], "forwardedProps": {}}, "RUN_ERROR"),
        ("/chat/desk", _CHAT, "error"),
        ("/a2a/desk", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": _SAID}}, "FAILED"),
    ],
)
async def test_clients_of_all_protocols_get_the_reason_of_a_mistake(
    path: str, body: dict[str, Any], failed: str, stored: bool, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}" if stored else None
    async with serving(served(looking(), store=store)) as server:
        reply = await server.client.post(path, json=body)
        assert failed in reply.text
        assert "was not given 'desk'" in reply.text


async def test_every_run_has_the_dependencies_of_the_server() -> None:
    with pytest.raises(ConfigurationError, match="Key"):
        served(looking(), deps={"desk": "tidy"})
    async with serving(served(looking(), deps={DESK: "tidy"})) as server:
        await server.post("/runs", {"agent": "desk", "prompt": "x", "run_id": "r-1"}, 201)
        assert (await server.until("r-1", "end"))["output"] == "Done."
        assert (await server.post("/runs/r-1/replay"))["answer"] == "Done."
        chat = {"model": "desk", "messages": [{"role": "user", "content": "x"}]}
        reply = await server.post("/v1/chat/completions", chat)
        assert reply["choices"][0]["message"]["content"].endswith("Done.")


async def test_the_kind_of_an_agent_is_its_own_in_any_store() -> None:
    application = served(looking().with_store(InMemoryStore()).with_store(InMemoryStore()))
    assert application.agents.described()[0]["kind"] == "Agent"


async def test_a_wrong_status_or_route_is_refused_by_name() -> None:
    async with serving(served(looking())) as server:
        assert "running" in (await server.get("/runs?status=runing", 422))["error"]["message"]
        assert (await server.get("/runs?status=timeout"))["runs"] == []
        error = (await server.get("/nope", 404))["error"]
        assert (error["type"], "/nope" in error["message"]) == ("NotFound", True)
