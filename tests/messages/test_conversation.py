import pytest
from hypothesis import given
from hypothesis import strategies as st

from ziggurat.core.codec import decode, encode
from ziggurat.core.errors import JournalCorrupt
from ziggurat.messages.conversation import Conversation, Transcript
from ziggurat.messages.message import Message, assistant, user

from .strategies import messages

logs = st.lists(messages, max_size=6)


@given(logs, logs)
def test_a_view_does_not_see_what_comes_later(before: list[Message], after: list[Message]) -> None:
    conversation = Conversation(before)
    view = conversation.view()
    digest = view.digest()
    for message in after:
        conversation.append(message)
    assert list(view) == before
    assert len(view) == len(before)
    assert view.digest() == digest
    assert list(conversation.view()) == before + after
    assert len(conversation) == len(before) + len(after)


@given(logs, logs)
def test_digests_are_equal_when_messages_are(one: list[Message], other: list[Message]) -> None:
    assert (Transcript.of(*one).digest() == Transcript.of(*other).digest()) == (one == other)


@given(logs, st.data())
def test_a_digest_rolls_the_same_wherever_it_is_asked_for(log: list[Message], data: st.DataObject) -> None:
    conversation = Conversation()
    for message in log:
        conversation.append(message)
        if data.draw(st.booleans()):
            conversation.digest(data.draw(st.integers(0, len(conversation))))
    for length in range(len(log) + 1):
        assert conversation.digest(length).hex() == Transcript.of(*log[:length]).digest()


@given(logs)
def test_each_change_of_a_message_changes_the_digest(log: list[Message]) -> None:
    digests = {Transcript.of(*log).digest()}
    for index in range(len(log)):
        changed = [*log[:index], user("something else entirely"), *log[index + 1 :]]
        digests.add(Transcript.of(*changed).digest())
        digests.add(Transcript.of(*log[:index], *log[index + 1 :]).digest())
    assert len(digests) > 1 or not log


@given(logs, st.data())
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


@given(logs)
def test_a_size_grows_with_the_log_and_is_the_same_whenever_it_is_asked_for(log: list[Message]) -> None:
    conversation = Conversation()
    rolling = []
    for message in log:
        conversation.append(message)
        rolling.append(conversation.size(len(conversation)))
    assert rolling == sorted(rolling)
    assert rolling == [Conversation(log[: length + 1]).size(length + 1) for length in range(len(log))]
    assert conversation.size(0) == 0
