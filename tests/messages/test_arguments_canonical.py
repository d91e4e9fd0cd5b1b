"""The canonical form of arguments: one text per meaning, and no invisible characters."""

import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from ziggurat.errors import InvalidArguments
from ziggurat.messages.arguments import canonical

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_it_means_the_same_and_is_written_in_one_way(value: dict[str, object]) -> None:
    written = json.dumps(value, indent=2)
    text = canonical(written)
    assert json.loads(text) == value
    assert msgspec.json.decode(text) == msgspec.json.decode(written)
    assert canonical(text) == text
    assert canonical(json.dumps(dict(reversed(value.items())), ensure_ascii=False)) == text


@pytest.mark.parametrize(
    "character",
    [
        *"\u202e\u2066\u200b\u200d\ufeff\u00ad\u00a0\u3000\u2028\u2800\u3164\u034f\ufe0f\x7f\x85",
        "\U000e0041",
        "\U000e0100",
        "\ue000",
    ],
)
def test_what_an_eye_would_miss_is_written_out(character: str) -> None:
    text = canonical(json.dumps({"to": f"a{character}b"}, ensure_ascii=False))
    assert character not in text
    assert "\\u" in text
    assert msgspec.json.decode(text) == {"to": f"a{character}b"}


def test_letters_stay_and_split_accents_show() -> None:
    for word in ("böb", "日本", "привет", "שלום", "مرحبا", "😀"):
        assert canonical(json.dumps({"to": word})) == f'{{"to":"{word}"}}'
    assert canonical('{"to":"bo\u0308b"}') == '{"to":"bo\\u0308b"}'


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ('{"to": "a", "to": "b"}', "to: given more than once"),
        ('{"x": {"to": 1, "\\u0074o": 2}}', "to: given more than once"), ('{"amount": NaN}', "not a number"),
        ('{"amount": -Infinity}', "not a number"), ('{"amount": 1e400}', "too large"),
        ('{"amount": 1e-400}', "too small"), ('{"amount": 1e-99999999999999999999}', "not a plain JSON object"),
        ('{"amount": 0.12345678901234567891}', "too many digits"), ('{"amount": ' + "9" * 5000 + "}", "limit"),
        ('{"to": "\\ud800"}', "surrogates"), ("[1]", "not an object"), ("{", "not a plain JSON object"),
        ('{"a":' * 100_000, "not a plain JSON object"),
    ],
)  # fmt: skip
def test_what_can_be_read_in_two_ways_is_refused(arguments: str, why: str) -> None:
    with pytest.raises(InvalidArguments, match=why):
        canonical(arguments, "pay")


def test_nothing_is_an_empty_object() -> None:
    assert canonical("") == "{}"
