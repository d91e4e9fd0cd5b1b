"""Recorded streams broken off at every byte, through the whole model service over loopback.

``python -m tests.conformance.cuts`` prints, per wire, how many cuts were tried and how many gave a finished reply
although the stream had not come to its end, or a tool call from arguments that had not come whole.
"""

__all__ = ["main"]

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

from tests.conformance.corpora import TRAFFIC, needed, recordings
from tests.conformance.traffic import ENDPOINTS
from ziggurat import Event, ModelRequest, ModelResponse, user
from ziggurat.core import root
from ziggurat.errors import ModelError
from ziggurat.messages import Transcript
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.http.providers import Provider

STREAMS = 5
LONGEST = 6_000  # bytes; every one of them is a cut
CALLS = ('"tool_calls"', '"function_call"', '"tool_use"')
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_REQUEST = ModelRequest(Transcript.of(user("hello")))


def streams(endpoint: str) -> Iterator[bytes]:
    """Yield recorded streams of a wire, those with tool calls first."""
    found = [
        record
        for record in recordings(needed(TRAFFIC))
        if record["endpoint"] == endpoint and record["stream"] and record["status"] == 200
        and len(record["body"]) <= LONGEST and _ended(record["body"].encode())
    ]  # fmt: skip
    found.sort(key=lambda record: not any(word in record["body"] for word in CALLS))
    for record in found[:STREAMS]:
        yield record["body"].encode("utf-8", "replace")


async def _heard(event: Event) -> None:
    """Listen, so that the wire is asked for a stream."""


async def cut_everywhere(endpoint: str, body: bytes) -> tuple[int, int, int]:
    """Break one stream off at every byte; return the cuts, and how many finished, early and with a changed reply."""
    at = len(body)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        piece = body[:at]
        writer.write(_HEAD + (b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""))
        if at == len(body):
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    early = changed = 0
    async with Provider(DIALECTS[ENDPOINTS[endpoint].provider])("recorded", base_url=address, key="none") as model:
        ctx = root().heard_by(_heard)
        whole: ModelResponse = await model(_REQUEST, ctx)
        for at in range(len(body)):
            try:
                response = await model(_REQUEST, ctx)
            except ModelError:
                continue
            early += not _ended(body[:at])
            changed += response.message != whole.message
    server.close()
    await server.wait_closed()
    return len(body), early, changed


def _ended(body: bytes) -> bool:
    """Return whether the last event, the one that ends a stream, has come."""
    return any(end in body for end in (b"[DONE]", b"message_stop", b"response.completed", b"response.incomplete"))


def main() -> int:
    """Print the figures; 1 if a stream that broke off was taken for finished."""
    bad = 0
    for endpoint in ENDPOINTS:
        totals: list[Any] = [asyncio.run(cut_everywhere(endpoint, body)) for body in streams(endpoint)]
        cuts, early, changed = (sum(column) for column in zip(*totals, strict=True))
        print(f"{endpoint}: {len(totals)} streams, {cuts} cuts, {early} finished early, {changed} changed")
        bad += early + changed
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
