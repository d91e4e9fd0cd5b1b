"""Embedders over HTTP: OpenAI's ``/embeddings`` and compatible servers."""

import base64
import ssl
from typing import Any

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.core.settings import PositiveInt, SecretText, checked
from ziggurat.http.client import Transport
from ziggurat.http.limits import Limits
from ziggurat.http.route import is_loopback
from ziggurat.messages.embedding import Embeddings, EmbedRequest, pack
from ziggurat.messages.usage import Usage
from ziggurat.models.http import stated
from ziggurat.models.http.dialect import Dialect, dialect_of, headers_of, path_of, secrets_in
from ziggurat.models.http.providers import base_of, key_of, transport_of
from ziggurat.models.real import require_real_calls_allowed


class _Vector(msgspec.Struct):
    index: int
    embedding: str | list[float]


class _Answer(msgspec.Struct):
    data: list[_Vector]
    model: str = ""
    usage: Any = None


_answer = msgspec.json.Decoder(_Answer)


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
        proxy: A proxy's address; see `Provider`.
        ca: Certificate authorities to trust; see `Provider`.
        client: An ``httpx.AsyncClient`` of yours; see `Provider`.

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
    dialect = msgspec.structs.replace(dialect, base_url=base_of(dialect, base_url), path="/embeddings")
    if key is None:
        key = key_of(dialect, needed=dialect.key_needed and base_url is None)
    transport = transport_of(dialect, limits, proxy, ca, client)
    return HttpEmbedder(
        model, dialect=dialect, transport=transport, key=key, dimensions=dimensions, batch_size=batch_size
    )


class HttpEmbedder:
    """Requests vectors from an endpoint, one batch after another; it does not retry. Made by `http_embedder`."""

    @checked
    def __init__(
        self,
        model: str,
        *,
        dialect: Dialect,
        transport: Transport,
        key: SecretText = "",
        dimensions: PositiveInt | None = None,
        batch_size: PositiveInt = 128,
    ) -> None:
        self.model = model
        self.dialect = dialect
        self.dimensions = dimensions
        self.batch_size = batch_size
        self._transport = transport
        self._path = path_of(dialect)
        self._headers = headers_of(dialect, key)
        self._secrets = (key, *secrets_in(dialect.headers.items(), self._path))
        self._loopback = is_loopback(dialect.base_url.split("://", 1)[-1].split("/")[0].split(":")[0])

    def __repr__(self) -> str:
        return f"http_embedder('{self.dialect.name}:{self.model}')"

    async def __call__(self, request: EmbedRequest, ctx: Context, /) -> Embeddings:
        """Return the vectors of texts; an error is a ModelError, whose `kind` says how the request failed."""
        if not self._loopback:
            require_real_calls_allowed(f"{self.dialect.name}:{self.model}")
        vectors: list[bytes] = []
        usage = Usage()
        for start in range(0, len(request.texts), self.batch_size):
            texts = request.texts[start : start + self.batch_size]
            try:
                answer = await self._post(texts, ctx)
            except ModelError as error:
                from ziggurat.models.http.failures import mask_error

                mask_error(error, self._secrets)
                raise
            vectors += _ordered(answer, len(texts), self.dialect.name)
            figure = answer.usage.get("prompt_tokens") if isinstance(answer.usage, dict) else None
            used = Usage(stated.count(figure), 0, requests=1)
            if used.input is None:
                used = Usage(sum(map(len, texts)) // 4, 0, requests=1, estimated=True)
            usage += used
        return Embeddings(tuple(vectors), f"{self.dialect.name}:{self.model}", usage)

    async def _post(self, texts: tuple[str, ...], ctx: Context) -> _Answer:
        body: dict[str, Any] = {"model": self.model, "input": texts, "encoding_format": "base64"}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        reply = await self._transport.send(
            "POST", self._path, self._headers, msgspec.json.encode(body), ctx, stream=False
        )
        whole = False
        try:
            data = await reply.read()
            whole = True
        finally:
            await reply.end(whole=whole)
        if not 200 <= reply.status < 300:
            from ziggurat.models.http.failures import failure

            raise failure(reply.status, reply.headers, data, self.dialect, now=ctx.clock.now())
        try:
            return stated.read(_answer, data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ModelError(f"{self.dialect.name} returned no embeddings: {error}", kind="malformed") from None

    async def close(self) -> None:
        """Close the connections of the running loop; they are closed with the loop anyway."""
        await self._transport.close()


def _ordered(answer: _Answer, count: int, name: str) -> list[bytes]:
    """Return the vectors in the order of the texts, whatever their order in the answer."""
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
