"""Tests of the console view."""

import io
import re
import sys
import threading
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ziggurat import Agent, Approve, Deny, Event, ModelResponse, Modify, ToolCall, ToolResult, Usage, stack
from ziggurat.agents import PendingItem
from ziggurat.errors import MissingExtra, ModelError
from ziggurat.events import (
    CacheHit,
    CircuitChanged,
    Diverged,
    Dropped,
    Joined,
    Queued,
    Retrying,
    TextDelta,
    ThinkingDelta,
    UnderPressure,
)
from ziggurat.layers.retry import retry
from ziggurat.messages import assistant, events, tool_call
from ziggurat.observe import ConsoleView
from ziggurat.testing import ScriptedModel
from ziggurat.tools import calculator, echo

COST = Usage(input=100, output=10, requests=1)
SUM = tool_call("calculator", expression="6 * 7")


def shown(*happened: Event, **options: Any) -> str:
    """Return the output of a view for events, as one plain text."""
    out = io.StringIO()
    with ConsoleView(out, **options) as view:
        for event in happened:
            view(event)
    return out.getvalue()


def seen(agent: Agent, **options: Any) -> str:
    """Return the output of a view for a run, without times."""
    out = io.StringIO()
    with ConsoleView(out, **options) as view:
        agent.run_sync("go", listeners=[view])
    return re.sub(r"\b[\d.]+ (ms|s)\b", "T", out.getvalue())


def test_a_run_reads_as_steps_tools_text_and_cost() -> None:
    agent = Agent(ScriptedModel(SUM, "It is 42.", usage=COST), tools=[calculator])
    assert seen(agent).splitlines() == [
        "step 1",
        '● calculator(expression="6 * 7")',
        "  → 42  T",
        "step 2 · 110 tokens so far",
        "It is 42.",
        "✓ 2 steps · 1 tool call · tokens: 200 in, 20 out · unpriced · T",
    ]


def test_thinking_is_told_apart_and_text_can_be_left_out() -> None:
    model = ScriptedModel([ThinkingDelta("Hm. "), ThinkingDelta("So."), "Yes."], usage=COST)
    text = seen(Agent(model))
    assert "(thinking) Hm. So.\nYes.\n" in text
    again = ScriptedModel([ThinkingDelta("Hm."), "Yes."], usage=COST)
    assert "Yes" not in seen(Agent(again), text=False)


def test_nested_agents_are_indented_and_named() -> None:
    helper = Agent(ScriptedModel(SUM, "42", usage=COST), tools=[calculator], name="helper", description="Helps.")
    agent = Agent(ScriptedModel(tool_call("helper", input="6 * 7"), "It is 42.", usage=COST), tools=[helper])
    assert seen(agent).splitlines() == [
        "step 1",
        '● helper(input="6 * 7")',
        "  helper · step 1",
        '  ● calculator(expression="6 * 7")',
        "    → 42  T",
        "  helper · step 2",
        "  42",
        "  helper: 2 steps · 1 tool call · tokens: 200 in, 20 out · unpriced · T",
        '● helper(input="6 * 7")',
        "  → 42  T",
        "step 2 · 330 tokens so far",
        "It is 42.",
        "✓ 2 steps · 4 model calls · 2 tool calls · tokens: 400 in, 40 out · unpriced · T",
    ]


def test_several_tools_at_once_are_told_apart() -> None:
    calls = [tool_call("echo", text=text, id=text) for text in ("a", "b")]
    text = seen(Agent(ScriptedModel(calls, "done", usage=COST), tools=[echo]))
    lines = text.splitlines()
    for each in ("a", "b"):
        result = next(at for at, line in enumerate(lines) if line.startswith(f"  → {each}"))
        assert lines[result - 1] == f'● echo(text="{each}")'


def test_a_dropped_reply_is_said_to_be_dropped_and_a_retry_is_told() -> None:
    model = stack(ScriptedModel(["Half", ConnectionError("lost")], "Whole.", usage=COST), retry(attempts=2, base=0.0))
    text = seen(Agent(model))
    assert text.index("Half\n") < text.index("(what was said there does not count: ") < text.index("↻ try 1 failed")
    assert text.index("↻ try 1 failed") < text.index("Whole.\n")


@pytest.mark.parametrize(
    ("agent", "last"),
    [
        (
            Agent(ScriptedModel(ModelError("down"))),
            ["✗ Failed: ModelError: down", "  1 step · tokens: about 7 in, 1,024 out"],
        ),
        (
            Agent(ScriptedModel(always=SUM, usage=COST), tools=[calculator], max_steps=1),
            ["■ MaxSteps: it took 1 step, as many as it may", "  1 step · 1 tool call"],
        ),
    ],
)
def test_the_last_line_says_why_a_run_stopped(agent: Agent, last: list[str]) -> None:
    lines = seen(agent).splitlines()[-2:]
    assert lines[0] == last[0]
    assert lines[1].startswith(last[1])


