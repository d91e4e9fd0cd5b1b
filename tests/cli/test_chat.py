"""Tests of the chat command."""

import builtins
import sys

import pytest

from tests.cli.conftest import AGENTS, Command, Typed
from ziggurat.cli.main import main


def test_lines_on_a_pipe_are_questions_that_remember(ziggurat: Command) -> None:
    ended = ziggurat("chat", "-q", "--agent", f"{AGENTS}:memory", stdin="one\n\ntwo\n/clear\nthree\n")
    assert ended.out.splitlines() == [
        "you said 1 things, lastly one",
        "you said 2 things, lastly two",
        "you said 1 things, lastly three",
    ]
    assert ended.code == 0


def test_commands_are_answered_beside_the_answers(ziggurat: Command) -> None:
    ended = ziggurat("chat", "--agent", f"{AGENTS}:memory", stdin="/help\n/hepl\n/exit\nnever asked\n")
    assert ended.out == ""
    for told in ("/clear  forget", "no command /hepl; there are /help"):
        assert told in ended.err
    assert "never asked" not in ended.err


def test_a_failed_answer_on_a_pipe_shows_in_the_exit_code(ziggurat: Command) -> None:
    ended = ziggurat("chat", "--agent", f"{AGENTS}:failing", stdin="one\n")
    assert ended.code == 1
    assert "the provider is down" in ended.err


class Person:
    """Types lines; an exception class represents the key that raises it."""

    def __init__(self, *lines: str | type[BaseException]) -> None:
        self.lines = list(lines)
        self.asked: list[str] = []

    def __call__(self, prompt: str = "") -> str:
        self.asked.append(prompt)
        line = self.lines.pop(0) if self.lines else EOFError
        if isinstance(line, str):
            return line
        raise line


def talk(monkeypatch: pytest.MonkeyPatch, person: Person, agent: str, *options: str) -> tuple[int, str]:
    screen = Typed()
    monkeypatch.setattr(sys, "stdin", Typed())
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(builtins, "input", person)
    monkeypatch.setenv("TERM", "dumb")
    return main(["chat", "--agent", f"{AGENTS}:{agent}", *options]), screen.getvalue()


@pytest.mark.parametrize(
    ("answer", "result"),
    [("y", "→ 144"), ("", "✗ denied: the person said no"), ("use your head", "✗ denied: use your head")],
)
@pytest.mark.parametrize("agent", ["careful", "plain"])
def test_a_person_is_asked_for_what_needs_approval(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch, agent: str, answer: str, result: str
) -> None:
    person = Person("what is it?", answer)
    code, text = talk(monkeypatch, person, agent, *(["--approve", "calc*"] if agent == "plain" else []))
    assert person.asked == ["> ", "[y]es, [N]o, [e]dit the arguments, or say why not: ", "> "]
    assert 'calculator needs approval:\n  {"expression":"12 * (7 + 5)"}\n' in text
    assert result in text
    assert "It is 144." in text
    assert code == 0


def test_interrupting_a_decision_agrees_to_nothing_and_does_not_leave(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = Person("what is it?", KeyboardInterrupt)
    code, text = talk(monkeypatch, person, "careful")
    assert person.asked[-1] == "> "
    assert "(stopped)" in text
    assert "→ 144" not in text
    assert code == 0


def test_interrupting_the_prompt_does_not_leave(ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = talk(monkeypatch, Person("one", KeyboardInterrupt, "two"), "memory")
    assert "(Ctrl-D or /exit leaves)" in text
    assert "you said 2 things" in text
    assert code == 0


def test_interrupting_an_answer_takes_the_question_back(ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    person = Person("one")
    code, text = talk(monkeypatch, person, "interrupted")
    assert "(stopped)" in text
    assert person.asked == ["> ", "> "]
    assert code == 0
