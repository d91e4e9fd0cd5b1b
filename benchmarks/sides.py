"""The workloads of `benchmarks.overhead`, the bare loop, and Ziggurat; `benchmarks.peers` has other runtimes.

Every run is checked: the tool has added all numbers, and the last text has come.
"""

import asyncio
import gc
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from importlib import import_module
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

PROMPT, DONE = "Add the numbers.", "done"
Figures = dict[str, float]


class Call(NamedTuple):
    """A call of the tool that the model makes."""

    id: str
    arguments: dict[str, int]


class Play:
    """A conversation: so many turns with calls of the tool, then the last text."""

    def __init__(self, turns: int, calls: int = 1, delay: float = 0.0) -> None:
        self.calls, self.delay = calls, delay
        self.expected = range(turns * calls)
        self.taken = 0
        self.sums: list[int] = []

    async def turn(self) -> list[Call]:
        """Return the calls of the next turn; none means that the last text comes."""
        if self.delay:
            await asyncio.sleep(self.delay)
        numbers = self.expected[self.taken : self.taken + self.calls]
        self.taken += self.calls
        return [Call(f"call-{number}", {"a": number, "b": 1}) for number in numbers]

    def check(self, text: str) -> None:
        """Raise AssertionError unless everything was done."""
        assert sorted(self.sums) == [number + 1 for number in self.expected], len(self.sums)
        assert text == DONE, text


PLAY: ContextVar[Play] = ContextVar("PLAY")


async def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: the first number.
        b: the second number.
    """
    PLAY.get().sums.append(a + b)
    return a + b


async def wait(a: int, b: int) -> int:
    """Add two numbers after 10 milliseconds.

    Args:
        a: the first number.
        b: the second number.
    """
    await asyncio.sleep(0.01)
    return await add(a, b)


Tool = Callable[[int, int], Awaitable[int]]


class Side(Protocol):
    """A runtime, or the bare loop."""

    def local(self, tool: Tool) -> Any:
        """Return an agent with a tool and a model in this process that plays what PLAY holds."""

    def remote(self, url: str, model: str) -> Any:
        """Return an agent with the tool `add` and a model behind Chat Completions."""

    async def run(self, agent: Any) -> str:
        """Run the agent and return its last text."""

    async def stream(self, agent: Any) -> int:
        """Run the agent with its events and return how many pieces of text came."""


# -- the floor -------------------------------------------------------------------------------------------------------


class Floor:
    """A loop with a list of messages; arguments and results are decoded and encoded by msgspec, as Ziggurat's are."""

    def local(self, tool: Tool) -> Any:
        from msgspec.json import encode

        async def model(messages: list[Any]) -> dict[str, Any]:
            calls = await PLAY.get().turn()
            made = [{"id": each.id, "name": tool.__name__, "arguments": encode(each.arguments)} for each in calls]
            return {"role": "assistant", "content": "" if made else DONE, "tool_calls": made}

        return model, {tool.__name__: tool}

    def remote(self, url: str, model: str) -> Any:
        return Client(url, model), {"add": add}

    async def run(self, agent: Any) -> str:
        from msgspec.json import decode, encode

        model, tools = agent
        messages: list[dict[str, Any]] = [{"role": "user", "content": PROMPT}]

        async def answer(call: dict[str, Any]) -> dict[str, Any]:
            result = await tools[call["name"]](**decode(call["arguments"]))
            return {"role": "tool", "tool_call_id": call["id"], "content": encode(result).decode()}

        while True:
            reply = await model(messages)
            messages.append(reply)
            calls = reply["tool_calls"]
            if not calls:
                text: str = reply["content"]
                return text
            if len(calls) == 1:
                messages.append(await answer(calls[0]))
            else:
                messages += await asyncio.gather(*map(answer, calls))

    async def stream(self, agent: Any) -> int:
        client: Client = agent[0]
        return await client.stream([{"role": "user", "content": PROMPT}])


