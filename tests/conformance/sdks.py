"""Compares what Ziggurat and the official SDKs read out of recorded replies, each over a loopback connection.

    python -m tests.conformance.sdks [SEED]

The server sends each body in pieces cut at random bytes. Prints, for each wire, how many recordings are read in the
same way, and every field that is not.
"""

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anthropic
import openai

from tests.conformance.corpora import ROOT, TRAFFIC, needed, recordings
from tests.conformance.traffic import run
from ziggurat.errors import ModelError

Reading = dict[str, Any]
SIZES = (1, 2, 3, 5, 8, 13, 64, 512, 4096)
MODEL, ASKED = "recorded", [{"role": "user", "content": "What was recorded?"}]


# -- the server ------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def replayed(records: list[Reading], seed: str) -> AsyncIterator[str]:
    """Serve recordings below their number; yields the address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r")[0])
        await reader.readexactly(length)
        number = int(head.split(b"/")[1])
        record = records[number]
        kind = "text/event-stream" if record["stream"] else "application/json"
        start = f"HTTP/1.1 {record['status']} Recorded\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n"
        writer.write(f"{start}connection: close\r\n\r\n".encode())
        cutting, body, at = random.Random(f"{seed}{record['id']}"), record["body"].encode("utf-8", "replace"), 0
        while at < len(body):
            piece = body[at : at + cutting.choice(SIZES)]
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            at += len(piece)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


# -- what the SDKs read ----------------------------------------------------------------------------------------------


@cache
def openai_client() -> openai.AsyncOpenAI:
    """Return the client of OpenAI's SDK, which is expensive to make."""
    return openai.AsyncOpenAI(api_key="none", max_retries=0)


@cache
def anthropic_client() -> anthropic.AsyncAnthropic:
    """Return the client of Anthropic's SDK."""
    return anthropic.AsyncAnthropic(api_key="none", max_retries=0)


def parsed(arguments: str) -> Any:
    """Return arguments of a call as a value, None if they are no JSON."""
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return None


async def chat(url: str, stream: bool) -> Reading:
    """Chat Completions, by the SDK of OpenAI."""
    text, refusal, finish, usage, calls = "", "", None, None, dict[int, Any]()

    def add(said: Any, numbered: Any) -> None:
        nonlocal text, refusal
        text, refusal = text + (said.content or ""), refusal + (said.refusal or "")
        for index, call in numbered:
            if call.type != "custom":
                held = calls.setdefault(index, {"id": None, "name": "", "arguments": ""})
                held["id"] = held["id"] or call.id
                held["name"] += call.function.name or ""
                held["arguments"] += call.function.arguments or ""

    client = openai_client().with_options(base_url=url + "/v1")
    asked: Any = {"model": MODEL, "messages": ASKED}
    if stream:
        async for chunk in await client.chat.completions.create(**asked, stream=True):
            usage = chunk.usage or usage
            for choice in (chunk.choices or [])[:1]:
                if choice.index == 0:
                    add(choice.delta, [(call.index, call) for call in choice.delta.tool_calls or ()])
                    finish = choice.finish_reason or finish
    else:
        reply = await client.chat.completions.create(**asked)
        usage, choice = reply.usage, reply.choices[0]
        add(choice.message, enumerate(choice.message.tool_calls or ()))
        finish = choice.finish_reason
    return {
        "text": text,
        "refusal": refusal or None,
        "tool_calls": [{**call, "arguments": parsed(call["arguments"])} for call in calls.values()],
        "finish": finish,
        "usage": usage and (usage.prompt_tokens, usage.completion_tokens),
    }


