"""Embedders by name, and with a cache of vectors."""

from collections import OrderedDict

from ziggurat.core.context import Context
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.messages.model import Embedder, Embeddings, EmbedRequest


class _Cached:
    def __init__(self, embedder: Embedder, size: int) -> None:
        self._embedder = embedder
        self._size = size
        self._kept: OrderedDict[tuple[str, str], bytes] = OrderedDict()
        self._model = ""

    async def __call__(self, request: EmbedRequest, ctx: Context, /) -> Embeddings:
        """Embed the texts that are not in the cache, each once."""
        known = {text: vector for text in request.texts if (vector := self._recalled(request.purpose, text))}
        missing = tuple(dict.fromkeys(text for text in request.texts if text not in known))
        answer = Embeddings((), self._model)
        if missing:
            answer = await self._embedder(EmbedRequest(missing, request.purpose), ctx)
            self._model = answer.model
            for text, vector in zip(missing, answer.vectors, strict=True):
                known[text] = self._kept[request.purpose, text] = vector
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return Embeddings(tuple(known[text] for text in request.texts), self._model, answer.usage)

    def _recalled(self, purpose: str, text: str) -> bytes | None:
        vector = self._kept.get((purpose, text))
        if vector is not None:
            self._kept.move_to_end((purpose, text))
        return vector

    def __repr__(self) -> str:
        return f"cached({self._embedder!r}, size={self._size})"


@checked
def cached(embedder: Embedder, *, size: PositiveInt = 10_000) -> Embedder:
    """Cache the vectors of recently used texts, so that only new ones are embedded.

    ::

        embedder = cached(http_embedder("openai:text-embedding-3-small"))

    Args:
        embedder: The embedder to cache.
        size: How many texts are kept; the least recently used are dropped first.

    Raises:
        ConfigurationError: the size is below 1.
    """
    return _Cached(embedder, size)


@checked
def resolve_embedder(spec: str | Embedder) -> Embedder:
    """Return an embedder: a service unchanged, or the embedder named ``"local"`` or ``"provider:model"``.

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
    from ziggurat.models.embed.endpoint import http_embedder

    return http_embedder(spec)
