from hypothesis import given, strategies as st

from ziggurat import Message, ModelRequest, ModelResponse, ModelSettings, ToolCall, Usage, user
from ziggurat.core.codec import decode, encode
from ziggurat.messages import ToolSpec, Transcript, assistant
from ziggurat.messages.model import OutputSchema

from .strategies import json_objects, maybe, messages, usages, words

settings = st.builds(
    ModelSettings,
    temperature=st.none() | st.floats(0, 2),
    max_tokens=st.none() | st.integers(1, 10**6),
    stop=st.lists(words, max_size=2).map(tuple),
    reasoning=st.sampled_from([None, "none", "high"]),
    tool_choice=maybe,
    parallel_tool_calls=st.none() | st.booleans(),
    extra=json_objects,
)
specs = st.builds(
    ToolSpec,
    words,
    words,
    json_objects,
    st.sampled_from(["none", "repeatable", "once"]),
    st.lists(words, max_size=2).map(tuple),
    st.booleans(),
    st.none() | st.floats(0, 100),
)
requests = st.builds(
    ModelRequest,
    st.lists(messages, max_size=3).map(lambda log: Transcript.of(*log)),
    maybe,
    st.lists(specs, max_size=2).map(tuple),
    settings,
    st.none() | st.builds(OutputSchema, words, json_objects),
)
responses = st.builds(
    ModelResponse,
    messages,
    st.sampled_from(["stop", "length", "tool_calls", "refusal", "malformed"]),
    usages,
    words,
    words,
    st.none() | json_objects,
)


@given(requests)
def test_every_request_comes_back_through_json(request: ModelRequest) -> None:
    again = decode(encode(request), ModelRequest)
    assert again == request
    assert again.fingerprint() == request.fingerprint()
    assert again.setup() == request.setup()


@given(responses)
def test_every_response_comes_back_through_json(response: ModelResponse) -> None:
    assert decode(encode(response), ModelResponse) == response


@given(requests, st.lists(messages, max_size=3))
def test_a_request_is_known_by_its_conversation_and_its_setup_apart(request: ModelRequest, log: list[Message]) -> None:
    same = ModelRequest(request.messages, "other instructions")
    other = ModelRequest(Transcript.of(*log), request.instructions, request.tools, request.settings)
    assert same.fingerprint() == request.fingerprint()
    assert (other.fingerprint() == request.fingerprint()) == (request.messages == log)
    assert other.setup() == request.setup()
    assert same.setup()["instructions"] == "other instructions"


@given(settings, settings)
def test_settings_are_laid_over_settings(under: ModelSettings, over: ModelSettings) -> None:
    both = under.updated(over)
    default = ModelSettings()
    for name in ModelSettings.__struct_fields__:
        wanted = over if getattr(over, name) != getattr(default, name) else under
        assert getattr(both, name) == getattr(wanted, name)
    assert under.updated(default) == under


def test_what_is_left_to_the_provider_is_not_written() -> None:
    assert encode(ModelSettings(temperature=0.0)) == b'{"temperature":0.0}'
    assert encode(ModelSettings()) == b"{}"
    assert encode(ToolSpec("now")) == b'{"name":"now","parameters":{"type":"object","properties":{}}}'
    ToolSpec("a").parameters["properties"]["x"] = {}
    assert ToolSpec("b").parameters == {"type": "object", "properties": {}}


def test_a_response_shows_text_and_calls_of_its_message() -> None:
    call = ToolCall("id", "add")
    response = ModelResponse(assistant("thinking about it", call))
    assert response.text == "thinking about it"
    assert response.tool_calls == (call,)
    assert response.usage == Usage(requests=1)
    assert ModelRequest(Transcript.of(user("x"))).tools == ()