async def responses(url: str, stream: bool) -> Reading:
    """Responses, by the SDK of OpenAI."""
    client = openai_client().with_options(base_url=url + "/v1")
    asked: Any = {"model": MODEL, "input": ASKED}
    reply: Any = None
    if stream:
        async for event in await client.responses.create(**asked, stream=True):
            if event.type in ("response.completed", "response.incomplete"):
                reply = event.response
    else:
        reply = await client.responses.create(**asked)
    contents = [part for item in reply.output if item.type == "message" for part in item.content]
    thoughts = [item for item in reply.output if item.type == "reasoning"]
    return {
        "text": "".join(part.text for part in contents if part.type == "output_text"),
        "refusal": "".join(part.refusal for part in contents if part.type == "refusal") or None,
        "tool_calls": [
            {"id": item.call_id, "name": item.name, "arguments": parsed(item.arguments)}
            for item in reply.output
            if item.type == "function_call"
        ],
        "finish": reply.status,
        "usage": reply.usage and (reply.usage.input_tokens, reply.usage.output_tokens),
        "thinking": "".join("\n".join(each.text for each in item.summary) for item in thoughts),
    }


async def messages(url: str, stream: bool) -> Reading:
    """Messages, by the SDK of Anthropic."""
    client = anthropic_client().with_options(base_url=url)
    asked: Any = {"model": MODEL, "messages": ASKED, "max_tokens": 10}
    reply: Any
    if stream:
        async with client.messages.stream(**asked) as events:
            reply = await events.get_final_message()
    else:
        reply = await client.messages.create(**asked)
    return {
        "text": "".join(part.text for part in reply.content if part.type == "text"),
        "refusal": None,
        "tool_calls": [
            {"id": part.id, "name": part.name, "arguments": part.input}
            for part in reply.content
            if part.type == "tool_use"
        ],
        "finish": reply.stop_reason,
        "usage": (reply.usage.input_tokens, reply.usage.output_tokens),
        "thinking": "".join(part.thinking for part in reply.content if part.type == "thinking"),
    }


SDKS: dict[str, Callable[[str, bool], Awaitable[Reading]]] = {
    each.__name__: each for each in (chat, responses, messages)
}


# -- comparison ------------------------------------------------------------------------------------------------------


async def theirs(endpoint: str, url: str, stream: bool) -> Reading:
    """Return the SDK's reading, or the error that it raises."""
    try:
        return await SDKS[endpoint](url, stream)
    except (openai.APIError, anthropic.APIError) as error:
        return {"error": getattr(error, "status_code", None)}
    except Exception as error:  # one of the SDK's own
        return {"failed": f"{type(error).__name__}: {error}"[:200]}


async def ours(endpoint: str, url: str, stream: bool) -> Reading:
    """Return Ziggurat's reading in the same terms."""
    try:
        read = await run(endpoint, url + "/v1", stream)
    except ModelError as error:
        return {"failed": f"{type(error).__name__}: {error}"[:200]}
    if failure := read["error"]:
        return {"error": failure["status"]}
    usage = read["usage"]
    told = {name: read[name] for name in ("text", "refusal", "tool_calls", "finish")}
    told["usage"] = usage and (usage["input"], usage["output"])
    if endpoint != "chat":  # whose SDK has no field for thoughts
        told["thinking"] = "".join(each["text"] for each in read["thinking"])
    return told


async def compare(seed: str) -> int:
    """Print the figures and the differences; return how many of these `docs/conformance.md` does not explain."""
    records, explained = recordings(needed(TRAFFIC)), (ROOT / "docs" / "conformance.md").read_text(encoding="utf-8")
    same, total, unexplained = dict.fromkeys(SDKS, 0), dict.fromkeys(SDKS, 0), 0
    async with replayed(records, seed) as url:
        for number, record in enumerate(records):
            endpoint, stream, address = record["endpoint"], record["stream"], f"{url}/{number}"
            one, other = await ours(endpoint, address, stream), await theirs(endpoint, address, stream)
            total[endpoint] += 1
            same[endpoint] += one == other
            unexplained += one != other and record["id"] not in explained
            for name in sorted({*one, *other}):
                if (read := str(one.get(name))[:150]) != (differs := str(other.get(name))[:150]):
                    print(f"{record['id']}: {name}: {read!r}, the SDK {differs!r}")
    for endpoint, count in total.items():
        print(f"{endpoint}: {same[endpoint]} of {count} are read as the SDK reads them")
    return unexplained


def main() -> int:
    """Compare all; 1 if there is a difference that is not explained."""
    return 1 if asyncio.run(compare(sys.argv[1] if len(sys.argv) > 1 else "0")) else 0


if __name__ == "__main__":
    raise SystemExit(main())
