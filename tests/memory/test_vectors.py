import random
import sys

import pytest

from tests.samples import amount, sample
from ziggurat import ConfigurationError
from ziggurat.errors import MissingExtra
from ziggurat.memory.vectors import VectorIndex, similarities
from ziggurat.messages.model import pack


def vectors(count: int, width: int, seed: int) -> list[bytes]:
    draw = random.Random(seed)
    return [pack([draw.gauss(0, 1) for _ in range(width)]) for _ in range(count)]


def truly(wanted: bytes, embeddings: list[bytes], count: int) -> list[int]:
    cosines = similarities(wanted, embeddings)
    return sorted(range(1, len(embeddings) + 1), key=lambda number: -cosines[number - 1])[:count]


def test_cosines() -> None:
    assert similarities(pack([3, 4]), [pack([3, 4]), pack([-4, 3]), pack([0, 0]), pack([-6, -8])]) == pytest.approx(
        [1.0, 0.0, 0.0, -1.0]
    )
    assert similarities(pack([1, 0]), []) == []


def test_few_are_found_exactly() -> None:
    kept, index = vectors(300, 12, 1), VectorIndex(48)
    index.add(list(range(1, 201)), kept[:200])
    index.add(list(range(201, 301)), kept[200:])
    assert len(index) == 300
    for wanted in vectors(10, 12, 2):
        assert index.nearest(wanted, 10) == truly(wanted, kept, 10)
    assert len(index.nearest(kept[0], 1000)) == 300
    assert index.nearest(pack([1.0]), 5) == []


@pytest.mark.parametrize("width", sample([20, 384], 1))
def test_codes_propose_what_is_near(width: int) -> None:
    kept, index = vectors(3000, width, 4), VectorIndex(width * 4, exact=1000)
    index.add(list(range(1, 901)), kept[:900])
    index.add(list(range(901, 3001)), kept[900:])
    assert len(index) == 3000
    wanted = vectors(amount(10, 30), width, 5)
    hits = sum(len(set(truly(each, kept, 10)) & set(index.nearest(each, 200))) for each in wanted)
    assert hits >= 0.98 * 10 * len(wanted)


@pytest.mark.parametrize("size", [0, 3, 10])
def test_sizes_that_no_vector_has(size: int) -> None:
    with pytest.raises(ConfigurationError, match="32-bit floats"):
        VectorIndex(size)


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    index = VectorIndex(64, exact=2)
    monkeypatch.setitem(sys.modules, "turbovec", None)
    index.add([1, 2], vectors(2, 16, 7))
    with pytest.raises(MissingExtra, match=r"ziggurat\[memory\]"):
        index.add([3], vectors(1, 16, 8))
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(MissingExtra, match=r"ziggurat\[memory\]"):
        VectorIndex(64)
