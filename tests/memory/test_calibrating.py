"""Bounds of relevance, from what an embedder makes of questions and facts that have nothing to do with any test."""

import asyncio
import math

import pytest
from hypothesis import given, settings, strategies as st

from tests.samples import amount
from ziggurat import Context
from ziggurat.memory import calibrate
from ziggurat.memory.calibrating import BOUNDS, PAIRS
from ziggurat.memory.record import pack
from ziggurat.messages.embedding import Embedder
from ziggurat.models import Embeddings, EmbedRequest, resolve_embedder


@pytest.mark.local
async def test_the_default_bounds_are_those_of_the_embedded_model() -> None:
    assert await calibrate(resolve_embedder("local")) == BOUNDS


def embedder_of(base: float, near: float) -> Embedder:
    """Return an embedder with a cosine of `base` between unrelated texts, and `near` between related ones."""
    places = {text: place for place, pair in enumerate(PAIRS) for text in pair}
    size = len(PAIRS)

    async def embed(request: EmbedRequest, ctx: Context) -> Embeddings:
        return Embeddings(tuple(vector(text, request.purpose) for text in request.texts), "made")

    def vector(text: str, purpose: str) -> bytes:
        common, own = math.sqrt(base), math.sqrt(near - base)
        parts = [0.0] * (1 + 3 * size)
        place = places[text]
        parts[0], parts[1 + place] = common, own
        parts[1 + size * (1 if purpose == "query" else 2) + place] = math.sqrt(1 - near)
        return pack(parts)

    return embed


@settings(max_examples=amount(25, 200))
@given(st.floats(0.0, 0.8), st.floats(0.02, 0.19))
def test_the_bounds_follow_the_embedder(base: float, more: float) -> None:
    """However similar all texts are to an embedder, the bounds lie above the unrelated and not above the related."""
    found = asyncio.run(calibrate(embedder_of(base, base + more)))
    assert base - 0.01 <= found.certain <= base + more + 0.01
    assert found.floor <= base + more + 0.01


@pytest.mark.local
async def test_the_more_memories_are_compared_the_better_one_must_be_to_be_certain() -> None:
    embedder = resolve_embedder("local")

    found = [await calibrate(embedder, memories=many) for many in (1, 10, 100)]
    assert len({bounds.floor for bounds in found}) == 1
    assert found[0].certain < found[1].certain < found[2].certain


def test_no_text_is_used_twice() -> None:
    texts = [text for pair in PAIRS for text in pair]
    assert len(set(texts)) == len(texts) == 80
