"""The default bounds of relevance, from questions and facts that have nothing to do with any test."""

import pytest

from tests.memory.calibrating import PAIRS, calibrate
from ziggurat.memory import Bounds
from ziggurat.models import resolve_embedder


@pytest.mark.local
async def test_the_default_bounds_are_those_of_the_embedded_model() -> None:
    assert await calibrate(resolve_embedder("local")) == Bounds()


def test_no_text_is_used_twice() -> None:
    texts = [text for pair in PAIRS for text in pair]
    assert len(set(texts)) == len(texts) == 80
