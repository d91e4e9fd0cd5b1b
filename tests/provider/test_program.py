"""Tests of the fake provider as a program, its JSON scripts."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.provider import quirks
from tests.provider.__main__ import main
from tests.provider.script_file import load_script
from ziggurat import ConfigurationError, ModelResponse
from ziggurat.errors import ModelError

ROOT = Path(__file__).parents[3]


def test_the_program_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('["Hello", {"tool_calls": [{"name": "add", "arguments": {"a": 1}}]}]')
    command = [sys.executable, "-m", "tests.provider", "--script", str(script), "--quirk", "status=503,on=2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = program.stdout.readline().strip() + "/v1/messages"
        body = b'{"model": "m", "max_tokens": 9, "messages": []}'
        with urllib.request.urlopen(url, body) as reply:
            assert json.load(reply)["content"] == [{"type": "text", "text": "Hello"}]
        with pytest.raises(urllib.error.HTTPError, match="503") as raised:
            urllib.request.urlopen(url, body)
        raised.value.close()
        with urllib.request.urlopen(url, body) as reply:
            assert json.load(reply)["content"][0]["input"] == {"a": 1}
        program.send_signal(signal.SIGTERM)
        assert program.wait() == 0


def test_the_program_lists_its_quirks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"{entry.name}(" in listed and entry.says in listed for entry in quirks())


@pytest.mark.parametrize("arguments", [["--quirk", "nothing"], ["--script", "/nowhere.json"]])
def test_the_program_says_what_is_wrong(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.strip()


def test_scripts() -> None:
    script = load_script(
        """{"replies": ["Hi", {"text": "I add.", "thinking": "hm", "signature": "proof", "finish": "length",
        "tool_calls": [{"name": "add", "arguments": "{broken", "id": "x"}], "usage": {"input": 3}},
        {"error": {"kind": "rate_limited", "message": "slow", "retry_after": 2}}],
        "rules": [{"when": "weather", "reply": "Rain."}], "always": "No."}"""
    )
    hello, called, refused = script.replies
    assert (hello, script.rules, script.always) == ("Hi", (("weather", "Rain."),), "No.")
    assert isinstance(called, ModelResponse)
    assert (called.message.thinking, called.text, called.finish, called.usage.input) == ("hm", "I add.", "length", 3)
    assert (called.tool_calls[0].id, called.tool_calls[0].arguments) == ("x", "{broken")
    assert isinstance(refused, ModelError)
    assert (refused.kind, refused.retry_after) == ("rate_limited", 2)


@pytest.mark.parametrize("text", ["", "7", '{"reply": []}', '[{"txt": 1}]', '[{"error": {"kind": "odd"}}]'])
def test_scripts_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_script(text)
