"""A server that floods its client, over its standard streams or HTTP: ``python hostile.py SHAPE SIZE [http]``.

The tool ``flood`` answers with SIZE bytes in the SHAPE; ``echo`` works. Over HTTP, the port is on its first line.
"""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

CHUNK = 1 << 18
NOTE = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'


def pieces(size: int, text: bytes) -> Iterator[bytes]:
    """Yield so many bytes of a text that is repeated."""
    chunk = text * (CHUNK // len(text))
    for _ in range(size // len(chunk)):
        yield chunk


def flood(shape: str, size: int, number: object) -> Iterator[bytes]:
    """Yield the bytes of a message, or of many, without what ends the last one."""
    head = f'{{"jsonrpc":"2.0","id":{json.dumps(number)},"result":'.encode()
    if shape == "line":
        yield from pieces(size, b"x")
    elif shape == "string":
        yield head + b'{"resultType":"complete","content":[{"type":"text","text":"'
        yield from pieces(size, b"y")
        yield b'"}]}}'
    elif shape == "structure":
        yield head + b'{"resultType":"complete","content":[],"structuredContent":['
        yield from pieces(size, b"{},")
        yield b"1]}}"
    elif shape == "nested":
        yield head + b'{"content":[],"structuredContent":' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}}"
    else:  # messages
        yield from pieces(size, NOTE + b"\n")


def answer(message: dict[str, Any]) -> bytes:
    method = message["method"]
    results: dict[str, dict[str, Any]] = {
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
        "tools/list": {"tools": []},
        "tools/call": {"content": [{"type": "text", "text": "a"}]},
    }
    result = {"resultType": "complete", **results[method]}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()


def is_flood(message: dict[str, Any]) -> bool:
    return bool(message["method"] == "tools/call" and message["params"]["name"] == "flood")


def over_stdio(shape: str, size: int) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        for piece in flood(shape, size, message["id"]) if is_flood(message) else [answer(message)]:
            sent = 0
            while sent < len(piece):
                sent += os.write(1, piece[sent:])
        if shape != "line" or not is_flood(message):
            os.write(1, b"\n")


async def over_http(shape: str, size: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().partition("content-length:")[2]
                message = json.loads(await reader.readexactly(int(head.split()[0])))
                await respond(message, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def respond(message: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        events = shape.startswith("event") and is_flood(message)
        kind = b"text/event-stream" if events else b"application/json"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind)
        if not is_flood(message):
            await send(writer, answer(message))
        elif shape == "event":
            await send(writer, b"data: ")
            for piece in pieces(size, b"x"):
                await send(writer, piece)
        elif shape == "event comments":
            for piece in pieces(size, b": still here\n\n"):
                await send(writer, piece)
        elif shape == "event messages":
            for piece in pieces(size, b"data: " + NOTE + b"\n\n"):
                await send(writer, piece)
        else:
            for piece in flood(shape, size, message["id"]):
                await send(writer, piece)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
    await writer.drain()


if __name__ == "__main__":
    if sys.argv[3:] == ["http"]:
        asyncio.run(over_http(sys.argv[1], int(sys.argv[2])))
    else:
        over_stdio(sys.argv[1], int(sys.argv[2]))
