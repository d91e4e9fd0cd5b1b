from typing import get_args

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError, Image, Message, Text, ToolCall, ToolResult, user
from ziggurat.core.codec import decode, encode
from ziggurat.errors import JournalCorrupt
from ziggurat.messages import Thinking, Transcript, ValidationPolicy, assistant, tool_message, validate
from ziggurat.messages.conversation import Conversation, characters
from ziggurat.messages.message import taint_of
from ziggurat.testing import apply_violation, valid_conversation
from ziggurat.testing.conversations import Damage

from .strategies import messages

logs = st.lists(messages, max_size=6)
talks = st.builds(
    lambda seed, thinking: valid_conversation(seed, thinking=thinking), st.integers(0, 9999), st.booleans()
)


@given(talks, st.integers(0, 20))
def test_a_view_does_not_see_what_comes_later(talk: list[Message], cut: int) -> None:
    before, after = talk[:cut], talk[cut:]
    conversation = Conversation(before)
    view = conversation.view()
    digest = view.fingerprint()
    for message in after:
        conversation.append(message)
    assert list(view) == before
    assert len(view) == len(before)
    assert view.fingerprint() == digest
    assert list(conversation.view()) == before + after
    assert len(conversation) == len(before) + len(after)


@given(logs, logs)
def test_digests_are_equal_when_messages_are(one: list[Message], other: list[Message]) -> None:
    assert (Transcript.of(*one).fingerprint() == Transcript.of(*other).fingerprint()) == (one == other)


@given(talks, st.data())
def test_a_digest_rolls_the_same_wherever_it_is_asked_for(log: list[Message], data: st.DataObject) -> None:
    conversation = Conversation()
    for message in log:
        conversation.append(message)
        if data.draw(st.booleans()):
            conversation.view().first(data.draw(st.integers(0, len(conversation)))).fingerprint()
    for length in range(len(log) + 1):
        assert conversation.view().first(length).fingerprint() == Transcript.of(*log[:length]).fingerprint()


@given(logs)
def test_each_change_of_a_message_changes_the_digest(log: list[Message]) -> None:
    digests = {Transcript.of(*log).fingerprint()}
    for index in range(len(log)):
        changed = [*log[:index], user("something else entirely"), *log[index + 1 :]]
        digests.add(Transcript.of(*changed).fingerprint())
        digests.add(Transcript.of(*log[:index], *log[index + 1 :]).fingerprint())
    assert len(digests) > 1 or not log


@given(talks, st.data())
def test_a_view_is_indexed_and_sliced_like_a_list(log: list[Message], data: st.DataObject) -> None:
    conversation = Conversation(log)
    view = conversation.view()
    conversation.append(user("later"))
    for index in range(-len(log), len(log)):
        assert view[index] is log[index]
    bound = st.none() | st.integers(-8, 8)
    chosen = slice(data.draw(bound), data.draw(bound), data.draw(st.none() | st.sampled_from([-2, -1, 1, 2])))
    assert view[chosen] == log[chosen]


@pytest.mark.parametrize("index", [1, -2, 100])
def test_an_index_beyond_the_view_is_an_error(index: int) -> None:
    conversation = Conversation([user("a")])
    view = conversation.view()
    conversation.append(user("later"))
    with pytest.raises(IndexError):
        view[index]


@given(logs, logs)
def test_views_are_equal_as_their_messages_are(one: list[Message], other: list[Message]) -> None:
    assert (Transcript.of(*one) == Transcript.of(*other)) == (one == other)
    assert Transcript.of(*one) == one
    assert Transcript.of(*one) == tuple(one)
    assert Transcript.of(*one) == Conversation(one).view()


def test_a_view_is_no_text_and_has_no_hash() -> None:
    assert Transcript.of() != ""
    assert Transcript.of(user("a")) != 3
    with pytest.raises(TypeError):
        hash(Transcript.of())


def test_a_view_reads_like_a_sequence() -> None:
    first, second = user("a"), assistant("b")
    view = Transcript.of(first, second)
    assert second in view
    assert list(reversed(view)) == [second, first]
    assert view.index(second) == 1
    assert view.count(first) == 1
    assert not Transcript.of()
    assert repr(view).startswith("Transcript([Message(role='user'")


@given(st.slices(6), st.integers(0, 6))
def test_a_view_is_sliced_like_a_list(cut: slice, length: int) -> None:
    log = [user(str(number)) for number in range(6)]
    assert Conversation(log).view().first(length)[cut] == log[:length][cut]


@given(logs)
def test_a_view_comes_back_through_json(log: list[Message]) -> None:
    assert decode(encode(Transcript.of(*log)), Transcript) == log


@pytest.mark.parametrize("data", [b"3", b'"x"', b"{}", b'[{"role":"wizard"}]', b"[3]"])
def test_what_is_no_list_of_messages_is_corrupt(data: bytes) -> None:
    with pytest.raises(JournalCorrupt):
        decode(data, Transcript)


def test_the_conversation_keeps_a_list_of_its_own() -> None:
    log = [user("a")]
    conversation = Conversation(log)
    log.clear()
    assert len(conversation) == 1


