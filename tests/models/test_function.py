"""FunctionModel: any callable can answer, its form is determined once, and its deltas equal its message."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator

import pytest

from ziggurat import (
    ConfigurationError,
    Context,
    Event,
    Message,
    ModelRequest,
    ModelResponse,
    Text,
    ToolCall,
    Usage,
    user,
)
from ziggurat.core import root
from ziggurat.core.service import fact, name_of
from ziggurat.events import Delta, Fold, TextDelta, ThinkingDelta
from ziggurat.messages import Thinking, Transcript, assistant, tool_call
from ziggurat.messages.model import MODEL_NAME, OUTPUT_MODES, WINDOW
from ziggurat.models import FunctionModel


def request(text: str = "hello") -> ModelRequest:
    return ModelRequest(Transcript.of(user(text)), instructions="be kind")


def ask(model: FunctionModel, text: str = "hello", ctx: Context | None = None) -> ModelResponse:
    async def call() -> ModelResponse:
        return await model(request(text), ctx or root())

    return asyncio.run(call())


def streamed(model: FunctionModel) -> tuple[ModelResponse, list[Delta]]:
    heard: list[Event] = []
    response = ask(model, ctx=root().heard_by(heard.append))
    return response, [event for event in heard if isinstance(event, Delta)]


class Callable:
    def __call__(self, request: ModelRequest, ctx: Context) -> str:
        return ctx.path


async def whole(request: ModelRequest, ctx: Context) -> ModelResponse:
    return ModelResponse(assistant("whole"), usage=Usage(input=3, requests=1))


async def bare(request, ctx):  # type: ignore[no-untyped-def]
    return ModelResponse(assistant("bare"))


async def later(messages: Transcript) -> str:
    return messages[-1].text.upper()


def of_messages(conversation: list[Message]) -> str:
    return f"{len(conversation)} message"


def of_request(it: ModelRequest) -> str:
    return it.instructions or ""


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda messages: messages[-1].text, "hello"), (lambda request: request.instructions, "be kind"),
        (lambda _: "fixed", "fixed"), (lambda request, ctx: ctx.path, "run"),
        (lambda request, ctx=None: ctx.path, "run"), (functools.partial(lambda word, request: word, "part"), "part"),
        (Callable(), "run"), (whole, "whole"), (bare, "bare"), (later, "HELLO"), (of_messages, "1 message"),
        (of_request, "be kind"),
    ],
)  # fmt: skip
def test_a_function_is_given_what_it_takes(function: object, text: str) -> None:
    response = ask(FunctionModel(function))  # type: ignore[arg-type]
    assert response.text == text
    assert response.usage.requests == 1


def test_what_is_returned_becomes_a_response() -> None:
    one, two = tool_call("add", a=1), tool_call("add", a=2)
    cases: list[tuple[object, tuple[object, ...], str]] = [
        ("hi", (Text("hi"),), "stop"),
        ("", (), "stop"),
        (one, (one,), "tool_calls"),
        ([one, two], (one, ToolCall("call-2", "add", '{"a":2}')), "tool_calls"),
        (["Let me see. ", ToolCall("x", "add")], (Text("Let me see. "), ToolCall("x", "add")), "tool_calls"),
        (assistant("a", "b", one), (Text("ab"), one), "tool_calls"),
        (assistant(Thinking("hm", "sig"), "so"), (Thinking("hm", "sig"), Text("so")), "stop"),
    ]
    for reply, parts, finish in cases:
        response = ask(FunctionModel(lambda request, reply=reply: reply, name="it"))
        assert (response.message.parts, response.finish, response.model) == (parts, finish, "it")


def test_a_response_passes_untouched() -> None:
    answer = ModelResponse(assistant("x"), "length", Usage(output=7, requests=1), "other", "id-1", {"k": 1})
    assert ask(FunctionModel(lambda request: answer)) is answer


async def words(request: ModelRequest) -> AsyncIterator[str | ThinkingDelta]:
    yield ThinkingDelta("well")
    yield "Hel"
    yield "lo"


def plain_words(request: ModelRequest) -> Iterator[str | TextDelta]:
    yield "a"
    yield TextDelta("b")


async def returns_iterator(request: ModelRequest) -> Iterator[str]:
    return iter(["a", "b"])


@pytest.mark.parametrize(
    ("function", "parts", "pieces"),
    [
        (words, (Thinking("well"), Text("Hello")), 3),
        (plain_words, (Text("ab"),), 2),
        (returns_iterator, (Text("ab"),), 2),
    ],
)
def test_iterators_are_streamed_and_folded(function: object, parts: object, pieces: int) -> None:
    model = FunctionModel(function)  # type: ignore[arg-type]
    response, heard = streamed(model)
    assert response.message.parts == parts
    assert response == ask(model)
    assert len(heard) == pieces
    fold = Fold()
    for event in heard:
        assert event.path == "run"
        fold.push(event.delta)
    assert fold.message() == response.message


def test_an_iterator_that_fails_is_closed_and_its_error_raised() -> None:
    closed = []

    async def breaks(request: ModelRequest) -> AsyncIterator[object]:
        try:
            yield "a"
            yield 7
        finally:
            closed.append(True)

    with pytest.raises(ConfigurationError, match="gave a piece of the type int"):
        ask(FunctionModel(breaks))
    assert closed == [True]


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (7, "got 7"), (lambda: "x", "ctx"), (lambda request, ctx, more: "x", "more"),
        (lambda request, *, key: "x", "key"), (lambda *args: "x", "args"), (lambda prompt: "x", "'messages'"),
    ],
)  # fmt: skip
def test_functions_of_another_form_are_refused_at_once(function: object, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        FunctionModel(function)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (None, "NoneType"),
        ([], "empty list"),
        ({"a": 1}, "dict"),
        (user("x"), "'user'"),
    ],
)
def test_returning_something_else_is_told_plainly(reply: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ask(FunctionModel(lambda request: reply, name="it"))


def test_facts_and_repr() -> None:
    model = FunctionModel(whole, name="mine", window=100, output_modes=("native",))
    assert repr(model) == "function('mine')"
    assert name_of(model) == fact(model, MODEL_NAME) == "mine"
    assert fact(model, WINDOW) == 100
    assert fact(model, OUTPUT_MODES) == ("native",)


@pytest.mark.parametrize(
    "settings", [{"name": ""}, {"window": 0}, {"output_modes": ("xml",)}, {"output_modes": "native"}]
)
def test_impossible_facts_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        FunctionModel(whole, **settings)  # type: ignore[arg-type]
