import json
import time

import pytest

from ziggurat import Agent, tool
from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.canonical import canonical
from ziggurat.messages.limits import MAX_ARGUMENTS, MAX_CALLS, check_size, unique_object
from ziggurat.messages.parts import ToolCall
from ziggurat.testing import ScriptedModel
from ziggurat.tools.arguments import read


@tool
async def echo(x: str = "") -> str:
    """Return the text."""
    return x


def test_an_object_with_unique_keys_is_returned_as_it_is() -> None:
    assert unique_object([("b", 1), ("a", 2)]) == {"b": 1, "a": 2}


@pytest.mark.parametrize("reader", [read, canonical])
@pytest.mark.parametrize("key", ["a", "k" * 10_000])
def test_a_key_given_twice_is_refused_and_named(reader: type, key: str) -> None:
    with pytest.raises(InvalidArguments, match=f"{key[:60]}(\\.\\.\\.)?: given more than once") as refused:
        reader(f'{{"b": {{"{key}": 1, "c": 2, "{key}": 3}}}}')
    assert len(str(refused.value)) < 300


def test_the_first_key_that_repeats_is_named() -> None:
    with pytest.raises(InvalidArguments, match=r"^b: "):
        unique_object([("a", 1), ("b", 2), ("b", 3), ("a", 4)])


@pytest.mark.parametrize("text", ["x" * (MAX_ARGUMENTS + 1), b"x" * (MAX_ARGUMENTS + 1)])
def test_a_text_over_the_limit_is_refused_before_it_is_read(text: str | bytes) -> None:
    check_size(text[:-1])
    with pytest.raises(InvalidArguments, match="4,000,001 characters; at most 4,000,000 are read"):
        check_size(text)


def test_arguments_over_the_limit_are_an_error_result_for_the_model() -> None:
    model = ScriptedModel(ToolCall("c", "echo", json.dumps({"x": "y" * MAX_ARGUMENTS})), "done")
    run = Agent(model, tools=[echo]).run_sync("go")
    assert run.text == "done"
    assert "at most 4,000,000 are read" in run.observations[0]


def test_a_reply_with_too_many_calls_is_asked_again_and_none_of_them_is_made() -> None:
    many = [ToolCall(f"c{number}", "echo", "{}") for number in range(MAX_CALLS + 1)]
    run = Agent(ScriptedModel(many, "done"), tools=[echo]).run_sync("go")
    assert run.text == "done"
    assert run.usage.requests == 2
    assert set(run.observations) == {"your reply makes 1,025 tool calls, and one reply may make 1,024: make fewer"}


def test_hostile_keys_and_ids_do_not_hold_up_a_run() -> None:
    keys = "".join(f'"k{number}":1,' for number in range(40_000))
    calls = [ToolCall(name, "echo", f'{{{keys}"k9":1}}') for name in ("", "c", "c")]
    begun = time.process_time()
    run = Agent(ScriptedModel(calls, "done"), tools=[echo]).run_sync("go")
    assert time.process_time() - begun < 5, "it took 20 s and more when each key was compared with all others"
    assert all("k9: given more than once" in told for told in run.observations)
