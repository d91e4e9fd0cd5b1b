"""Tool calls as servers stream them."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.models.openai.streams import DONE, call, chunk, said
from ziggurat import ToolCall

END = chunk({}, "tool_calls") + DONE
TWO = (ToolCall("a", "f", '{"x":1}'), ToolCall("b", "g", '{"y":2}'))


def streamed(*pieces: dict[str, Any]) -> tuple[object, ...]:
    return said("".join(chunk(call(**piece)) for piece in pieces) + END)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [
                {"index": 0, "id": "a", "name": "f", "arguments": ""},
                {"index": 1, "id": "b", "name": "g", "arguments": ""},
                {"index": 1, "arguments": '{"y":'},
                {"index": 0, "arguments": '{"x":'},
                {"index": 0, "arguments": "1}"},
                {"index": 1, "arguments": "2}"},
            ],
            id="interleaved",
        ),
        pytest.param(
            [
                {"id": "a", "name": "f", "arguments": '{"x":'},
                {"arguments": "1}"},
                {"id": "b", "name": "g", "arguments": '{"y":'},
                {"id": "b", "arguments": "2}"},
            ],
            id="no index",
        ),
        pytest.param(
            [
                {"id": "a", "name": "f", "arguments": '{"x":'},
                {"id": "b", "name": "g", "arguments": '{"y":'},
                {"id": "a", "arguments": "1}"},
                {"id": "b", "arguments": "2}"},
            ],
            id="no index, told apart by id",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "name": "f", "arguments": '{"x":1}'},
                {"index": 0, "id": "b", "name": "g", "arguments": '{"y":2}'},
            ],
            id="one index for all",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "name": "f", "arguments": '{"x":'},
                {"index": 0, "id": "a", "name": "f", "arguments": "1}"},
                {"index": 1, "id": "b", "name": "g", "arguments": '{"y":'},
                {"index": 1, "id": "b", "name": "g", "arguments": "2}"},
            ],
            id="repeated names and ids",
        ),
        pytest.param(
            [
                {"index": 0, "id": "a", "name": "f", "arguments": '{"x":'},
                {"index": 0, "id": "other", "name": None, "arguments": "1}"},
                {"index": 1, "id": "b", "name": "g", "arguments": ""},
                {"index": 1, "id": "more", "name": "", "arguments": '{"y":2}'},
            ],
            id="another id in each piece",
        ),
        pytest.param(
            [
                {"index": 1, "id": "a", "name": "f", "arguments": None},
                {"index": 1, "id": None, "arguments": {"x": 1}},
                {"index": 7, "id": "b", "name": "g", "arguments": {"y": 2}},
            ],
            id="objects, and odd indices",
        ),
    ],
)
def test_two_calls(pieces: list[dict[str, Any]]) -> None:
    assert streamed(*pieces) == TWO


def test_no_index_and_no_id() -> None:
    parts = streamed(
        {"name": "f", "arguments": '{"x":'},
        {"arguments": "1}"},
        {"name": "f", "arguments": '{"x":2}'},
        {"name": "g", "arguments": '{"y":'},
        {"name": "g", "arguments": "2}"},
    )
    assert parts == (ToolCall("", "f", '{"x":1}'), ToolCall("", "f", '{"x":2}'), ToolCall("", "g", '{"y":2}'))


def test_the_same_tool_twice_under_one_index_without_ids() -> None:
    parts = streamed(
        {"index": 0, "id": "", "name": "f", "arguments": '{"x":1}'},
        {"index": 0, "id": "", "name": "f", "arguments": '{"x":1}'},
    )
    assert parts == (ToolCall("", "f", '{"x":1}'),) * 2


def test_several_in_one_chunk_without_index() -> None:
    both = [{"id": each.id, "function": {"name": each.name, "arguments": each.arguments}} for each in TWO]
    assert said(chunk({"tool_calls": both}) + END) == TWO


def test_text_beside_calls_stays_one_text() -> None:
    text = chunk({"content": "one "}) + chunk(call(index=0, id="a", name="f", arguments="{}"))
    parts = said(text + chunk({"content": ""}) + END)
    assert [type(part).__name__ for part in parts] == ["Text", "ToolCall"]


made = st.lists(
    st.tuples(st.sampled_from("fg"), st.sampled_from(["{}", '{"x":1}', '{"x":"}{"}'])), min_size=1, max_size=4
)


@given(made, st.data(), st.booleans())
def test_any_cut_of_any_calls_with_an_index_or_an_id(
    calls: list[tuple[str, str]], data: st.DataObject, by_index: bool
) -> None:
    queues: list[list[dict[str, Any]]] = []
    for number, (name, arguments) in enumerate(calls):
        cut = data.draw(st.integers(0, len(arguments)))
        key: dict[str, Any] = {"index": number} if by_index else {"id": str(number)}
        first = {**key, "id": str(number), "name": name, "arguments": arguments[:cut]}
        queues.append([first, {**key, "arguments": arguments[cut:]}])
    order = data.draw(st.permutations([number for number in range(len(calls)) for _ in range(2)]))
    parts = streamed(*[queues[number].pop(0) for number in order])
    first_seen = list(dict.fromkeys(order))
    assert parts == tuple(ToolCall(str(number), *calls[number]) for number in first_seen)
