"""MiniLm: the embedded sentence model as an embedder."""

import sys
from array import array

from ziggurat.core.context import Context
from ziggurat.core.settings import checked
from ziggurat.messages.embedding import Embeddings, EmbedRequest
from ziggurat.messages.usage import Usage
from ziggurat.models.local.minilm import Embedder, shared_embedder


class MiniLm:
    """Runs all-MiniLM-L6-v2 on the CPU: 384 dimensions, no key and no network; a few milliseconds per sentence.

    ::

        embeddings = await MiniLm()(EmbedRequest(("a cat", "a kitten")), ctx)

    Args:
        embedder: The model; by default the one shared in this process.
    """

    @checked
    def __init__(self, embedder: Embedder | None = None) -> None:
        self._embedder = embedder or shared_embedder()

    async def __call__(self, request: EmbedRequest, ctx: Context, /) -> Embeddings:
        """Embed texts, in a thread.

        Raises:
            MissingExtra: the extra ``local`` is not installed.
        """
        vectors = await self._embedder.embed(request.texts)
        packed = tuple(_little(array("f", vector)) for vector in vectors)
        return Embeddings(packed, self._embedder.name, Usage(requests=1))

    def __repr__(self) -> str:
        return "MiniLm()"


def _little(vector: "array[float]") -> bytes:
    if sys.byteorder == "big":
        vector.byteswap()
    return vector.tobytes()
