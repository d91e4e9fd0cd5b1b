"""Every prefix of a JSON text gives a value that grows into the whole value."""

import json

import pytest
from hypothesis import given, strategies as st
from pydantic_core import from_json

from tests.messages.strategies import json_values
from ziggurat.agents.partial import partial
from ziggurat.core.codec import MAX_DEPTH
from ziggurat.errors import InvalidArguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("  ", None), ("{", {}), ('{"ci', {}), ('{"city"', {}), ('{"city":', {}),
        ('{"city": "Par', {"city": "Par"}), ('{"city": "Paris", "da', {"city": "Paris"}), ('{"a": tr', {}),
        ('{"a": true', {"a": True}), ('{"a": 12', {"a": 12}), ('{"a": 12.', {}), ("[1, -", [1]), ("[1e5", [1e5]),
        ('["\\u00e9\\u00', ["é"]), ('["\\ud83d\\ude00 \\ud83d', ["😀 "]), ('[[1], [2, {"x":', [[1], [2, {}]]),
        ("-Inf", None), ("nul", None), ("[1] and more", [1]), ('["a\ud83d', ["a?"]),
    ],
)  # fmt: skip
def test_a_beginning_is_closed_where_it_stands(text: str, value: object) -> None:
    assert partial(text) == value


@pytest.mark.parametrize(
    "text",
    ["SELECT", "{1", "{,", "[,", "[1,]", '{"a":1,}', '{"a" 1', "[01", "[.5", "[+1", '["a\nb', '["\\x', '["\\udc00"]',
     '["\\ud83dx', '["\\uzzzz', "[tx", "\ufeff[1", "1.x", "[" + "1" * 5000 + "]"],
)  # fmt: skip
def test_what_is_no_beginning_of_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments, match="not the beginning of JSON"):
        partial(text)


def test_depth_is_bounded() -> None:
    deep = MAX_DEPTH + 1
    value = partial("[" * deep)
    for _ in range(deep - 1):
        (value,) = value  # type: ignore[misc]
    assert value == []
    with pytest.raises(InvalidArguments, match="recursion limit"):
        partial("[" * (deep + 1))


@given(json_values, st.booleans())
def test_a_whole_text_is_read_as_json(value: object, ascii_only: bool) -> None:
    assert partial(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(json_values, st.booleans(), st.sampled_from([None, 1]))
def test_every_beginning_grows_into_the_whole(value: object, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    for end in range(len(text) + 1):
        assert grows_into(partial(text[:end]), value), text[:end]


def grows_into(early: object, late: object) -> bool:
    """Return whether a later value keeps all of an early one; numbers may grow."""
    if early is None:
        return True
    if isinstance(early, dict):
        return isinstance(late, dict) and all(key in late and grows_into(early[key], late[key]) for key in early)
    if isinstance(early, list):
        return isinstance(late, list) and len(early) <= len(late) and all(map(grows_into, early, late))
    if isinstance(early, str):
        return isinstance(late, str) and late.startswith(early)
    if isinstance(early, bool):
        return early is late
    return isinstance(late, (int, float)) and not isinstance(late, bool)


alphabet = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", '"', "\\", "\\u", "d83d", "de00", "0", "12", ".", "e", "-", "+", "true", "nu", "NaN",
     "Infinity", "b", "\n", " ", "é", '"k":', '"v"', '{"a":['],
)  # fmt: skip


@given(st.lists(alphabet, max_size=12).map("".join))
def test_any_text_is_read_as_another_parser_reads_it(text: str) -> None:
    try:
        expected: object = from_json(text, allow_partial="trailing-strings")
    except ValueError as error:
        if "EOF while parsing" not in str(error):
            with pytest.raises(InvalidArguments):
                partial(text)
            return
        expected = None
    assert repr(partial(text)) == repr(expected)
