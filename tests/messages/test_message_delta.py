import pytest
from hypothesis import given, strategies as st

from ziggurat import Image, Message, Text, ToolCall
from ziggurat.core.codec import decode, encode
from ziggurat.events import Fold, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages import Thinking, ValidationPolicy, assistant, validate_all
from ziggurat.messages.message import PartDelta, WholePart, deltas_of, fit, refolded

from .strategies import messages, pieces, replies


def fold(*deltas: PartDelta) -> Message:
    folded = Fold()
    for delta in deltas:
        folded.push(delta)
    return folded.message()


@given(replies)
def test_a_message_taken_apart_folds_to_itself(message: Message) -> None:
    assert fold(*deltas_of(message)) == message


@given(replies, st.data())
def test_however_a_reply_is_cut_it_folds_to_the_same(message: Message, data: st.DataObject) -> None:
    cut = [piece for whole in deltas_of(message) for piece in data.draw(pieces(whole))]
    assert fold(*cut) == message


@given(st.lists(replies, min_size=2, max_size=2), st.data())
def test_a_fold_that_was_reset_knows_nothing_of_before(pair: list[Message], data: st.DataObject) -> None:
    folded = Fold()
    lost = list(deltas_of(pair[0]))
    for delta in lost[: data.draw(st.integers(0, len(lost)))]:
        folded.push(delta)
    folded.reset()
    for delta in deltas_of(pair[1]):
        folded.push(delta)
    assert folded.message() == pair[1]


@given(messages)
def test_deltas_come_back_through_json(message: Message) -> None:
    deltas = list(deltas_of(message))
    assert decode(encode(deltas), list[PartDelta]) == deltas


@given(replies)
def test_a_fold_may_be_read_at_any_time(message: Message) -> None:
    folded = Fold()
    seen = []
    for delta in deltas_of(message):
        folded.push(delta)
        seen.append(len(folded.message().parts))
    assert seen == list(range(1, len(message.parts) + 1))


def test_nothing_folds_to_an_empty_message() -> None:
    assert fold() == assistant()
    assert fold(TextDelta("")) == assistant()


def test_calls_that_come_interleaved_keep_their_own_arguments() -> None:
    message = fold(
        ToolCallDelta(0, '{"a"', "id-0", "one"),
        ToolCallDelta(1, "{", "id-1", "two"),
        ToolCallDelta(0, ":1}"),
        TextDelta("meanwhile"),
        ToolCallDelta(1, "}"),
    )
    assert message.parts == (ToolCall("id-0", "one", '{"a":1}'), ToolCall("id-1", "two", "{}"), Text("meanwhile"))


def test_an_id_and_a_name_may_come_late() -> None:
    assert fold(ToolCallDelta(0, "{"), ToolCallDelta(0, "", "id"), ToolCallDelta(0, "}", "", "add")).parts == (
        ToolCall("id", "add", "{}"),
    )


@pytest.mark.parametrize(
    "thoughts",
    [
        (Thinking("a", "signed"), Thinking("b", "signed")),
        (Thinking("a"), Thinking(redacted="xx")),
        (Thinking(redacted="xx"), Thinking(redacted="yy")),
        (Thinking("a", id="1"), Thinking("b", id="2")),
        (Thinking("", "only a signature"), Thinking("b")),
    ],
)
def test_thoughts_that_stand_apart_stay_apart(thoughts: tuple[Thinking, Thinking]) -> None:
    message = assistant(*thoughts)
    assert fold(*deltas_of(message)) == message


def test_texts_and_thoughts_that_touch_become_one() -> None:
    assert fold(ThinkingDelta("a"), TextDelta(""), ThinkingDelta("b")) == assistant(Thinking("ab"))
    assert fold(*deltas_of(assistant("a", "b"))) == assistant("ab")
    assert fold(TextDelta("a"), WholePart(Image(url="x")), TextDelta("b")).parts == (
        Text("a"),
        Image(url="x"),
        Text("b"),
    )
    reply = assistant("Well", Thinking("so", "signed"), Thinking(" then"))
    assert fit(reply).parts == (Text("Well"), Thinking("so then"))


@given(messages)
def test_what_fits_a_conversation_is_as_its_deltas_fold(message: Message) -> None:
    made = fit(message)
    assert refolded(made) == made
    assert fit(made) is made


@pytest.mark.parametrize(
    "between", [(), (Thinking("other", "by another"),), (Text("a"),)], ids=["next to it", "a thought", "text"]
)
def test_a_thought_said_twice_in_one_reply_is_kept_once(between: tuple[Text | Thinking, ...]) -> None:
    thought = Thinking("so", "signed")
    made = fit(assistant(thought, *between, thought, "done"))
    assert made.thinking.count("so") == 1
    assert made.text.endswith("done")
    assert not validate_all([made], ValidationPolicy.sendable())


@pytest.mark.parametrize(
    "parts", [("a\ud800b",), ("a\ud800b", ToolCall("1", "add")), (Thinking("so"), "\udfffa\ud800")]
)
def test_texts_are_mended_so_that_they_can_be_written_as_they_are(parts: tuple[str | Thinking | ToolCall, ...]) -> None:
    reply = assistant(*[Text(part) if isinstance(part, str) else part for part in parts])
    made = fit(reply)
    assert made.text == reply.text.encode("utf-8", "replace").decode()
    assert decode(encode(made), Message) == made
    assert fit(made) is made
