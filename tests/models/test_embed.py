"""Embedders: over HTTP, and embedded."""

import asyncio
import base64
import json
from array import array
from collections.abc import Callable

import pytest

from ziggurat import ConfigurationError
from ziggurat.core import root
from ziggurat.errors import ModelError
from ziggurat.messages import Embeddings, EmbedRequest
from ziggurat.models import http_embedder, resolve_embedder
from ziggurat.models.embed import HttpEmbedder
from ziggurat.models.local.minilm import MiniLm

Answer = Callable[[dict[str, object]], tuple[int, object]]


async def served(answer: Answer, asked: list[dict[str, object]], ended: "asyncio.Queue[None]") -> asyncio.Server:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:-2])
                body = json.loads(await reader.readexactly(int(fields["content-length"])))
                asked.append({**body, "path": head.split()[1].decode(), "key": fields.get("authorization")})
                status, said = answer(body)
                data = json.dumps(said).encode()
                writer.write(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(data), data))
        except asyncio.IncompleteReadError:
            writer.close()
            await writer.wait_closed()
            ended.put_nowait(None)

    return await asyncio.start_server(serve, "127.0.0.1", 0)


def ask(answer: Answer, texts: tuple[str, ...], **more: object) -> tuple[Embeddings, list[dict[str, object]]]:
    asked: list[dict[str, object]] = []

    async def main() -> Embeddings:
        ended: asyncio.Queue[None] = asyncio.Queue()
        server = await served(answer, asked, ended)
        port = server.sockets[0].getsockname()[1]
        embedder = http_embedder("openai:small", key="k", base_url=f"http://127.0.0.1:{port}/v1", **more)  # type: ignore[arg-type]
        try:
            return await embedder(EmbedRequest(texts), root("test"))
        finally:
            await embedder.close()
            await ended.get()
            server.close()

    return asyncio.run(main()), asked


def plain(body: dict[str, object]) -> tuple[int, object]:
    """Answer lists, in the wrong order."""
    texts: list[str] = body["input"]  # type: ignore[assignment]
    data = [{"index": place, "embedding": [float(len(text)), 0.5]} for place, text in enumerate(texts)]
    return 200, {"data": data[::-1], "usage": {"prompt_tokens": len(texts)}}


def coded(body: dict[str, object]) -> tuple[int, object]:
    vector = base64.b64encode(array("f", [1.0, 2.0]).tobytes()).decode()
    return 200, {"data": [{"index": 0, "embedding": vector}]}


def test_texts_go_in_batches_and_vectors_come_in_order() -> None:
    answer, asked = ask(plain, ("a", "bb", "ccc"), batch_size=2, dimensions=2)
    assert [list(array("f", vector)) for vector in answer.vectors] == [[1.0, 0.5], [2.0, 0.5], [3.0, 0.5]]
    assert (answer.model, answer.usage.input, answer.usage.requests) == ("openai:small", 3, 2)
    assert [(each["path"], each["input"], each["key"]) for each in asked] == [
        ("/v1/embeddings", ["a", "bb"], "Bearer k"),
        ("/v1/embeddings", ["ccc"], "Bearer k"),
    ]
    assert asked[0]["dimensions"] == 2


def test_vectors_come_in_base64_too() -> None:
    answer, asked = ask(coded, ("a",))
    assert list(array("f", answer.vectors[0])) == [1.0, 2.0]
    assert asked[0]["encoding_format"] == "base64"


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (lambda body: (401, {"error": {"message": "bad key k"}}), "authentication", "bad key"),
        (lambda body: (503, {}), "overloaded", "openai"),
        (lambda body: (200, {"nothing": 1}), "malformed", "no embeddings"),
        (lambda body: (200, {"data": []}), "malformed", "0 vectors"),
        (lambda body: (200, {"data": [{"index": 0, "embedding": "?"}]}), "malformed", "base64"),
        (lambda body: (200, {"data": [{"index": 1, "embedding": [1.0]}]}), "malformed", "1 vectors"),
    ],
)
def test_what_can_go_wrong(answer: Answer, kind: str, said: str) -> None:
    with pytest.raises(ModelError, match=said) as raised:
        ask(answer, ("a",))
    assert raised.value.kind == kind


def test_wrong_use_raises_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for spec, said in (("openai:", "provider:model"), ("anthropic:x", "no embeddings"), ("openai:x", "OPENAI_API_KEY")):
        with pytest.raises(ConfigurationError, match=said):
            resolve_embedder(spec)
    with pytest.raises(ConfigurationError, match="whole number of at least 1"):
        http_embedder("ollama:x", batch_size=0)
    with pytest.raises(ConfigurationError, match="resolve_embedder"):
        resolve_embedder(7)  # type: ignore[arg-type]
    assert isinstance(resolve_embedder("ollama:nomic"), HttpEmbedder)
    assert repr(resolve_embedder("ollama:nomic")) == "http_embedder('ollama:nomic')"


@pytest.mark.local
async def test_the_embedded_model_knows_what_is_near() -> None:
    answer = await MiniLm()(EmbedRequest(("a cat", "a kitten", "the stock market")), root("test"))
    cat, kitten, market = (array("f", vector) for vector in answer.vectors)
    assert len(cat) == 384
    near, far = (sum(a * b for a, b in zip(cat, other, strict=True)) for other in (kitten, market))
    assert near > 0.5 > far
