"""Tests of asking at the terminal about pending calls."""

import builtins
import re
import sys
from collections.abc import Callable

import pytest

from tests.cli.conftest import AGENTS, Command, Typed
from tests.cli.test_chat import Person
from ziggurat import Agent, AgentRun, Approve, Deny, Modify, ToolCall
from ziggurat.agents import Decision, DidNotHappen, Happened, PendingItem
from ziggurat.cli.approve import ask_decisions
from ziggurat.cli.main import main
from ziggurat.messages import Transcript
from ziggurat.stops import Suspended
from ziggurat.testing import ScriptedModel

SHOWN = 'calculator needs approval:\n  {"expression":"12 * (7 + 5)"}\n'


def ask(
    monkeypatch: pytest.MonkeyPatch, person: Callable[[str], str], *options: str, agent: str = "plain"
) -> tuple[int, str]:
    screen = Typed()
    monkeypatch.setattr(sys, "stdin", Typed())
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(builtins, "input", person)
    monkeypatch.setenv("TERM", "dumb")
    return main(["run", "--agent", f"{AGENTS}:{agent}", *options, "what is it?"]), screen.getvalue()


def told(text: str) -> str:
    """Return what is on a screen, without ids and times."""
    return re.sub(r'\b[0-9a-f]{32}\b|"seconds":[0-9.e-]+|· [0-9.]+ m?s\b', "", text)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_run_asks_before_a_tool_that_fits_a_pattern(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    person = Person("y")
    code, text = ask(monkeypatch, person, "--approve", "calc*", *(["--quiet"] if quiet else []))
    assert code == 0
    assert "It is 144." in text
    assert len(person.asked) == 1
    assert SHOWN in text


def test_a_reason_is_a_no_that_the_model_is_told(ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = ask(monkeypatch, Person("use your head"), "--approve", "*")
    assert code == 0
    assert "denied: use your head" in text


def test_arguments_can_be_edited(ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    person = Person("e", '{ "expression": "2 + 3" }', "y")
    code, text = ask(monkeypatch, person, "--approve", "echo", "--approve", "calculator")
    assert code == 0
    assert '  {"expression":"2 + 3"}\n' in text
    assert "→ 5" in text


def test_patterns_that_do_not_fit_ask_nothing(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    person = Person()
    code, _ = ask(monkeypatch, person, "--approve", "remove_*")
    assert code == 0
    assert person.asked == []
    assert "no tool 'remove_*'; there are: calculator" in caplog.text
    caplog.clear()
    ask(monkeypatch, Person("y"), "--approve", "c*")
    assert "no tool" not in caplog.text


def test_whoever_breaks_off_has_agreed_to_nothing(ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = ask(monkeypatch, Person(KeyboardInterrupt), "--approve", "*")
    assert code == 130
    assert "144" not in told(text)


def test_without_a_terminal_it_waits_and_says_so(ziggurat: Command) -> None:
    options: list[tuple[str, ...]] = [(), ("--json",), ("--quiet",)]
    for each in options:
        ended = ziggurat("run", *each, "--agent", f"{AGENTS}:plain", "--approve", "calc*", "x")
        assert (ended.code, "144" in told(ended.out)) == (3, False)
        assert "nobody could be asked" in ended.err
        assert 'calculator(expression="12 * (7 + 5)")' in ended.err


def test_an_empty_pattern_is_wrong_usage(ziggurat: Command) -> None:
    ended = ziggurat("run", "--agent", f"{AGENTS}:plain", "--approve", "", "x")
    assert ended.code == 2
    assert "such as 'delete_*'" in ended.err


def pay(to: str) -> str:
    """Pay somebody."""
    return f"paid {to}"


PAYER = Agent(ScriptedModel(always="done"), tools=[pay])


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        (["y"], Approve()),
        (["YES"], Approve()),
        (["n"], Deny("the person said no")),
        ([], Deny("the person said no")),
        (["not to eve"], Deny("not to eve")),
        (["e", '{"to": "ann"}', "y"], Modify('{"to":"ann"}')),
        (["e", "{", "y"], Approve()),
        (["e", '{"to": 3}', "y"], Approve()),
        (["e", '{"to":"a","to":"b"}', "n"], Deny("the person said no")),
        (["e", "", "y"], Approve()),
        (["e", '{"to": "ann"}', "n", "n"], Deny("the person said no")),
    ],
)
def test_what_is_typed_is_a_decision_and_nothing_but_yes_runs_it(typed: list[str], decision: Decision) -> None:
    said: list[str] = []
    lines = list(typed)
    item = PendingItem(
        "id", "agent/step-1/tool-1:pay", ToolCall("1", "pay", '{ "to": "a\u202eb" }'), "it is \x1b[2Jmoney"
    )
    run = AgentRun(Transcript.of(), Suspended(), pending=(item,))
    assert ask_decisions(PAYER, run, lambda prompt: lines.pop(0) if lines else None, said.append) == {"id": decision}
    assert said[0] == 'pay needs approval (it is \\u001b[2Jmoney):\n  {"to":"a\\u202eb"}'


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        (["y", "the bank has it"], Happened("the bank has it")),
        (["yes", ""], Happened("it was done")),
        (["n"], DidNotHappen()),
        (["nobody answers"], Deny("nobody answers")),
        ([""], Deny("nobody has found out")),
    ],
)
def test_of_an_interrupted_call_it_is_asked_whether_it_took_effect(typed: list[str], decision: Decision) -> None:
    item = PendingItem("i", "agent", ToolCall("c", "pay", '{"to":"Ada"}'), interrupted=True)
    run = AgentRun(Transcript.of(), Suspended(), None, pending=(item,))
    said, answers = list[str](), iter(typed)
    assert ask_decisions(PAYER, run, lambda prompt: next(answers), said.append) == {"i": decision}
    assert said == ['pay was interrupted, and nobody knows whether it took effect:\n  {"to":"Ada"}']
