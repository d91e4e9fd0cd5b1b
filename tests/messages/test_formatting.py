"""Tests of short texts for calls, results, stops, times and costs."""

from typing import Any

import pytest

from ziggurat import AgentRun, Image, Text, ToolCall, ToolResult, Usage
from ziggurat.messages import Transcript, stops
from ziggurat.messages.formatting import call_text, duration, result_text, shortened, stop_text, usage_text


def test_a_text_is_one_line_of_a_given_width_and_hides_nothing() -> None:
    assert shortened("a\x1b]0;title\x07b\x9b1m\u202ec\td\r\ne") == "a\\u001b]0;title\\u0007b\\u009b1m\\u202ec d e"
    assert shortened(" a\n b  c ") == "a b c"
    assert shortened("abcdef", 4) == "abc…"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [('{"a":1,"b":"x"}', 'f(a=1, b="x")'), ("{}", "f()"), ("", "f()"), ("{oh", "f({oh)"), ("[1]", "f([1])")],
)
def test_a_call_is_shown_as_people_write_one(arguments: str, shown: str) -> None:
    assert call_text(ToolCall("1", "f", arguments)) == shown


def test_a_result_is_its_text_its_parts_or_its_error() -> None:
    assert result_text(ToolResult("1", "f", "144")) == "144"
    assert result_text(ToolResult("1", "f", "")) == "(nothing)"
    assert result_text(ToolResult("1", "f", (Text("see"), Image(b"x")))) == "see [image]"
    assert result_text(ToolResult("1", "f", "no such city", "not_found")) == "not_found: no such city"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0, "0.0 ms"), (0.0004, "0.4 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (59.94, "59.9 s"),
        (59.96, "1 min 0 s"), (3725.2, "62 min 5 s"),
    ],
)  # fmt: skip
def test_time_is_told_in_the_unit_that_suits_it(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


def test_unknown_tokens_are_called_unknown_and_estimates_estimates() -> None:
    assert usage_text(Usage(1200, 3, estimated=True)) == "tokens: about 1,200 in, 3 out"
    assert usage_text(Usage()) == "tokens unknown"
    assert usage_text(Usage(output=3)) == "tokens: unknown in, 3 out"
    assert usage_text(Usage(1200, 3, cache_read=1000)) == "tokens: 1,200 in (1,000 cached), 3 out"


def test_a_run_is_told_in_one_line() -> None:
    run = AgentRun(Transcript.of(), stops.Completed(), "", Usage(1, 2), 3, 1, 2, seconds=2.0)
    assert run.figures == "2 steps · 3 model calls · 1 tool call · tokens: 1 in, 2 out · unpriced · 2.0 s"


@pytest.mark.parametrize("stop", stops.Stop.__args__)
def test_every_stop_is_named(stop: Any) -> None:
    given = {"limit": 3, "name": "f", "tool": "f", "count": 3, "kind": "tokens", "used": 4, "reason": "no"}
    given |= {"seconds": 2.0, "error": "lost", "finish": "length", "run_id": "r~2"}
    made = stop(**{name: given[name] for name in stop.__struct_fields__})
    told = stop_text(made)
    assert told.lower().startswith(stop.__name__.lower())
    assert "None" not in told
