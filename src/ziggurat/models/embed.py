"""Embedders: services that turn texts into vectors, by name; over HTTP (``/embeddings``)."""

import base64
import ssl
from typing import Any

import msgspec

from ziggurat.core import codec
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.core.settings import PositiveInt, SecretText, checked
from ziggurat.http.client import HttpReply
from ziggurat.http.limits import Limits
from ziggurat.messages.model import Embedder, Embeddings, EmbedRequest, pack
from ziggurat.messages.usage import Usage
from ziggurat.models.http import stated
from ziggurat.models.http.dialect import dialect_of
from ziggurat.models.http.endpoint import Endpoint, endpoint_of


class _Vector(msgspec.Struct):
    index: int
    embedding: str | list[float]


class _Answer(msgspec.Struct):
    data: list[_Vector]
    usage: Any = None


_answer = codec.decoder(_Answer)


@checked
def http_embedder(
    spec: str,
    *,
    key: SecretText | None = None,
    base_url: str | None = None,
    dimensions: PositiveInt | None = None,
    batch_size: PositiveInt = 128,
    limits: Limits | None = None,
    proxy: str | None = None,
    ca: str | ssl.SSLContext | None = None,
    client: Any = None,
) -> "HttpEmbedder":
    """Make an embedder of a provider, with the same names and environment variables as its models.

    ::

        http_embedder("openai:text-embedding-3-small")
        http_embedder("ollama:nomic-embed-text")
        http_embedder("vllm:bge-m3", base_url="http://gpu.example:8000/v1")

    Args:
        spec: Provider and model.
        key: The API key; by default from the provider's environment variable.
        base_url: The base URL of the API.
        dimensions: The length of vectors, for models that support a choice.
        batch_size: The largest number of texts in one request.
        limits: Bounds on times, sizes and connections.
        proxy: A proxy's address; ``""`` for none, None for the one in the environment variables.
        ca: A file or folder of certificate authorities to trust, or your own SSLContext.
        client: An ``httpx.AsyncClient`` of yours, whose time limits, proxies and certificates then apply.

    Raises:
        ConfigurationError: a setting has a wrong value; no such provider, no model, no key, or the provider has no
            OpenAI-compatible embeddings.
        MissingExtra: the HTTP package is not installed.
    """
    name, _, model = spec.partition(":")
    dialect = dialect_of(name)
    if dialect.wire == "anthropic":
        raise ConfigurationError(f"{name} has no embeddings; choose openai, mistral, ollama, vllm or the like")
    if not model.strip():
        raise ConfigurationError(
            f"an embedder is 'provider:model', as in 'openai:text-embedding-3-small'; got {spec!r}"
        )
    dialect = msgspec.structs.replace(dialect, path="/embeddings")
    endpoint = endpoint_of(dialect, model, key, base_url, None, limits, proxy, ca, client)
    return HttpEmbedder(model, endpoint, dimensions, batch_size)


class HttpEmbedder:
    """Requests vectors from an endpoint, one batch after another; it does not retry. Made by `http_embedder`."""

    def __init__(self, model: str, endpoint: Endpoint, dimensions: int | None, batch_size: int) -> None:
        self.model = model
        self._endpoint = endpoint
        self._dimensions = dimensions
        self._batch_size = batch_size

    def __repr__(self) -> str:
        return f"http_embedder({self._endpoint.name!r})"

    async def __call__(self, request: EmbedRequest, ctx: Context, /) -> Embeddings:
        vectors: list[bytes] = []
        usage = Usage()
        for start in range(0, len(request.texts), self._batch_size):
            texts = request.texts[start : start + self._batch_size]
            body: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "base64"}
            if self._dimensions is not None:
                body["dimensions"] = self._dimensions
            answer = await self._endpoint.call(msgspec.json.encode(body), ctx, self._read)
            vectors += _ordered(answer, len(texts), self._endpoint.dialect.name)
            figure = answer.usage.get("prompt_tokens") if isinstance(answer.usage, dict) else None
            used = Usage(stated.count(figure), 0, requests=1)
            if used.input is None:
                used = Usage(sum(map(len, texts)) // 4, 0, requests=1, estimated=True)
            usage += used
        return Embeddings(tuple(vectors), self._endpoint.name, usage)

    async def _read(self, reply: HttpReply) -> _Answer:
        try:
            return stated.read(_answer, await reply.read())
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            name = self._endpoint.dialect.name
            raise ModelError(f"{name} returned no embeddings: {error}", kind="malformed") from None

    async def close(self) -> None:
        await self._endpoint.transport.close()


def _ordered(answer: _Answer, count: int, name: str) -> list[bytes]:
    by_index = {each.index: _packed(each.embedding, name) for each in answer.data}
    sizes = {len(vector) for vector in by_index.values()}
    if sorted(by_index) != list(range(count)) or len(answer.data) != count or len(sizes) > 1:
        raise ModelError(
            f"{name} answered {len(answer.data)} vectors of {len(sizes)} lengths for {count} texts", kind="malformed"
        )
    return [by_index[place] for place in range(count)]


def _packed(embedding: str | list[float], name: str) -> bytes:
    """Return a vector as bytes; servers without base64 support send a list."""
    if isinstance(embedding, list):
        return pack(embedding)
    try:
        data = base64.b64decode(embedding, validate=True)
    except ValueError:
        data = b""
    if not data or len(data) % 4:
        raise ModelError(f"{name} returned a vector that is not 32-bit floats in base64", kind="malformed")
    return data


@checked
def resolve_embedder(spec: str | Embedder) -> Embedder:
    """Return the embedder with a name, ``"local"`` or ``"provider:model"``; a service is returned as it is.

    ``"local"`` is the sentence model of the extra ``local``; ``"openai:text-embedding-3-small"`` a provider's.

    Raises:
        ConfigurationError: there is no embedder with this name, or it is neither a name nor a service.
        MissingExtra: the provider needs a package that is not installed.
    """
    if not isinstance(spec, str):
        return spec
    if spec == "local":
        from ziggurat.models.local.minilm import MiniLm

        return MiniLm()
    return http_embedder(spec)
