import math
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import pydantic
import pytest
from hypothesis import given, strategies as st

from tests.journal.calls import Answer
from ziggurat import Timeout
from ziggurat.core.codec import Raw, as_type, canonical, decode, digest, encode, error_to_json
from ziggurat.core.errors import ForeignError, described, text_of
from ziggurat.errors import InvalidArguments, JournalCorrupt, LimitExceeded

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


class Pair:
    """Not plain data, but it defines how it is written and read."""

    def __init__(self, left: int, right: int) -> None:
        self.left, self.right = left, right

    def to_json(self) -> object:
        return [self.left, self.right]

    @classmethod
    def from_json(cls, value: list[int]) -> "Pair":
        return cls(*value)


class Holder(msgspec.Struct, frozen=True):
    pair: Pair
    anything: object = None


class City(pydantic.BaseModel):
    name: str
    people: int = 0


@dataclass
class Place:
    title: str


@given(json_values)
def test_json_values_come_back(value: object) -> None:
    assert decode(encode(value), object) == value
    assert decode(encode([value]), list[object]) == [value]
    assert decode(encode({"x": value}), dict[str, object]) == {"x": value}


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_digests_are_blind_to_the_order_of_keys(value: dict[str, object]) -> None:
    turned = dict(reversed(value.items()))
    assert digest(turned) == digest(value)
    assert digest([value]) != digest(value)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_keys_that_are_not_counted_are_sorted_all_the_same(value: dict[str, object]) -> None:
    turned = dict(reversed(value.items()))
    assert canonical(turned, True) == canonical(value, True) == canonical(value)


@given(json_values, json_values)
def test_digests_differ_as_values_do(one: object, other: object) -> None:
    assert (digest(one) == digest(other)) == (encode_sorted(one) == encode_sorted(other))


def encode_sorted(value: object) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def test_a_digest_is_128_bits_of_text() -> None:
    assert len(digest("x")) == 32
    assert digest("x") == digest("x")


def test_classes_with_hooks_models_of_pydantic_and_dataclasses_come_back() -> None:
    holder = decode(encode(Holder(Pair(1, 2), {"a": [1]})), Holder)
    assert (holder.pair.left, holder.pair.right) == (1, 2)
    assert holder.anything == {"a": [1]}
    assert decode(encode(City(name="Ur", people=3)), City) == City(name="Ur", people=3)
    assert decode(encode(Place("Ur")), Place) == Place("Ur")
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    assert decode(encode(moment), datetime) == moment


def test_what_has_no_form_says_so() -> None:
    with pytest.raises(TypeError, match="Lock cannot be written as JSON"):
        encode({"x": type("Lock", (), {})()})
    with pytest.raises(TypeError, match="Lock cannot be written as JSON"):
        digest({"x": type("Lock", (), {})()})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nested"):
        encode({"x": endless})
    with pytest.raises(TypeError, match="nested"):
        digest({"x": endless})


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"", int), (b"{", dict[str, object]), (b'"x"', int), (b'"\xff"', str), (b"[" * 100_000, list[object]),
        (b'{"name": 1}', City), (b"[1]", Pair), (b"{}", Holder), (b"{}", Exception),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_corrupt(data: bytes, kind: type[object]) -> None:
    with pytest.raises(JournalCorrupt, match="cannot read a"):
        decode(data, kind)


def test_a_value_kept_by_reference_is_itself_and_a_written_one_is_read() -> None:
    pair = Pair(1, 2)
    assert as_type(pair, Pair) is pair
    assert as_type(Raw(b"[3,4]"), Pair).right == 4


def test_errors_are_coded_by_kind_with_their_plain_facts() -> None:
    assert error_to_json(LimitExceeded("tokens", 10, 12)) == {
        "type": "LimitExceeded",
        "kind": "LimitExceeded",
        "message": "the tokens limit of 10 is reached (12 used)",
        "facts": {"kind": "tokens", "limit": 10, "used": 12},
        "transient": False,
    }
    assert error_to_json(Timeout("late"))["facts"] == {"seconds": None}
    assert error_to_json(InvalidArguments("no"))["transient"] is False
    assert error_to_json(ConnectionResetError("gone"))["transient"] is True
    coded = {"type": "ValueError", "kind": "ValueError", "message": "no", "transient": False}
    assert error_to_json(ValueError("no")) == coded
    assert error_to_json(ForeignError("HttpError", "500"))["type"] == "HttpError"


def test_an_error_whose_text_fails_is_coded_all_the_same() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert error_to_json(Mute())["message"] == "(its text cannot be shown)"


@pytest.mark.parametrize("raised", [RuntimeError("no"), SystemExit(3), KeyboardInterrupt()])
def test_an_error_whose_text_would_end_the_program_is_described(raised: BaseException) -> None:
    class Deadly(Exception):
        def __str__(self) -> str:
            raise raised

    assert text_of(Deadly()) == "(its text cannot be shown)"
    assert described(Deadly()) == "Deadly: (its text cannot be shown)"
    assert error_to_json(Deadly())["message"] == "(its text cannot be shown)"


def test_a_number_that_json_does_not_know_becomes_null() -> None:
    assert encode(math.nan) == b"null"


@given(st.text(st.characters(), max_size=5))
def test_halves_of_characters_are_written_as_question_marks(text: str) -> None:
    value = {text: [text, Answer(text)]}
    whole = text.encode("utf-8", "replace").decode()
    assert encode(value) == encode({whole: [whole, Answer(whole)]})
    assert digest(value) == digest({whole: [whole, Answer(whole)]})
