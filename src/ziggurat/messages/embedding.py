"""Embedding requests and vectors."""

__all__ = ["EmbedRequest", "Embedder", "Embeddings"]

from typing import Literal

from msgspec import Struct

from ziggurat.core.service import Service
from ziggurat.messages.usage import Usage


class EmbedRequest(Struct, frozen=True):
    """Texts that are to become vectors.

    Attributes:
        texts: In the order in which the vectors are wanted.
        purpose: What the vectors are for, for embedders that tell a question from what may answer it.
    """

    texts: tuple[str, ...]
    purpose: Literal["document", "query"] = "document"


class Embeddings(Struct, frozen=True):
    """Vectors for texts.

    Attributes:
        vectors: One for each text, in order: 32-bit floats, least significant byte first, all of one length.
        model: Whose vectors they are; those of different models cannot be compared.
        usage: What it took.
    """

    vectors: tuple[bytes, ...]
    model: str = ""
    usage: Usage = Usage()


Embedder = Service[EmbedRequest, Embeddings]
"""Turns texts into vectors that are near each other where the texts mean the same."""