class Client:
    """A client of Chat Completions over one open connection, with msgspec for JSON."""

    TOOL = {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add two numbers.",
            "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
        },
    }

    def __init__(self, url: str, model: str) -> None:
        self.address, self.model = urlsplit(url), model
        self.connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, messages: list[Any], stream: bool = False) -> tuple[asyncio.StreamReader, bytes]:
        """Send a request; return the reader, at the body, and the head of the reply."""
        from msgspec.json import encode

        if self.connection is None:
            assert self.address.hostname
            self.connection = await asyncio.open_connection(self.address.hostname, self.address.port, limit=2**20)
        reader, writer = self.connection
        body = encode({"model": self.model, "messages": messages, "tools": [self.TOOL], "stream": stream})
        head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer x\r\n"
        writer.write(head + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        return reader, (await reader.readuntil(b"\r\n\r\n")).lower()

    async def __call__(self, messages: list[Any]) -> dict[str, Any]:
        from msgspec.json import decode

        wire = [
            {**each, "tool_calls": [{"id": call["id"], "type": "function", "function": call} for call in calls]}
            if (calls := each.get("tool_calls"))
            else each
            for each in messages
        ]
        reader, head = await self.ask(wire)
        body = await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r")[0]))
        message = decode(body)["choices"][0]["message"]
        calls = [{"id": call["id"], **call["function"]} for call in message.get("tool_calls") or ()]
        return {"role": "assistant", "content": message["content"], "tool_calls": calls}

    async def stream(self, messages: list[Any]) -> int:
        """Return how many pieces of text came."""
        from msgspec.json import decode

        reader, _ = await self.ask(messages, stream=True)
        text = []
        while size := int(await reader.readline(), 16):
            event = (await reader.readexactly(size + 2))[len("data: ") :]
            if not event.startswith(b"[DONE]"):
                for choice in decode(event)["choices"]:
                    if piece := choice["delta"].get("content"):
                        text.append(piece)
        await reader.readline()
        return len(text)


# -- Ziggurat --------------------------------------------------------------------------------------------------------


class Ziggurat:
    """Agents as their defaults are: no store, no middleware, no layers."""

    def local(self, tool: Tool) -> Any:
        from msgspec.json import encode

        from ziggurat import Agent, Context, ModelRequest, ModelResponse, Usage
        from ziggurat.messages.message import Message, Text, ToolCall

        usage = Usage(9, 3, requests=1)  # as providers state it

        async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
            calls = await PLAY.get().turn()
            if not calls:
                return ModelResponse(Message("assistant", (Text(DONE),)), usage=usage)
            parts = [ToolCall(each.id, tool.__name__, encode(each.arguments).decode()) for each in calls]
            return ModelResponse(Message("assistant", tuple(parts)), "tool_calls", usage)

        return Agent(model, tools=[tool], max_steps=100_000)

    def remote(self, url: str, model: str) -> Any:
        from ziggurat import Agent
        from ziggurat.models.http.providers import openai

        return Agent(openai(model, key="x", base_url=url), tools=[add], max_steps=100_000)

    async def run(self, agent: Any) -> str:
        run = await agent.run(PROMPT)
        run.raise_for_stop()
        text: str = run.text
        return text

    async def stream(self, agent: Any) -> int:
        from ziggurat.messages.events import Delta
        from ziggurat.messages.message import TextDelta

        count = 0
        async with agent.stream(PROMPT) as events:
            async for event in events:
                count += isinstance(event, Delta) and isinstance(event.delta, TextDelta)
        return count


SIDES: dict[str, Callable[[], Side]] = {"floor": Floor, "ziggurat": Ziggurat}


def side(name: str) -> Side:
    """Return a side by its name; raises ModuleNotFoundError for one that is not installed."""
    made: Side = SIDES[name]() if name in SIDES else import_module("benchmarks.peers").PEERS[name]()
    return made


# -- the workloads ---------------------------------------------------------------------------------------------------


async def played(one: Side, agent: Any, play: Play) -> tuple[float, float]:
    """Run an agent; return CPU and wall time in seconds."""
    PLAY.set(play)
    gc.collect()
    began, worked = time.perf_counter(), time.process_time()
    text = await one.run(agent)
    took = time.process_time() - worked, time.perf_counter() - began
    play.check(text)
    return took


async def steps(one: Side, full: bool, url: str) -> Figures:
    """One run of many steps, each with one call of the model and one of the tool."""
    count, times = (500, 9) if full else (100, 3)
    agent = one.local(add)
    await played(one, agent, Play(5))
    took = [(await played(one, agent, Play(count)))[0] for _ in range(times)]
    return {"CPU µs per step": statistics.median(took) / count * 1e6}


async def http(one: Side, full: bool, url: str) -> Figures:
    """Calls of a model over HTTP, plain and streamed."""
    turns, pieces, times = (50, 1000, 9) if full else (20, 500, 3)
    agent = one.remote(url, f"{turns}.0")
    took = []
    for _ in range(times + 1):
        play = Play(turns)
        took.append((await played(one, agent, play))[0])
    streamed: dict[int, list[float]] = {1: [], pieces: []}
    for count, kept in streamed.items():
        agent = one.remote(url, f"0.{count}")
        for _ in range(times + 1):
            gc.collect()
            worked = time.process_time()
            seen = await one.stream(agent)
            kept.append(time.process_time() - worked)
            assert seen == count, (seen, count)
    few, many = (statistics.median(each[1:]) for each in streamed.values())
    return {
        "CPU ms per call and step": statistics.median(took[1:]) / (turns + 1) * 1e3,
        "CPU µs per piece of a stream": (many - few) / (pieces - 1) * 1e6,
    }


async def runs(one: Side, full: bool, url: str) -> Figures:
    """Many runs at once, of 5 steps each, whose model takes 50 milliseconds for a turn."""
    count = 2000 if full else 200
    agent = one.local(add)

    async def single() -> None:
        play = Play(5, delay=0.05)
        PLAY.set(play)
        play.check(await one.run(agent))

    await asyncio.gather(*[single() for _ in range(3)])
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worked = time.process_time()
    await asyncio.gather(*[single() for _ in range(count)])
    cpu = time.process_time() - worked
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (1024 if sys.platform == "darwin" else 1)
    return {"CPU ms per run": cpu / count * 1e3, "KiB per run": grown / count}


async def start(one: Side, full: bool, url: str) -> Figures:
    """A new process until there is an agent for Chat Completions."""
    one.remote("http://127.0.0.1:9/v1", "model")
    return {"CPU ms to start": time.process_time() * 1e3, "modules": len(sys.modules)}


async def parallel(one: Side, full: bool, url: str) -> Figures:
    """One reply with 100 calls of a tool that takes 10 milliseconds."""
    agent = one.local(wait)
    took = [await played(one, agent, Play(1, calls=100)) for _ in range(10 if full else 4)]
    cpu, wall = (statistics.median(column) * 1e3 for column in zip(*took[1:], strict=True))
    return {"CPU ms": cpu, "wall ms": wall}


WORKLOADS: dict[str, Callable[[Side, bool, str], Coroutine[Any, Any, Figures]]] = {
    each.__name__: each for each in (steps, http, runs, start, parallel)
}
