"""Embedding requests and vectors."""

import sys
from array import array
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Service
from ziggurat.messages.usage import Usage


class EmbedRequest(Struct, frozen=True):
    """A request to embed texts as vectors.

    Attributes:
        texts: The texts; the vectors come in the same order.
        purpose: The use of the vectors, for embedders that treat queries and documents differently.
    """

    texts: tuple[str, ...]
    purpose: Literal["document", "query"] = "document"


class Embeddings(Struct, frozen=True):
    """Vectors for texts.

    Attributes:
        vectors: One for each text, in order: 32-bit floats, least significant byte first, all of one length.
        model: The model that made them; vectors of different models cannot be compared.
        usage: The usage of the call.
    """

    vectors: tuple[bytes, ...]
    model: str = ""
    usage: Usage = Usage()

    def spent_by(self, name: str) -> "Embeddings":
        """Return them with their usage as that of the model of this name, unless it says whose it is."""
        return replace(self, usage=self.usage.spent_by(name))


Embedder = Service[EmbedRequest, Embeddings]
"""A service that turns texts into vectors; texts with similar meanings get similar vectors."""


def pack(vector: Iterable[float]) -> bytes:
    """Encode a vector as 32-bit floats, least significant byte first.

    >>> len(pack([0.5, 1.0, 2.0]))
    12
    """
    return _little(array("f", vector)).tobytes()


def unpack(embedding: bytes) -> "array[float]":
    """Decode a vector that `pack` wrote."""
    if len(embedding) % 4:
        raise ConfigurationError(f"an embedding is 32-bit floats, got {len(embedding)} bytes; write it with pack()")
    vector = array("f")
    vector.frombytes(embedding)
    return _little(vector)


def _little(vector: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        vector.byteswap()
    return vector
