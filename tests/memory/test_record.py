"""Tests of memory records."""

import pytest

from ziggurat import ConfigurationError
from ziggurat.core.codec import decode, encode
from ziggurat.memory import MemoryRecord
from ziggurat.messages.model import pack, unpack


def test_a_record_is_written_and_read_whole() -> None:
    record = MemoryRecord(
        id="a", owner="ann", content="Tea is hot.", embedding=pack([1, -2.5]), tags=("tea",), taint=("search",),
        facts={"key": "tea", "sources": ["x"]},
    )  # fmt: skip
    assert decode(encode(record), MemoryRecord) == record


@pytest.mark.parametrize("importance", [-0.1, 1.1, float("nan"), float("inf")])
def test_importance_is_between_0_and_1(importance: float) -> None:
    with pytest.raises(ConfigurationError, match="importance"):
        MemoryRecord(id="a", owner="ann", content="x", importance=importance)


def test_vectors_are_little_endian_floats() -> None:
    assert pack([1.0]) == b"\x00\x00\x80\x3f"
    assert list(unpack(pack([0.5, -1.0]))) == [0.5, -1.0]
    with pytest.raises(ConfigurationError, match="got 5 bytes"):
        unpack(b"12345")
