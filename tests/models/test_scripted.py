"""ScriptedModel: follows its script, streams word by word, fails where scripted, and keeps all requests."""

import asyncio

import pytest

from ziggurat import (
    ConfigurationError,
    Context,
    Event,
    ModelRequest,
    ModelResponse,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    user,
)
from ziggurat.core import CLOCK, root
from ziggurat.core.clock import SystemClock
from ziggurat.core.context import RUN_ID
from ziggurat.core.service import fact, name_of
from ziggurat.errors import ModelError
from ziggurat.events import Delta, Fold, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages import Thinking, Transcript, assistant, tool_call, tool_message
from ziggurat.messages.model import OUTPUT_MODES
from ziggurat.testing import Pause, ScriptedModel, ScriptedReply


def asking(text: str = "hello") -> ModelRequest:
    return ModelRequest(Transcript.of(user(text)))


def ask(model: ScriptedModel, text: str = "hello", ctx: Context | None = None) -> ModelResponse:
    return asyncio.run(model(asking(text), ctx or root()))


def heard_from(model: ScriptedModel) -> tuple[ModelResponse | BaseException, list[Delta]]:
    heard: list[Event] = []
    try:
        response: ModelResponse | BaseException = ask(model, ctx=root().heard_by(heard.append))
    except Exception as error:
        response = error
    return response, [event for event in heard if isinstance(event, Delta)]


def test_replies_in_order_then_always_or_a_clear_error() -> None:
    model = ScriptedModel("one", tool_call("add", a=1), name="it")
    assert ask(model).text == "one"
    assert ask(model, "again").finish == "tool_calls"
    with pytest.raises(ConfigurationError, match="'it'"):
        ask(model)
    assert [call.messages[0].text for call in model.calls] == ["hello", "again", "hello"]
    assert model.last is model.calls[-1]
    model = ScriptedModel("first", always="same")
    assert [ask(model).text for _ in range(4)] == ["first", "same", "same", "same"]


def test_rules_come_first_and_match_text_results_and_requests() -> None:
    model = ScriptedModel(
        "one",
        rules=[("weather", tool_call("weather")), (lambda request: request.messages[-1].role == "tool", "seen")],
        always="else",
    )
    assert ask(model, "the weather?").tool_calls[0].name == "weather"
    assert ask(model).text == "one"
    assert ask(model).text == "else"
    request = ModelRequest(Transcript.of(user("x"), tool_message(ToolResult("1", "t", "data"))))
    assert asyncio.run(model(request, root())).text == "seen"
    request = ModelRequest(Transcript.of(tool_message(ToolResult("1", "t", "some weather"))))
    assert asyncio.run(model(request, root())).tool_calls


def test_rules_alone_that_do_not_fit_say_so() -> None:
    model = ScriptedModel(rules=[("weather", "rain")])
    with pytest.raises(ConfigurationError, match="1 rule"):
        ask(model)


def test_errors_are_raised_as_given_and_by_class() -> None:
    error = ModelError("overloaded", transient=True)
    model = ScriptedModel(error, ConnectionError, asyncio.CancelledError())
    with pytest.raises(ModelError) as caught:
        ask(model)
    assert caught.value is error
    with pytest.raises(ConnectionError):
        ask(model)
    with pytest.raises(asyncio.CancelledError):
        ask(model)


def test_responses_keep_all_they_have_and_functions_may_answer() -> None:
    whole = ModelResponse(assistant("x"), "length", Usage(output=9, requests=1), "m", "i", {"a": 1})
    model = ScriptedModel(whole, lambda request: request.messages[0].text[::-1], usage=Usage(input=1, requests=1))
    assert ask(model) == whole
    response = ask(model, "abc")
    assert (response.text, response.usage.input, response.model) == ("cba", 1, "scripted")


@pytest.mark.parametrize("at", range(4))
def test_an_error_may_come_before_between_and_after_pieces(at: int) -> None:
    pieces: list[object] = ["a", Pause(), TextDelta("b")]
    pieces.insert(at, ConnectionError("lost"))
    error, heard = heard_from(ScriptedModel(pieces))  # type: ignore[arg-type]
    assert isinstance(error, ConnectionError)
    told = [event.delta.text for event in heard if isinstance(event.delta, TextDelta)]
    assert told == ["a", "b"][: (0, 1, 1, 2)[at]]
    with pytest.raises(ConnectionError):
        ask(ScriptedModel(pieces))  # type: ignore[arg-type]


