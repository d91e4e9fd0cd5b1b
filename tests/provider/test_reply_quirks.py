"""Tests of the reply quirks, through a plain socket."""

import json
from typing import Any

import pytest

from tests import provider as kit
from tests.provider.client import WIRES, Got, ask, deltas_of_calls
from tests.provider.reply_quirks import BAD_ARGUMENTS


def chat_calls(got: Got) -> Any:
    return got.json["choices"][0]["message"]["tool_calls"]


@pytest.mark.parametrize("form", BAD_ARGUMENTS)
def test_bad_arguments_are_sent_as_they_are(form: str) -> None:
    good = '{"a":1,"b":2,"note":"a rather long note"}'
    made = BAD_ARGUMENTS[form]
    wanted = made if isinstance(made, str) else made(good)
    quirk = kit.bad_arguments(form)
    assert chat_calls(ask(quirk))[0]["function"]["arguments"] == wanted
    pieces = [call for call in deltas_of_calls(ask(quirk, stream=True)) if call["index"] == 0]
    assert "".join(call["function"]["arguments"] for call in pieces) == wanted
    assert ask(quirk, wire="responses").json["output"][1]["arguments"] == wanted
    body = ask(quirk, wire="messages").body.decode()
    assert (f'"input":{wanted or "{}"}' in body) or json.dumps(wanted, ensure_ascii=False) in body


def test_arguments_of_any_size() -> None:
    arguments = chat_calls(ask(kit.huge_arguments(0.5)))[0]["function"]["arguments"]
    assert len(json.loads(arguments)["filler"]) == 500_000
    for wire in WIRES:
        got = ask(kit.huge_arguments(2), wire=wire, stream=True)
        assert got.ended
        assert len(got.body) > 4_000_000
    arguments = chat_calls(ask(kit.deep_arguments()))[0]["function"]["arguments"]
    assert arguments.count("[") == arguments.count("]") == 100_000
    assert b"[" * 100_000 in ask(kit.deep_arguments(), wire="messages").body


def test_names_and_ids() -> None:
    for wire in WIRES:
        assert "no_such_tool" in ask(kit.unknown_tool(), wire=wire).body.decode()
        assert '"name":""' in ask(kit.empty_name(), wire=wire, stream=True).body.decode()
        assert ask(kit.same_ids("one"), wire=wire).body.decode().count('"one"') == 2
        reused = ask(kit.reused_ids(), wire=wire).body.decode()
        assert '"call_1"' in reused
        assert '"call_2"' in reused
    assert ["id" in call for call in chat_calls(ask(kit.no_ids()))] == [False, False]
    assert [call["id"] for call in chat_calls(ask(kit.no_ids("null")))] == [None, None]
    assert all(call.get("id", "") == "" for call in deltas_of_calls(ask(kit.no_ids("empty"), stream=True)))
    assert "call_id" not in ask(kit.no_ids(), wire="responses", stream=True).body.decode()
    assert ["id" in block for block in ask(kit.no_ids(), wire="messages").json["content"]] == [False] * 3


def test_ten_thousand_calls() -> None:
    calls = chat_calls(ask(kit.many_calls()))
    assert len({call["id"] for call in calls}) == len(calls) == 10_000
    assert len(ask(kit.many_calls(), wire="messages").json["content"]) == 10_000
    assert len(deltas_of_calls(ask(kit.many_calls(300), stream=True))) == 300


def test_arguments_that_are_objects_null_or_cut() -> None:
    assert chat_calls(ask(kit.object_arguments()))[1]["function"]["arguments"] == {"a": 5, "b": 4}
    assert chat_calls(ask(kit.null_arguments()))[0]["function"]["arguments"] is None
    streamed = deltas_of_calls(ask(kit.null_arguments(), stream=True))
    assert [call["function"]["arguments"] for call in streamed] == [None, None]
    assert all(block["input"] is None for block in ask(kit.null_arguments(), wire="messages").json["content"][1:])
    got = ask(kit.out_of_tokens())
    assert got.json["choices"][0]["finish_reason"] == "length"
    assert chat_calls(got)[1]["function"]["arguments"] == '{"a":5'
    assert ask(kit.out_of_tokens(), wire="responses").json["status"] == "incomplete"
    assert ask(kit.out_of_tokens(), wire="messages").json["stop_reason"] == "max_tokens"
