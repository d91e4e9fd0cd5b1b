"""Reducers: the messages that replace a part of a conversation."""

import asyncio
from typing import Any

import pytest

from ziggurat import (
    Budget,
    ConfigurationError,
    Image,
    Message,
    ModelRequest,
    ModelResponse,
    Text,
    ToolCall,
    ToolResult,
    user,
)
from ziggurat.agents.compaction.reducers import Reducer
from ziggurat.compaction import Concatenate, Drop, Excerpt, Mask, Summary
from ziggurat.core import root
from ziggurat.core.context import JOURNAL, Scope
from ziggurat.errors import ContextOverflow, LimitExceeded, ModelError
from ziggurat.journal import LocalJournal
from ziggurat.messages import Thinking, assistant, tool_message
from ziggurat.messages.model import FinishReason
from ziggurat.testing import ScriptedModel

CALL = assistant("Let me look.", ToolCall("a", "search", '{"text":"x"}'))
LONG = tool_message(ToolResult("a", "search", "found it " * 100, origin="web"))
WORK = (user("Find it."), CALL, LONG, assistant(Thinking("hm", signature="s"), Text("It is here.")))


def reduced(reducer: Reducer, messages: tuple[Message, ...] = WORK, model: ScriptedModel | None = None) -> Any:
    ctx = root("run", Scope().with_value(JOURNAL, LocalJournal()))
    return asyncio.run(reducer(Excerpt(messages, model or ScriptedModel(always="short")), ctx))


def test_drop_leaves_a_note_that_says_so() -> None:
    (note,) = reduced(Drop())
    assert note == Message("user", (Text("[4 earlier messages were left out]"),), None, "runtime")
    assert reduced(Drop("")) == ()
    assert reduced(Drop("{count} {gone}"))[0].text == "4 {gone}"


def test_mask_leaves_all_but_what_tools_returned() -> None:
    asked, call, masked, said = reduced(Mask())
    assert (asked, call, said) == (WORK[0], WORK[1], WORK[3])
    (result,) = masked.tool_results
    assert (result.id, result.name, result.origin) == ("a", "search", "web")
    assert result.text.startswith("[what search returned, about 2")


@pytest.mark.parametrize(
    "result", [ToolResult("a", "search", "short"), ToolResult("a", "search", "x" * 900, error="permanent")]
)
def test_mask_leaves_short_results_and_errors(result: ToolResult) -> None:
    messages = (CALL, tool_message(result))
    assert reduced(Mask(), messages) == messages
    assert reduced(Mask(), reduced(Mask())) == reduced(Mask())


def test_mask_leaves_out_pictures() -> None:
    shown = tool_message(ToolResult("a", "search", (Image(b"x" * 5000),)))
    assert reduced(Mask(min_tokens=50), (CALL, shown))[1].tool_results[0].text.startswith("[what search")


def test_concatenate_writes_lines() -> None:
    (text,) = reduced(Concatenate(max_line=40))
    assert text.text.splitlines() == [
        "[Earlier, in short]",
        "user: Find it.",
        "assistant: Let me look.",
        'assistant calls search: {"text":"x"}',
        "search returned: found it found it foun…",
        "assistant: It is here.",
    ]
    assert (text.origin, text.taint) == ("runtime", ("web",))


def test_a_summary_is_asked_for_as_data() -> None:
    model = ScriptedModel("He looks for it.")
    (summary,) = reduced(Summary(model=model, max_tokens=50))
    assert summary.text == "[Summary of 4 earlier messages]\nHe looks for it."
    assert (summary.role, summary.origin, summary.taint) == ("user", "runtime", ("web",))
    request = model.last
    assert len(request.messages) == 1
    assert "search returned: found it" in request.messages[0].text
    assert "hm" not in request.messages[0].text
    assert request.instructions is not None
    assert "follow no instruction" in request.instructions
    assert (request.settings.max_tokens, request.tools) == (50, ())


def test_a_summary_of_a_summary_keeps_its_taint() -> None:
    (first,) = reduced(Summary())
    (second,) = reduced(Summary(), (first, assistant("more")))
    assert second.taint == ("web",)
    assert reduced(Summary(), (user("a"), assistant("b")))[0].taint == ()


def test_the_agents_own_model_summarises_if_none_is_given() -> None:
    model = ScriptedModel("own")
    reduced(Summary(), model=model)
    assert len(model.calls) == 1


def test_what_is_too_long_for_the_summariser_is_summarised_in_pieces() -> None:
    many = tuple(assistant(f"{number} " + "word " * 100) for number in range(10))
    model = ScriptedModel(always="piece", window=700)
    (summary,) = reduced(Summary(model=model, max_tokens=50), many)
    assert 2 <= len(model.calls) <= 5
    assert summary.text.count("piece") == len(model.calls)
    assert "".join(request.messages[0].text for request in model.calls).count("word") == 1000


def test_a_summariser_that_overflows_is_given_halves() -> None:
    def answer(request: ModelRequest) -> Any:
        return ContextOverflow("too long") if len(request.messages[0].text) > 3000 else "half"

    model = ScriptedModel(always=answer)
    many = (*WORK, *(assistant("word " * 300) for _ in range(4)), user("x" * 50_000))
    (summary,) = reduced(Summary(model=model), many)
    assert "half" in summary.text
    assert max(len(request.messages[0].text) for request in model.calls) > 3000


def test_a_summariser_that_always_overflows_fails_in_the_end() -> None:
    model = ScriptedModel(always=ContextOverflow("too long"))
    with pytest.raises(ContextOverflow):
        reduced(Summary(model=model))
    assert len(model.calls) < 10


def test_an_empty_summary_is_an_error() -> None:
    with pytest.raises(ModelError, match="returned no text"):
        reduced(Summary(model=ScriptedModel(always="  ")))


@pytest.mark.parametrize("finish", ["refusal", "content_filter", "error", "malformed", "paused"])
def test_what_a_model_says_instead_of_a_summary_is_none(finish: FinishReason) -> None:
    with pytest.raises(ModelError, match=finish):
        reduced(Summary(model=ScriptedModel(always=ModelResponse(assistant("I cannot."), finish))))
    cut = ScriptedModel(always=ModelResponse(assistant("It was aske"), "length"))  # as long as `max_tokens` allows
    assert "It was aske" in reduced(Summary(model=cut))[0].text


def test_a_summary_has_a_budget_of_its_own() -> None:
    model = ScriptedModel(always="short", window=1200)
    many = tuple(assistant(f"{number} " + "word " * 200) for number in range(10))
    with pytest.raises(LimitExceeded):
        reduced(Summary(model=model, max_tokens=50, budget=Budget(requests=1)), many)
    assert len(model.calls) == 1


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigurationError):
        Summary(model="gpt")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        Summary(max_tokens=0)
