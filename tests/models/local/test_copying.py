"""Tests of values that are copied from a request."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.models.local.fakes import WordCounter
from ziggurat.models.local.schema import fields_of
from ziggurat.models.local.spans import Copied, Copier

EMBED = WordCounter().embed_now
S: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}
N: dict[str, Any] = {"type": "number"}


def _copy(request: str, properties: dict[str, Any], required: list[str] | None = None, purpose: str = "") -> Copied:
    schema = {"properties": properties, "required": list(properties) if required is None else required}
    return Copier(request, fields_of(schema), EMBED, purpose).copy()


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("Is it warm in New York?", S, "New York"), ("We are 5", WHOLE, 5), ("Take 2.5 of it", N, 2.5),
        ("Take 2.5 of it", WHOLE, None), ("Rate it with 9", {**WHOLE, "maximum": 5}, None),
        ("Rate it with 4", {**WHOLE, "minimum": 1, "maximum": 5}, 4), ("twelve of them", WHOLE, 12),
        ("on 2027-03-14, please", {**S, "format": "date"}, "2027-03-14"),
        ("tomorrow, please", {**S, "format": "date"}, None),
        ("write to a.b@c.example.", {**S, "format": "email"}, "a.b@c.example"),
        ("is https://a.example/x?y up?", {**S, "format": "uri"}, "https://a.example/x?y"),
        ("What is 12 times 7?", {**S, "description": "Arithmetic expression."}, "12 * 7"),
        ("What is the sky?", {**S, "description": "Arithmetic expression."}, None),
        ("Take the bus, no, the night train", {"enum": ["bus", "night_train"]}, "night_train"),
        ("Nothing of that", {"enum": ["bus", "tram"]}, None), ("Let them in", {"type": "boolean"}, None),
        ("Add 3, 4.5 and 7", {"type": "array", "items": N}, None),
        ("Make one", {"type": "object"}, None), ("", S, None),
    ],
)  # fmt: skip
def test_a_value_is_copied_or_missing(text: str, schema: dict[str, Any], value: Any) -> None:
    copied = _copy(text, {"x": schema})
    assert copied == (Copied({}, ("x",)) if value is None else Copied({"x": value}, ()))


def test_what_the_request_states_is_copied_once() -> None:
    properties = {"city": S, "days": WHOLE, "unit": {"enum": ["c", "f"]}, "note": S, "wet": {"type": "boolean"}}
    assert _copy("Rain in Oslo?", properties, ["city"]).values == {"city": "Oslo"}
    assert _copy("Oslo for 3 days in f", properties, ["city"]).values == {"city": "Oslo", "days": 3, "unit": "f"}
    assert _copy("Give 7", {"first": WHOLE, "second": WHOLE}, ["second"]).values == {"second": 7}
    copied = _copy("Tell Maria hello", {"to": S, "about": S, "more": S})
    assert len(set(copied.values.values())) == len(copied.values)
    assert _copy("Maria", {"to": S, "about": S}).missing != ()
    properties = {"person": S, "age": WHOLE, "unit": {"enum": ["c", "f"]}, "wet": {"type": "boolean"}}
    fields = fields_of({"properties": properties, "required": list(properties)})
    found = Copier("Tell Maria that 7 is the age, in f", fields, EMBED).recognised()
    assert found == Copied({"age": 7, "unit": "f"}, ("person", "wet"))
    assert _copy("water the rose bed", {"which": S}, purpose="Water a bed.").values == {"which": "rose"}


_FIELDS = st.sampled_from([S, WHOLE, N, {"type": "array", "items": S}, {"enum": ["a", "b c"]}, {**S, "format": "date"}])


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["a", "b", "c", "1", "2.5", ",", "and", "Ann", "Lee"])).map(" ".join),
    st.lists(_FIELDS, max_size=4),
)
def test_texts_and_numbers_are_in_the_request(text: str, schemas: list[dict[str, Any]]) -> None:
    properties = {f"x{number}": schema for number, schema in enumerate(schemas)}
    copied = _copy(text, properties)
    assert set(copied.values) | set(copied.missing) == set(properties)
    assert not set(copied.values) & set(copied.missing)
    for name, value in copied.values.items():
        if properties[name] == S:
            assert value in text


def test_a_long_request_and_many_fields_take_bounded_work() -> None:
    calls = 0

    def embed(texts: Any) -> Any:
        nonlocal calls
        calls += len(texts)
        return EMBED(texts)

    properties = {f"x{number}": (S, WHOLE)[number % 2] for number in range(10)}
    fields = fields_of({"properties": properties, "required": list(properties)})
    Copier("word 7, " * 120, fields, embed).copy()
    assert calls < 10 * 60