def delta(path: str, text: str) -> events.Delta:
    return events.Delta(path, TextDelta(text))


def ended(path: str, text: str) -> events.ModelEnded:
    return events.ModelEnded(path, ModelResponse(assistant(text)))


STARTED = [events.AgentStarted(path, path[-1], "r") for path in ("t", "t/a", "t/b")]
ONE, TWO, THREE = delta("t/a/model", "one "), delta("t/b/model", "two"), delta("t/a/model", "three")
DROPPED = Dropped("t/model/alt-2", "another answer was taken")


@pytest.mark.parametrize(
    ("happened", "text"),
    [
        (
            [*STARTED, ONE, TWO, THREE, ended("t/a/model", "one three"), ended("t/b/model", "two")],
            "  a:\n  one three\n  b:\n  two\n",
        ),
        (
            [*STARTED, ONE, TWO, ended("t/b/model", "two"), THREE, ended("t/a/model", "one three")],
            "  b:\n  two\n  a:\n  one three\n",
        ),
        (
            [
                STARTED[0],
                delta("t/model/alt-1", "one"),
                delta("t/model/alt-2", "two"),
                DROPPED,
                ended("t/model", "one"),
            ],
            "one\n",
        ),
        ([DROPPED], ""),
        ([events.MiddlewareStarted("t", "m", "before_model"), events.StepEnded("t", 1)], ""),
    ],
)
def test_models_that_speak_at_once_are_written_one_after_the_other(happened: list[Event], text: str) -> None:
    assert shown(*happened) == text


CALL = ToolCall("1", "send", '{"to":"a"}')
ITEM = PendingItem("id", "t/tool", CALL, "it writes")


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (events.Warned("t", "beware"), "■ beware"),
        (events.LoopWarning("t", "send", 3), "■ send was called 3 times in the same way"),
        (events.ToolAbandoned("t", "send", 1), "■ send did not stop when it was cancelled and was abandoned (1 call"),
        (Diverged("t", "model", "a", "b"), "■ model differs from the record, which is used: a was recorded, b was"),
        (events.MemoryRecalled("a", "ann", ("one", "two\nlines")), "recalled of ann: one; two lines"),
        (events.MemoryStored("a", "ann", ("one",), ("m1",)), "remembered for ann: one"),
        (CacheHit("t", "k"), "answered from a cache"),
        (Queued("t", "rate", 2, 1.5), "waits for its turn (rate, 2 ahead, about 1.5 s)"),
        (Queued("t", "concurrency", 0), "waits for its turn (concurrency, 0 ahead)"),
        (CircuitChanged("t", "c", "open", "half_open"), "■ circuit breaker 'c': open → half open"),
        (UnderPressure("t", 9, 8, 10), "■ 9 calls are under way; from 10 on calls are refused"),
        (Joined("t", "k"), "waits for the same call"),
        (Retrying("t", 2, "lost", 0.0), "↻ try 2 failed, again now: lost"),
        (events.ApprovalRequested("t", ITEM), '  ‖ needs approval (it writes): send(to="a")'),
        (events.ApprovalDecided("t", "id", CALL, Approve()), "  approved"),
        (events.ApprovalDecided("t", "id", CALL, Deny("no")), "  denied: no"),
        (events.ApprovalDecided("t", "id", CALL, Modify("{}")), "  approved with other arguments: {}"),
        (events.ToolDelta("t", "send", "half\nway"), "  send: half way"),
        (events.ModelEnded("t", ModelResponse(assistant("x"), "length")), "the reply ended early: length"),
    ],
)
def test_other_events_are_a_line_each(event: Event, line: str) -> None:
    assert shown(event).startswith(line)


def test_a_recorded_result_is_said_to_be_one() -> None:
    text = shown(events.ToolEnded("t", CALL, ToolResult("1", "send", "sent"), 0.0, True))
    assert text == '● send(to="a")\n  → sent (from the record)\n'


