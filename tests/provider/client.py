"""A client that is a plain socket, so that every byte is visible."""

import json
import socket
from dataclasses import dataclass
from typing import Any

from ziggurat import Usage
from ziggurat.fake_provider import FakeProvider, Quirk
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

WIRES = ("chat", "responses", "messages")
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}


def request_bytes(wire: str, *, stream: bool = False, text: str = "hi", **more: Any) -> bytes:
    key = "input" if wire == "responses" else "messages"
    body = {"model": "m-1", key: [{"role": "user", "content": text}], "stream": stream, "max_tokens": 9, **more}
    data = json.dumps(body).encode()
    head = f"POST {PATHS[wire]} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer sk-secret\r\ncontent-length: {len(data)}"
    return head.encode() + b"\r\n\r\n" + data


def dechunked(data: bytes) -> tuple[bytes, list[bytes], bool]:
    """Return the body, its chunks, and whether the last one arrived."""
    chunks: list[bytes] = []
    at = 0
    while at < len(data):
        line = data.index(b"\r\n", at)
        size = int(data[at:line], 16)
        if size == 0:
            return b"".join(chunks), chunks, True
        chunks.append(data[line + 2 : line + 2 + size])
        at = line + 2 + size + 2
    return b"".join(chunks), chunks, False


@dataclass
class Got:
    """A response: all its bytes, and its parts."""

    raw: bytes
    was_reset: bool = False

    @property
    def head(self) -> bytes:
        return self.raw.partition(b"\r\n\r\n")[0]

    @property
    def status(self) -> int:
        return int(self.raw.split(b" ", 2)[1])

    @property
    def headers(self) -> list[tuple[str, str]]:
        lines = self.head.decode().split("\r\n")[1:]
        return [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)

    @property
    def sent(self) -> bytes:
        """The bytes after the head, as received."""
        return self.raw.partition(b"\r\n\r\n")[2]

    @property
    def body(self) -> bytes:
        return dechunked(self.sent)[0] if self.header("transfer-encoding") else self.sent

    @property
    def chunks(self) -> list[bytes]:
        return dechunked(self.sent)[1]

    @property
    def ended(self) -> bool:
        """Whether it is complete for HTTP."""
        if self.header("transfer-encoding"):
            return dechunked(self.sent)[2]
        return len(self.sent) == int(self.header("content-length") or 0)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[Any]:
        """The data of the events of a stream with line ends of LF."""
        found = [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]
        return [text if text == "[DONE]" else json.loads(text) for text in found]


def received(client: socket.socket) -> Got:
    """Read everything until the other side closes."""
    got = bytearray()
    try:
        while data := client.recv(1 << 16):
            got += data
    except ConnectionResetError:
        return Got(bytes(got), was_reset=True)
    return Got(bytes(got))


def post(server: FakeProvider, wire: str = "chat", **more: Any) -> Got:
    """Send one request on a new connection, and read until it is closed."""
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        data = request_bytes(wire, **more).replace(b"host: x", b"host: x\r\nconnection: close")
        client.sendall(data)
        return received(client)


CALLS = ScriptedModel(
    always=[
        "Let me ädd. ",
        tool_call("add", a=1, b=2, note="a rather long note"),
        tool_call("sub", a=5, b=4),
        Usage(input=20, output=9, requests=1),
    ]
)


def ask(*quirks: Quirk, wire: str = "chat", stream: bool = False, **more: Any) -> Got:
    """Send a request to a server that replies with a text and two calls, with these quirks."""
    with FakeProvider(model=CALLS, quirks=quirks) as server:
        return post(server, wire, stream=stream, **more)


def deltas_of_calls(got: Got) -> list[Any]:
    """Return the pieces of tool calls in the stream of a Chat Completions reply."""
    chunks = [event for event in got.events if event != "[DONE]"]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"] or ()]
    return [call for delta in deltas for call in delta.get("tool_calls") or ()]
