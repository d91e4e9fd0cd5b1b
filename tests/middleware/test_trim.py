import pytest
from hypothesis import given, strategies as st

from ziggurat import Agent, ConfigurationError, Message, ModelRequest, Text, ToolResult, user
from ziggurat.core import root
from ziggurat.core.codec import encode
from ziggurat.messages import ValidationPolicy, assistant, estimate_tokens, system, tool_call, tool_message, validate
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.validation import validate_rewrite
from ziggurat.middleware import Trim
from ziggurat.testing import ScriptedModel

TALK = [
    system("Be kind."), user("one"), assistant("1"), user("two"),
    assistant(tool_call("look", id="a"), tool_call("look", id="b")), tool_message(ToolResult("a", "look", "x")),
    tool_message(ToolResult("b", "look", "y")), assistant("2"), user("three"),
]  # fmt: skip


def texts(messages: list[Message]) -> list[str]:
    return [message.text or message.role for message in messages]


def test_the_last_and_the_first_messages_and_all_of_the_systems_are_seen() -> None:
    assert texts(Trim(last=2).view(TALK)) == ["Be kind.", "three"]
    assert Trim(last=100).view(TALK) == TALK
    assert texts(Trim(first=1, last=1).view(TALK)) == ["Be kind.", "one", "three"]
    assert Trim(first=6, last=6).view(TALK) == TALK


def test_calls_and_results_go_together() -> None:
    for last in (3, 4, 5):
        assert texts(Trim(last=last).view(TALK)) == ["Be kind.", "three"]
    assert texts(Trim(last=6).view(TALK)) == ["Be kind.", "two", "assistant", "tool", "tool", "2", "three"]
    assert texts(Trim(first=1, last=5).view(TALK)) == ["Be kind.", "one", "assistant", "tool", "tool", "2", "three"]


def test_what_must_be_answered_now_is_seen_whatever_the_bound() -> None:
    for last in (1, 2, 3, 4):
        assert texts(Trim(last=last).view(TALK[:7])) == ["Be kind.", "two", "assistant", "tool", "tool"]
    assert texts(Trim(first=1, last=1).view(TALK[:7])) == ["Be kind.", "one", "two", "assistant", "tool", "tool"]
    assert texts(Trim(tokens=1).view(TALK)) == ["Be kind.", "three"]


def test_as_many_are_seen_as_fit() -> None:
    def size(messages: list[Message]) -> int:
        return sum(estimate_tokens(encode(message.parts).decode()) for message in messages)

    for tokens in range(1, size(TALK) + 1):
        view = Trim(tokens=tokens).view(TALK)
        assert size(view) <= tokens or texts(view) == ["Be kind.", "three"]
    assert Trim(tokens=size(TALK)).view(TALK) == TALK
    assert len(Trim(tokens=size(TALK) - 1).view(TALK)) < len(TALK)


@given(
    st.lists(st.sampled_from(TALK), max_size=30), st.sampled_from([{"last": 3}, {"first": 1, "last": 4}, {"tokens": 9}])
)
async def test_what_is_known_of_a_conversation_that_grows_changes_nothing(
    talk: list[Message], bound: dict[str, int]
) -> None:
    trim, conversation = Trim(**bound), Conversation([user("go")])
    for message in talk:
        conversation.log.append(message)
        request = ModelRequest(conversation.view())
        whole = list(request.messages)
        trimmed = await trim.before_model(request, root())
        seen = whole if trimmed is None else list(trimmed.messages)
        short = trim.last is not None and len(whole) <= trim.first + trim.last
        assert seen == (whole if short or len(trim.view(whole)) == len(whole) else trim.view(whole))


async def test_the_conversation_stays_whole() -> None:
    def look() -> str:
        return "x" * 50

    model = ScriptedModel(*[tool_call("look")] * 5, "done")
    run = await Agent(model, tools=[look], middleware=[Trim(last=3)], instructions="Be brief.").run("go")
    assert len(run.messages) == 12
    assert [len(call.messages) for call in model.calls] == [1, 3, 3, 3, 3, 3]
    assert all(call.messages[0].text == "go" for call in model.calls)
    assert all(call.instructions == "Be brief." for call in model.calls)


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    log: list[Message] = [system("s")] if draw(st.booleans()) else []
    for turn in range(draw(st.integers(1, 6))):
        log.append(user(f"u{turn}" * draw(st.integers(1, 20))))
        if draw(st.booleans()):
            log.append(Message("user", (Text(f"a warning {turn}"),), None, "runtime"))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"{turn}-{step}-{number}" for number in range(draw(st.integers(1, 3)))]
            log.append(assistant(*[tool_call("t", id=each) for each in ids]))
            log += [tool_message(ToolResult(each, "t", "r" * draw(st.integers(0, 90)))) for each in ids]
        log.append(assistant("a"))
    return log[: draw(st.integers(len(log) - 1, len(log)))] if log[-1].text == "a" else log


@given(conversations(), st.integers(1, 12), st.integers(0, 4), st.integers(1, 80))
def test_every_view_of_a_valid_conversation_is_valid(log: list[Message], last: int, first: int, tokens: int) -> None:
    for trim in (Trim(last=last), Trim(first=first, last=last), Trim(tokens=tokens)):
        view = trim.view(log)
        assert validate_rewrite(log, view) == []
        assert view[-1] == log[-1]
        said = [message for message in view if message.role != "system"]
        assert said[0].role == "user"
        asked = next(message for message in reversed(log) if message.role == "user" and message.origin is None)
        assert asked in said
        assert validate(view, ValidationPolicy.sendable()) is None


@pytest.mark.parametrize("wrong", [{}, {"last": 0}, {"tokens": 0}, {"last": 1, "tokens": 1}, {"first": 2, "tokens": 1}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="Trim"):
        Trim(**wrong)