def test_escapes_of_models_and_tools_do_not_reach_the_terminal() -> None:
    evil = "\x1b[2J\x9b2J\u202e"
    call = ToolCall("1", "f", '{"x":"' + "\\u001b[2J" + '"}')
    text = shown(
        delta("t", evil),
        ended("t", evil),
        events.ToolStarted("t/f", call),
        events.ToolEnded("t/f", call, ToolResult("1", "f", evil)),
        events.Warned("t", evil + "[bold]not markup[/bold] :smile:"),
        terminal=False,
    )
    assert not set(text) & set("\x1b\x9b\u202e")
    assert "[bold]not markup[/bold] :smile:" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_a_width_that_is_not_known_hides_nothing(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    agent = Agent(ScriptedModel(tool_call("echo", text="hello"), "Done."), tools=[echo])
    assert "hello" in seen(agent, terminal=terminal)


def test_a_terminal_gets_colours_unless_it_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[36m" in shown(events.ToolStarted("t", CALL), terminal=True, width=80)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36m" not in shown(events.ToolStarted("t", CALL), terminal=True, width=80)


def test_a_file_gets_no_escapes_even_where_colours_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in shown(events.ToolStarted("t", CALL), events.Warned("t", "beware"))


def test_lines_on_a_terminal_keep_within_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    call = ToolCall("1", "send", '{"text":"' + "word " * 50 + '"}')
    text = shown(
        events.ToolStarted("t", call),
        events.ToolEnded("t", call, ToolResult("1", "send", "answer " * 50)),
        events.Warned("t", "beware " * 30),
        delta("t", "long text " * 30),
        terminal=True,
        width=60,
    )
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert max(map(len, text.splitlines())) <= 60
    assert text.count("answer") < 10


def on_screen(output: str) -> list[str]:
    """Return the lines of a terminal after an output that moves up and erases lines, without trailing spaces."""
    lines, at = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[a-zA-Z]|\r|\n|[^\x1b\r\n]+", output):
        if part == "\n":
            at += 1
            lines += [""] * (at + 1 - len(lines))
        elif part == "\x1b[1A":
            at -= 1
        elif part == "\x1b[2K":
            lines[at] = ""
        elif part[0] not in "\x1b\r":
            lines[at] += part
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").split("\n")


STREAMED = st.lists(st.text(alphabet="ab \n\r", max_size=8), min_size=1, max_size=12)


@given(STREAMED, st.sampled_from([None, 12, 20]))
def test_how_a_streamed_text_is_cut_into_pieces_does_not_show(pieces: list[str], width: int | None) -> None:
    text = "".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm-256color")
        outputs = [
            shown(*STARTED[:2], *(delta("t/a/model", each) for each in said), terminal=width is not None, width=width)
            for said in (pieces, [text])
        ]
    cut, whole = ([line.split() for line in on_screen(output)] for output in outputs)
    assert cut == whole
    if "\r" not in text:
        assert "".join(word for line in whole[1:] for word in line) == "".join(text.split())


@pytest.mark.parametrize(("width", "lines"), [(None, ["  one two three"]), (12, ["  one two", "  three"])])
def test_streamed_lines_are_indented(monkeypatch: pytest.MonkeyPatch, width: int | None, lines: list[str]) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    text = "\n  zero\n\none two three"
    output = shown(*STARTED[:2], *(delta("t/a/model", each) for each in text), terminal=width is not None, width=width)
    assert on_screen(output) == ["  a:", "  zero", "", *lines]


def test_the_unfinished_lines_of_all_models_are_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    shown_now = {name: threading.Event() for name in ("unfinished", "another")}

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            for name, event in shown_now.items():
                if name in text:
                    event.set()
            return super().write(text)

    with ConsoleView(Watched(), terminal=True, width=40) as view:
        for event in (*STARTED, delta("t/a/model", "unfinished"), delta("t/b/model", "another")):
            view(event)
        assert all(event.wait(10) for event in shown_now.values())


def test_the_cursor_is_given_back_when_a_run_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt), ConsoleView(out, terminal=True, width=60) as view:
        view(events.ModelStarted("t/model", "m", 1))
        raise KeyboardInterrupt
    assert out.getvalue().count("\x1b[?25l") == out.getvalue().count("\x1b[?25h") == 1


def test_a_terminal_with_few_letters_gets_what_it_can_show() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    view = ConsoleView(file)
    for event in (events.ToolStarted("t", CALL), delta("t", "caf\u00e9"), ended("t", "")):
        view(event)
    file.seek(0)
    assert file.read() == '* send(to="a")\ncaf?\n'


class Gone(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_has_left_does_not_disturb_the_run(caplog: pytest.LogCaptureFixture) -> None:
    run = Agent(ScriptedModel(SUM, "42", usage=COST), tools=[calculator]).run_sync("x", listeners=[ConsoleView(Gone())])
    assert run.text == "42"
    assert not caplog.records


def test_without_rich_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ziggurat\[cli\]'"):
        ConsoleView()


async def test_one_view_serves_many_runs() -> None:
    agent = Agent(ScriptedModel(always="Hi.", usage=COST))
    out = io.StringIO()
    view = ConsoleView(out)

    for _ in range(2):
        await agent.run("x", listeners=[view])
    assert out.getvalue().count("step 1\nHi.\n✓ 1 step") == 2