@given(talks)
def test_a_size_grows_with_the_log_and_is_the_same_whenever_it_is_asked_for(log: list[Message]) -> None:
    conversation = Conversation()
    rolling = []
    for message in log:
        conversation.append(message)
        rolling.append(conversation.view().size())
    assert rolling == sorted(rolling)
    assert rolling == [Conversation(log[: length + 1]).view().size() for length in range(len(log))]
    assert conversation.view().first(0).size() == 0


def call(*ids: str) -> Message:
    return assistant(*[ToolCall(each, "add") for each in ids])


def result(*ids: str) -> Message:
    return Message("tool", tuple(ToolResult(each, "add", "done") for each in ids))


some = st.sampled_from(
    [user("q"), assistant("x"), call("a"), call("a", "b"), result("a"), result("b"), result("a", "b"), result()]
)
PAIRS = ValidationPolicy(
    allow_system_anywhere=True,
    require_user_first=False,
    allow_repeated_roles=True,
    enforce_contiguous_tool_responses=True,
    allow_dangling_tool_calls=True,
)


def written(given_: list[Message], known: int = 0) -> list[Message]:
    """Append the messages that can be; the first ones are there already."""
    conversation = Conversation(given_[:known])
    for message in given_[known:]:
        before = list(conversation.log)
        try:
            conversation.append(message)
        except ConfigurationError:
            assert conversation.log == before
    return conversation.log


@given(st.lists(some, max_size=12))
def test_whatever_is_appended_the_conversation_is_valid_up_to_calls_that_wait(given_: list[Message]) -> None:
    log = written(given_)
    assert validate(log, PAIRS) is None
    waiting = [each.id for each in reversed(log[-1].tool_calls)] if log else []
    refused = [message for message in (user("q"), result("z")) if written([*log, message]) == log]
    assert result("z") in refused
    assert not waiting or user("q") in refused


@given(talks)
def test_a_valid_conversation_can_be_written(talk: list[Message]) -> None:
    assert written(talk) == talk


@given(talks, st.sampled_from(get_args(Damage)), st.integers(0, 99), st.integers(0, 20))
def test_no_damage_to_pairs_can_be_written(talk: list[Message], damage: Damage, seed: int, known: int) -> None:
    broken = apply_violation(talk, damage, seed)
    if broken is None:
        return
    log = written(broken)
    assert validate(log, PAIRS) is None
    if validate(broken, PAIRS) is not None:
        assert log != broken
    if validate(talk[:known], ValidationPolicy.sendable()) is None:  # the same on what was there before
        assert written(talk, min(known, len(talk))) == talk


@pytest.mark.parametrize(
    ("before", "message", "why"),
    [
        ([user("q")], result("a"), "no call waits"),
        ([user("q"), call("a", "b")], result("b"), "'a'.* waits for a result"),
        ([user("q"), call("a")], user("hurry"), "the calls a have no result yet"),
        ([user("q"), call("a", "b"), result("a")], assistant("x"), "the calls b have no result yet"),
        ([], call("a", "a"), "one id twice"),
        ([], call(""), "empty ids"),
        ([], user(ToolCall("a", "add")), "holds no ToolCall"),
        ([], user(Thinking("hm")), "holds no Thinking"),
        ([], assistant(ToolResult("a", "add")), "holds no ToolResult"),
        ([user("q"), call("a")], Message("tool", (ToolResult("a", "add"), Text("t"))), "waits"),
    ],
)
def test_what_does_not_belong_is_refused(before: list[Message], message: Message, why: str) -> None:
    for known in range(len(before) + 1):
        conversation = Conversation(before[:known])
        for each in before[known:]:
            conversation.append(each)
        with pytest.raises(ConfigurationError, match=why):
            conversation.append(message)
        assert conversation.log == before


@pytest.mark.parametrize("strange", ["x", None, {"role": "user"}, [user("q")]], ids=repr)
def test_what_is_no_message_is_refused(strange: object) -> None:
    conversation = Conversation([user("q")])
    with pytest.raises(ConfigurationError, match="made of messages, such as user"):
        conversation.append(strange)  # type: ignore[arg-type]
    assert conversation.log == [user("q")]
    with pytest.raises(ConfigurationError, match="made of messages, such as user"):
        Conversation([strange]).append(user("q"))  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="messages"):
        Conversation(None)  # type: ignore[arg-type]


def test_pictures_count_alike_whatever_their_bytes() -> None:
    small, large = user("x", Image(b"1")), user("x", Image(b"1" * 99_999))
    assert characters(small) == characters(large) < 500
    assert characters(tool_message(ToolResult("a", "add", (Image(b"1" * 99_999), Text("t"))))) < 500


def test_taint_is_of_results_and_of_what_was_made_of_them() -> None:
    made = Message("user", (Text("summary"),), None, "runtime", ("web", "mail"))
    found = tool_message(ToolResult("a", "add", "3", origin="disk"))
    assert taint_of([made, found, result("b"), user("q")]) == ("add", "disk", "mail", "web")
    assert taint_of([user("q")]) == ()
