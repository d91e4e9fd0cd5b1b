"""Tests of providers on the command line: a fake one that answers, refuses, or is unreachable."""

import json
import socket
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Command
from tests.samples import sample
from ziggurat.fake_provider import FakeProvider, status
from ziggurat.messages import tool_call
from ziggurat.models.http.dialect import DIALECTS

WIRES = {"openai": "OPENAI", "openai-responses": "OPENAI", "anthropic": "ANTHROPIC"}
one_wire = pytest.mark.parametrize("wire", sample(WIRES, 1))
KEY = "sk-very-secret-8812"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for dialect in DIALECTS.values():
        for name in (*dialect.key_variables, *dialect.base_variables):
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """A provider that calls for a sum and states it, configured through the environment."""
    with FakeProvider(tool_call("calculator", expression="12 * (7 + 5)"), always="It is 144.") as server:
        for prefix in ("OPENAI", "ANTHROPIC"):
            monkeypatch.setenv(f"{prefix}_BASE_URL", server.url + "/v1")
            monkeypatch.setenv(f"{prefix}_API_KEY", KEY)
        yield server


@pytest.fixture
def nowhere() -> Iterator[str]:
    """Return an address on which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}/v1"


def one_line(text: str, start: str = "ziggurat: ") -> str:
    lines = [line for line in text.splitlines() if line.startswith(start)]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    assert KEY not in text
    return lines[0]


@pytest.mark.parametrize("wire", WIRES)
def test_a_question_is_answered_by_a_provider(ziggurat: Command, provider: FakeProvider, wire: str) -> None:
    ended = ziggurat("run", "--model", f"{wire}:fake", "What is 12 * (7 + 5)?")
    assert (ended.code, ended.out) == (0, "It is 144.\n")
    assert 'calculator(expression="12 * (7 + 5)")' in ended.err
    assert len(provider.requests) == 2
    assert KEY in f"{provider.last.header('authorization')} {provider.last.header('x-api-key')}"
    assert KEY not in ended.err


def test_a_provider_is_named_by_its_address_and_needs_no_key(
    ziggurat: Command, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    ended = ziggurat("run", "--quiet", "--model", f"openai@{provider.url}/v1:fake", "What is 12 * (7 + 5)?")
    assert (ended.code, ended.out, ended.err) == (0, "It is 144.\n", "")
    assert provider.last.header("authorization") is None


@one_wire
def test_events_of_a_provider_are_written_as_json(ziggurat: Command, provider: FakeProvider, wire: str) -> None:
    ended = ziggurat("run", "--json", "--model", f"{wire}:fake", "What is 12 * (7 + 5)?")
    events = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0
    assert all(seen.stream for seen in provider.requests)
    assert {"ModelStarted", "Delta", "ToolStarted"} <= {each["event"] for each in events}
    assert events[-1]["event"] == "AgentEnded"
    assert events[-1]["run"]["stop"]["stop"] == "Completed"
    assert KEY not in ended.out


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["plain", "json"])
@one_wire
def test_a_wrong_key_is_told_with_its_variable(
    ziggurat: Command, provider: FakeProvider, wire: str, options: tuple[str, ...]
) -> None:
    provider.use(status(401, f"Incorrect API key provided: {KEY}"))
    ended = ziggurat("run", *options, "--model", f"{wire}:fake", "x")
    told = one_line(ended.err)
    assert ended.code == 1
    assert f"{wire} answered 401" in told
    assert f"check the key in {WIRES[wire]}_API_KEY" in told
    assert KEY not in ended.out
    if options:
        last = json.loads(ended.out.splitlines()[-1])
        assert (last["event"], last["run"]["stop"]["stop"]) == ("AgentEnded", "Failed")


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["plain", "json"])
@one_wire
def test_a_provider_that_is_down_is_told_with_its_address(
    ziggurat: Command, nowhere: str, wire: str, options: tuple[str, ...]
) -> None:
    ended = ziggurat("run", *options, "--model", f"{wire}@{nowhere}:fake", "x")
    assert ended.code == 1
    told = one_line(ended.err)
    assert f"{wire} at {nowhere.removesuffix('/v1')} cannot be reached" in told


def test_a_missing_key_is_wrong_use_and_names_the_variable(ziggurat: Command) -> None:
    ended = ziggurat("run", "--model", "anthropic:fake", "x")
    assert ended.code == 2
    assert "anthropic needs a key: set the environment variable ANTHROPIC_API_KEY" in one_line(ended.err)


def test_every_provider_is_listed_with_the_variables_of_its_key(
    ziggurat: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    listed = ziggurat("models", "list").out
    report = ziggurat("doctor").out
    for dialect in DIALECTS.values():
        (line,) = [line for line in listed.splitlines() if line.startswith(f"{dialect.name}:")]
        assert " or ".join(dialect.key_variables) in line or "GROQ" in line
        assert f"{dialect.name}:" in report or f"{dialect.name}," in report
    assert "GROQ_API_KEY: set\n" in listed
    assert "groq: GROQ_API_KEY: set\n" in report
    assert "ollama: OLLAMA_API_KEY: not set, none is needed\n" in report
    assert KEY not in listed + report