REPLIES: list[ScriptedReply] = [
    "Hello there,  friend.\n", "", "   ",
    assistant(Thinking("let me see", "signed", None, "id"), "Two words", tool_call("f", a=1, b="x y")),
    assistant(Thinking("", None, "opaque"), Thinking("more thought")), assistant("a", "b"), tool_call("f"),
    [tool_call("f"), tool_call("g"), ToolCall("own", "h")],
    ["Hel", Pause(), "lo ", ThinkingDelta("hm"), ToolCallDelta(0, '{"a":', "i", "f"), ToolCallDelta(0, "1}")],
    [ToolCallDelta(0, "{}", "i", "f"), tool_call("g")], ["paid", Usage(input=5, output=2, requests=1)],
]  # fmt: skip


@pytest.mark.parametrize("reply", REPLIES, ids=range(len(REPLIES)))
def test_what_is_heard_folds_to_what_is_returned(reply: ScriptedReply) -> None:
    response, heard = heard_from(ScriptedModel(reply))
    assert isinstance(response, ModelResponse)
    fold = Fold()
    for event in heard:
        fold.push(event.delta)
    assert fold.message() == response.message
    assert response == ask(ScriptedModel(reply))


def test_messages_come_word_by_word() -> None:
    _, heard = heard_from(ScriptedModel("one two  three "))
    assert [event.delta for event in heard] == [TextDelta(word) for word in ("one", " two", "  three", " ")]


def test_calls_have_ids_of_their_own_and_usage_is_that_of_the_reply() -> None:
    response = ask(ScriptedModel([tool_call("f"), tool_call("f"), ToolCall("mine", "f")]))
    assert [call.id for call in response.tool_calls] == ["call", "call-2", "mine"]
    assert ask(ScriptedModel(["x", Usage(output=3, requests=1)])).usage == Usage(output=3, requests=1)


async def test_pauses_wait_for_the_clock_of_the_run_and_for_events() -> None:
    slept: list[float] = []

    class ByHand(SystemClock):
        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    gate = asyncio.Event()
    model = ScriptedModel(["a", Pause(30), gate, "b"])
    task = asyncio.create_task(model(asking(), root().within(CLOCK, ByHand())))
    for _ in range(3):
        await asyncio.sleep(0)
    assert slept == [30]
    assert not task.done()
    gate.set()
    assert (await task).text == "ab"


def test_position_is_shared_unless_per_run() -> None:
    one, two = root().within(RUN_ID, "one"), root().within(RUN_ID, "two")
    shared, own = ScriptedModel("a", "b"), ScriptedModel("a", "b", per_run=True)
    assert [ask(shared, ctx=ctx).text for ctx in (one, two)] == ["a", "b"]
    assert [ask(own, ctx=ctx).text for ctx in (one, two, one, two)] == ["a", "a", "b", "b"]
    with pytest.raises(ConfigurationError, match="script"):
        ask(own, ctx=one)


async def test_calls_made_at_once_take_replies_in_order() -> None:
    model = ScriptedModel(["a", Pause(), Pause()], ["b"], "c")
    assert [each.text for each in await asyncio.gather(*(model(asking(), root()) for _ in range(3)))] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("replies", "settings", "told"),
    [
        ((), {}, "replies"), ((7,), {}, "got 7"), (("a", []), {}, "reply 2"), ((["a", 7],), {}, "got 7"),
        ((user("x"),), {}, "user"), ((), {"rules": ["weather"]}, "rules"),
        ((), {"rules": [("weather", None)]}, "None"), ((int,), {}, "reply 1"), (("a",), {"name": ""}, "name"),
        (("a",), {"rules": None}, "rules"), (("a",), {"rules": {"weather": "rain"}}, "rules"),
        (("a",), {"usage": None}, "usage"), (("a",), {"per_run": "no"}, "per_run"),
        (("a",), {"window": True}, "window"), (("a",), {"output_modes": 3}, "output_modes"),
    ],
)  # fmt: skip
def test_impossible_scripts_are_refused_at_once(
    replies: tuple[object, ...], settings: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigurationError, match=told):
        ScriptedModel(*replies, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", ["1", -1, True, None, float("nan"), float("inf")])
def test_a_pause_takes_a_number_of_seconds(seconds: float) -> None:
    with pytest.raises(ConfigurationError, match="seconds"):
        Pause(seconds)


def test_last_of_none_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="has not been called"):
        _ = ScriptedModel("x").last


def test_facts_and_repr() -> None:
    model = ScriptedModel("a", "b", rules=[("x", "y")], always="z", name="it", output_modes=("native",))
    assert repr(model) == "scripted('it', 2 replies, 1 rules, always)"
    assert name_of(model) == "it"
    assert fact(model, OUTPUT_MODES) == ("native",)
    assert ask(ScriptedModel(["x", Text("y")])).text == "xy"
