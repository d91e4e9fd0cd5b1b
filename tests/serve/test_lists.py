"""What is listed: runs with their figures, sessions, memories; read from the record, and no more often than needed."""

from typing import Any

from tests.serve.serving import TOKEN, serving
from ziggurat import Agent, Usage
from ziggurat.journal import Row
from ziggurat.memory import MemoryRecord, Remembering
from ziggurat.memory.stores.sqlite import LocalMemoryStore
from ziggurat.serve import app
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel, ScriptedReply


class CountingStore(InMemoryStore):
    """Counts how often records are read.

    Attributes:
        reads: How often.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reads: int = 0

    async def read(self, log: str, after: int = 0, limit: int | None = None) -> list[Row]:
        """Return rows; see `Store`."""
        self.reads += 1
        return await super().read(log, after, limit)


def greeter(*replies: ScriptedReply, **arguments: Any) -> Agent:
    return Agent(ScriptedModel(*replies, usage=Usage(input=30, output=4)), name="greeter", **arguments)


async def test_a_run_is_listed_with_what_it_used_and_its_session() -> None:
    async with serving(app(greeter("One.", ValueError("broken")), token=TOKEN)) as server:
        for number, session in ((1, "s-1"), (2, "s-2")):
            body = {"agent": "greeter", "prompt": "Hello?", "run_id": f"r-{number}", "session": session}
            await server.post("/runs", body, 201)
            await server.ended(f"r-{number}")
        rows = {row["run_id"]: row for row in (await server.get("/runs"))["runs"]}
        assert rows["r-1"]["session"] == "s-1"
        assert (rows["r-1"]["usage"]["input"], rows["r-1"]["usage"]["output"]) == (30, 4)
        assert rows["r-2"]["status"] == "Failed"
        assert rows["r-2"]["usage"] is not None
        assert [row["run_id"] for row in (await server.get("/runs?session=s-2"))["runs"]] == ["r-2"]
        detail = await server.get("/runs/r-1")
        assert (detail["session"], detail["usage"]["input"]) == ("s-1", 30)


async def test_a_list_that_is_read_again_reads_no_record_that_has_not_changed() -> None:
    store = CountingStore()
    async with serving(app(greeter("One.", "Two.", store=store), token=TOKEN)) as server:
        for number in (1, 2):
            await server.post("/runs", {"agent": "greeter", "prompt": "Hello?", "run_id": f"r-{number}"}, 201)
            await server.ended(f"r-{number}")
            first = await server.get("/runs")
            reads = store.reads
            assert await server.get("/runs") == first
            assert store.reads == reads


async def test_the_cost_of_a_run_and_of_a_call_is_told_if_it_is_known() -> None:
    reply = greeter("One.").model
    async with serving(app(Agent(reply, name="local"), token=TOKEN)) as server:
        await server.post("/runs", {"agent": "local", "prompt": "Hello?", "run_id": "r-1"}, 201)
        await server.ended("r-1")
        [row] = (await server.get("/runs"))["runs"]
        assert row["cost"] is None  # nobody has prices of a scripted model
        [number] = [node["number"] for node in (await server.get("/runs/r-1/tree"))["nodes"] if node["kind"] == "model"]
        assert (await server.get(f"/runs/r-1/nodes/{number}"))["cost"] is None


async def test_memories_are_looked_through() -> None:
    memory = LocalMemoryStore()
    records = [
        MemoryRecord(id=f"m-{number}", owner=("ann", "ben")[number % 2], content=text, created=float(number))
        for number, text in enumerate(["Likes tea.", "Lives in Oslo.", "Plays the cello.", "Owns a boat."])
    ]
    await memory.add(records)
    remembering = [Remembering(memory, "ann"), Remembering(memory, "ben")]
    agents = [greeter("Hello."), Agent(ScriptedModel("x"), name="with memory", middleware=remembering)]
    async with serving(app(agents, token=TOKEN)) as server:

        async def ids(query: str) -> list[str]:
            answer = await server.get(f"/memory{query}")
            return [each["id"] for each in answer["memories"]]

        assert await ids("") == ["m-3", "m-2", "m-1", "m-0"]
        assert await ids("?limit=2") == ["m-3", "m-2"]
        assert (await server.get("/memory?limit=2"))["total"] == 4
        assert await ids("?owner=ann") == ["m-2", "m-0"]
        assert await ids("?search=oslo") == ["m-1"]
        assert await ids("?search=zebra") == []
        await server.get("/memory?limit=many", 422)
    async with serving(app(greeter("Hello."), token=TOKEN)) as server:
        assert await server.get("/memory") == {"memories": [], "total": 0}


async def test_numbers_of_a_query_have_bounds() -> None:
    async with serving(app(greeter("Hello."), token=TOKEN)) as server:
        for query in ("limit=0", "limit=501", "limit=-1", "limit=x", "limit=1.5", "limit=", "before=x"):
            await server.get(f"/runs?{query}", 422)
        for query in ("limit=1", "limit=500", "before=1.5"):
            assert await server.get(f"/runs?{query}") == {"runs": [], "next": None}
