"""A store, a manual clock and sequential ids for tests of memory."""

from collections import defaultdict
from itertools import count

from ziggurat import Context
from ziggurat.core import CLOCK, root
from ziggurat.core.context import IDS
from ziggurat.messages.model import Embedder, Embeddings, EmbedRequest, pack
from ziggurat.testing import HandClock

HOUR, DAY = 3600.0, 86400.0


def context(clock: HandClock) -> Context:
    numbers = count(1)
    return root("test").within(CLOCK, clock).within(IDS, lambda: f"m{next(numbers)}")


def embedder_of(**vectors: tuple[float, ...]) -> Embedder:
    """Return an embedder with the vectors of texts by their first words; those of all others are alike."""
    known = defaultdict(lambda: (1.0, 0.0), vectors)

    async def embedder(request: EmbedRequest, ctx: Context) -> Embeddings:
        return Embeddings(tuple(pack(known[text.partition(" ")[0]]) for text in request.texts))

    return embedder
