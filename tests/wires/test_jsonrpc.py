"""Messages of JSON-RPC, read and written."""

import json

import pytest
from hypothesis import given, strategies as st
from msgspec import Struct

from ziggurat.wires.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorObject,
    Failure,
    JsonRpcError,
    Message,
    Notification,
    Request,
    Success,
    parse,
    read,
    write,
)

ids = st.text(max_size=5) | st.integers(-(2**62), 2**62)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, values, max_size=3)
messages = (
    st.builds(Request, ids, texts, objects)
    | st.builds(Notification, texts, objects)
    | st.builds(Success, ids, values)
    | st.builds(Failure, st.none() | ids, st.builds(ErrorObject, st.integers(-40_000, 0), texts, objects))
)


@given(messages)
def test_a_message_written_and_read_is_the_same(message: Message) -> None:
    written = write(message)
    assert b"\n" not in written
    assert json.loads(written)["jsonrpc"] == "2.0"
    got = read(written)
    assert type(got) is type(message)
    assert write(got) == written


def test_what_is_absent_is_not_written() -> None:
    assert json.loads(write(Request(1, "ping"))) == {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert json.loads(write(Notification("gone"))) == {"jsonrpc": "2.0", "method": "gone"}
    assert json.loads(write(JsonRpcError("no", -1).answer(3)))["error"] == {"code": -1, "message": "no"}
    got = read(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert isinstance(got, Request)
    assert parse(got.params, dict[str, int]) == {}


@pytest.mark.parametrize(
    ("data", "code", "request_id"),
    [
        (b"", PARSE_ERROR, None),
        (b"{", PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"method":"x"} {}', PARSE_ERROR, None),
        (b"\xff", PARSE_ERROR, None),
        (b'{"jsonrpc":"2.0","id":1,"params":' + b"[" * 100_000, PARSE_ERROR, None),
        (b"[]", INVALID_REQUEST, None),
        (b"{}", INVALID_REQUEST, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"x"}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"x"}', INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":"a","method":5}', INVALID_REQUEST, "a"),
        (b'{"jsonrpc":"2.0","id":7,"method":"x","result":1}', INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"result":1,"error":{"code":1,"message":""}}', INVALID_REQUEST, 7),
    ],
)
def test_what_is_no_message_is_refused_with_its_code_and_id(data: bytes, code: int, request_id: object) -> None:
    with pytest.raises(JsonRpcError) as refused:
        read(data)
    assert (refused.value.code, refused.value.request_id) == (code, request_id)


def test_an_error_that_is_null_is_none() -> None:
    assert isinstance(read(b'{"jsonrpc":"2.0","id":1,"result":null,"error":null}'), Success)
    assert isinstance(read(b'{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1}}'), Failure)


def test_an_error_goes_to_the_other_side_and_back() -> None:
    got = read(write(JsonRpcError("no", -5, {"a": 1}).answer("x")))
    assert isinstance(got, Failure)
    error = got.exception()
    assert (str(error), error.code, error.data, error.request_id) == ("no", -5, {"a": 1}, "x")


class Size(Struct):
    width: int


def test_params_are_read_as_a_type() -> None:
    got = read(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"width":3,"more":[]}}')
    assert isinstance(got, Request)
    assert parse(got.params, Size) == Size(3)
    with pytest.raises(JsonRpcError) as refused:
        parse(got.params, dict[str, int])
    assert refused.value.code == INVALID_PARAMS
