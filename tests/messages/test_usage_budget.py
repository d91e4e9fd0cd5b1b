from typing import Any

from ziggurat import Message, ModelRequest, ModelResponse, ModelSettings, Text, Usage
from ziggurat.errors import ModelError
from ziggurat.messages import expected_tokens, used_tokens
from ziggurat.messages.conversation import Conversation


def asked(text: str, **settings: Any) -> ModelRequest:
    conversation = Conversation()
    conversation.append(Message("user", (Text(text),)))
    return ModelRequest(conversation.view(), "Be brief.", settings=ModelSettings(**settings))


def test_a_question_weighs_its_length_and_the_longest_reply() -> None:
    light, heavy = asked("x" * 400, max_tokens=50), asked("x" * 4_400, max_tokens=50)
    assert 150 <= expected_tokens(light) <= 170
    assert expected_tokens(heavy) - expected_tokens(light) == 1_000
    assert expected_tokens(asked("x" * 400)) > expected_tokens(light) + 500


def test_a_reply_weighs_what_it_has_cost() -> None:
    reply = Message("assistant", (Text("hi"),))
    assert used_tokens(ModelResponse(reply, usage=Usage(input=10, output=5, requests=1))) == 15
    assert used_tokens(ModelResponse(reply)) is None
    error = ModelError("cut")
    assert used_tokens(error) is None
    error.usage = Usage(input=7)
    assert used_tokens(error) == 7
