"""react as a layer: text in, thoughts, calls and answers out, streamed or not, with the same result."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.samples import amount
from ziggurat import (
    ConfigurationError,
    Context,
    Event,
    ModelRequest,
    ModelResponse,
    Service,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    layer,
    stack,
    user,
)
from ziggurat.core import root
from ziggurat.core.service import fact, name_of
from ziggurat.events import Delta, Dropped, Fold, Retrying, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages import Thinking, ToolSpec, Transcript, assistant, tool_message
from ziggurat.messages.model import OUTPUT_MODES
from ziggurat.models import FunctionModel, react
from ziggurat.testing import ScriptedModel

Model = Service[ModelRequest, ModelResponse]
REQUEST = ModelRequest(Transcript.of(user("1 + 2?")), tools=(ToolSpec("add", "Adds."),))
CALLING = 'Thought: I add.\nAction: add {"a": 1, "b": 2}'
ANSWERING = "Thought: I know.\nAction: FINAL_ANSWER It is 3."


def ask(model: Model, request: ModelRequest = REQUEST) -> ModelResponse:
    async def call() -> ModelResponse:
        return await model(request, root())

    return asyncio.run(call())


def streamed(model: Model) -> tuple[ModelResponse, list[Event]]:
    heard: list[Event] = []

    async def call() -> ModelResponse:
        return await model(REQUEST, root().heard_by(heard.append))

    return asyncio.run(call()), heard


def folded(heard: list[Event]) -> object:
    """Fold as a listener does: by path, dropping what is dropped; exactly one path is left in these tests."""
    folds: dict[str, Fold] = {}
    for event in heard:
        if isinstance(event, Delta):
            folds.setdefault(event.path, Fold()).push(event.delta)
        elif isinstance(event, Dropped):
            folds = {path: fold for path, fold in folds.items() if not path.startswith(event.path)}
    assert len(folds) <= 1
    return next(iter(folds.values())).message() if folds else assistant()


def test_an_action_becomes_a_tool_call_and_an_answer_text() -> None:
    model = stack(ScriptedModel(CALLING, ANSWERING, usage=Usage(input=9, output=4, requests=1)), react())
    calling = ask(model)
    assert calling.message == assistant(Thinking("I add."), ToolCall("react-1", "add", '{"a": 1, "b": 2}'))
    assert (calling.finish, calling.usage) == ("tool_calls", Usage(input=9, output=4, requests=1))
    longer = (*REQUEST.messages, calling.message, tool_message(ToolResult("react-1", "add", "3")))
    answering = ask(model, ModelRequest(Transcript.of(*longer), tools=REQUEST.tools))
    assert answering.message == assistant(Thinking("I know."), "It is 3.")
    assert answering.finish == "stop"


def test_the_text_model_sees_text_only() -> None:
    inner = ScriptedModel(CALLING)
    ask(stack(inner, react()))
    assert inner.last.tools == ()
    assert inner.last.settings.stop == ("\nObservation:",)
    assert inner.last.messages[0].text == "User: 1 + 2?"


def test_ids_come_from_the_place_in_the_conversation() -> None:
    model = stack(ScriptedModel(always=CALLING), react())
    request = ModelRequest(Transcript.of(user("a"), assistant("b"), user("c")), tools=REQUEST.tools)
    assert [ask(model, request).tool_calls[0].id for _ in range(2)] == ["react-3", "react-3"]


@pytest.mark.parametrize(
    ("text", "parts", "fault"),
    [
        ("I do not know.", (Text("I do not know."),), "The reply has no Action."),
        ("Thought: x\nAction: {}", (Thinking("x"), Text("Action: {}")), "The Action names no tool."),
        ("Action: add {1}", (Text("Action: add {1}"),), "The arguments of add are not a JSON object"),
    ],
)
def test_a_reply_that_cannot_be_read_is_malformed(text: str, parts: Any, fault: str) -> None:
    response = ask(stack(ScriptedModel(text), react()))
    assert response.finish == "malformed"
    assert response.message.parts == parts
    assert response.raw is not None
    assert response.raw["malformed"].startswith(fault)


@pytest.mark.parametrize(
    ("text", "finish", "expected"),
    [
        (CALLING, "length", "tool_calls"),
        ("Action: FINAL_ANSWER It is", "length", "length"),
        ('Action: add {"a"', "length", "malformed"),
        ("I must not.", "refusal", "refusal"),
        ("", "content_filter", "content_filter"),
        (ANSWERING, "tool_calls", "stop"),
    ],
)
def test_finish(text: str, finish: Any, expected: str) -> None:
    inner = ModelResponse(assistant(text), finish, raw={"kept": 1})
    response = ask(stack(ScriptedModel(inner), react()))
    assert response.finish == expected
    assert (response.raw or {})["kept"] == 1
    assert ("cut off at its greatest length" in (response.raw or {}).get("malformed", "")) == (expected == "malformed")


def test_thoughts_actions_and_answers_are_heard_as_they_come() -> None:
    _, heard = streamed(stack(ScriptedModel(["Thought: I", " add.\nAct", "ion: add", " {}", " never mind"]), react()))
    assert [event.delta for event in heard if isinstance(event, Delta)] == [
        ThinkingDelta("I"),
        ThinkingDelta(" add."),
        ToolCallDelta(0, "{}", "react-1", "add"),
    ]
    _, heard = streamed(stack(ScriptedModel(["Action: FINAL_ANSWER It", " is", " 3. "]), react()))
    assert [event.delta for event in heard if isinstance(event, Delta)] == [
        TextDelta("It"),
        TextDelta(" is"),
        TextDelta(" 3."),
    ]


def test_a_model_that_streams_nothing_is_heard_whole() -> None:
    response, heard = streamed(stack(FunctionModel(lambda request: CALLING), react()))
    assert folded(heard) == response.message
    assert len(heard) == 2


def test_thinking_of_the_model_s_own_is_kept() -> None:
    inner = ScriptedModel(assistant(Thinking("deep", "signed"), ANSWERING))
    response, heard = streamed(stack(inner, react()))
    assert response.message == assistant(Thinking("deep", "signed"), Thinking("I know."), "It is 3.")
    assert folded(heard) == response.message


WORDS = st.sampled_from(
    [
        "Thought: ",
        "Action: ",
        "FINAL_ANSWER",
        "\n",
        " ",
        "add",
        '{"a": 1}',
        "{",
        "}",
        "so",
        "\nObservation:",
        "\nFinal ",
    ]
)


@given(st.lists(st.lists(WORDS, max_size=4).map("".join), min_size=1, max_size=8))
@settings(max_examples=amount(50, 150), deadline=None)
def test_streamed_equals_plain_and_folds_to_the_message(pieces: list[str]) -> None:
    plain = ask(stack(ScriptedModel(pieces), react()))
    response, heard = streamed(stack(ScriptedModel(pieces), react()))
    assert response == plain
    assert folded(heard) == plain.message
    assert response.message == ask(stack(ScriptedModel(["".join(pieces)]), react())).message


@layer
async def again(request: ModelRequest, ctx: Context, model: Model) -> ModelResponse:
    try:
        return await model(request, ctx)
    except ConnectionError as error:
        await ctx.emit(Dropped(ctx.path, str(error)))
        await ctx.emit(Retrying(ctx.path, 1, str(error), 0.0))
        return await model(request, ctx.again())


@pytest.mark.parametrize("at", range(4))
def test_a_try_that_was_dropped_leaves_nothing(at: int) -> None:
    broken: list[Any] = ["Thought: wrong", "\nAction: sub {", "}"]
    broken.insert(at, ConnectionError("lost"))
    for layers in ([react(), again()], [again(), react()]):
        response, heard = streamed(stack(ScriptedModel(broken, CALLING), *layers))
        assert response.tool_calls[0].name == "add"
        assert folded(heard) == response.message
        assert any(isinstance(event, Retrying) for event in heard)


def test_of_two_alternatives_the_one_that_answered_is_left() -> None:
    one, two = ScriptedModel(always="Thought: one\nAction: f"), ScriptedModel(always="Thought: two\nAction: g ")

    async def both(request: ModelRequest, ctx: Context) -> ModelResponse:
        await one(request, ctx.under("alt-1"))
        return await two(request, ctx.under("alt-2"))

    response, heard = streamed(stack(both, react()))
    assert folded(heard) == response.message == assistant(Thinking("two"), ToolCall("react-1", "g"))


def test_a_reply_that_differs_from_what_was_streamed_wins() -> None:
    inner = ScriptedModel(CALLING)

    async def changed(request: ModelRequest, ctx: Context) -> ModelResponse:
        await inner(request, ctx)
        return ModelResponse(assistant(ANSWERING))

    response, heard = streamed(stack(changed, react()))
    assert response.text == "It is 3."
    assert folded(heard) == response.message


def test_facts_of_the_model_stay_reachable() -> None:
    model = stack(ScriptedModel("x", name="small"), react())
    assert fact(model, OUTPUT_MODES) == ("prompted",)
    assert name_of(model) == "small"
    assert repr(model) == "react(max_observation=4000) > scripted('small', 1 replies)"


@pytest.mark.parametrize("wrong", [{"max_observation": 0}, {"max_observation": True}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        react(**wrong)


def test_only_a_model_can_be_wrapped() -> None:
    with pytest.raises(ConfigurationError, match="callable"):
        react()(7)  # type: ignore[arg-type]
