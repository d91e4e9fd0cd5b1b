"""Embedding requests and vectors."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

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
