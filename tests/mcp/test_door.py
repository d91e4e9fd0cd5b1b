"""How servers are named and read from commands, addresses and files of settings."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError
from ziggurat.errors import MissingExtra
from ziggurat.mcp import mcp, mcp_servers
from ziggurat.testing import ScriptedModel


@pytest.mark.parametrize(
    ("server", "name"),
    [
        ("npx -y @modelcontextprotocol/server-filesystem /data", "filesystem"),
        ("npx -y @modelcontextprotocol/server-memory@1.2.3", "memory"),
        ("uvx mcp-server-time --local-timezone UTC", "time"),
        ("python tools/weather.py", "weather"),
        ("python -m weather_server", "weather"),
        (["/opt/my tools/search-mcp"], "search"),
        ("https://mcp.example.com/mcp", "example"),
        ("http://127.0.0.1:8000/mcp", "mcp"),
        ({"url": "https://search.example.com/x"}, "search"),
        ({"command": "docker", "args": ["run", "-i", "--rm", "mcp/time"]}, "time"),
    ],
)
def test_a_server_has_a_name(server: Any, name: str) -> None:
    assert mcp(server).name == name
    assert mcp(server, name="other").name == "other"


def test_an_entry_is_filled_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    entry = {"command": "x", "args": ["${HOST:-here}"], "env": {"KEY": "${TOKEN}", "ALSO": "${env:TOKEN}"}}
    settings = mcp(entry).settings
    assert settings.command == ("x", "here")
    assert settings.env == {"KEY": "secret", "ALSO": "secret"}
    with pytest.raises(ConfigurationError, match="MISSING"):
        mcp({"command": "${MISSING}"})


@pytest.mark.parametrize("server", ["", " ", [], {}, {"command": "a", "url": "http://b"}, {"command": 5}, 5, "a 'b"])
def test_what_is_no_server_is_refused(server: Any) -> None:
    with pytest.raises(ConfigurationError):
        mcp(wrong(server))


@pytest.mark.parametrize(
    ("server", "advice"),
    [
        ("localhost:8000/mcp", "http://"),
        ("localhost/mcp", "http://"),
        ("example.com:80", "http://"),
        ("mcp.example.com/mcp", "http://"),
        ("ws://localhost/mcp", "http://"),
        ("mcp.json", "mcp_servers"),
        ("config/mcp.json", "mcp_servers"),
        ("srv.py", "python server.py"),
        (["tools/srv.py"], "python server.py"),
    ],
)
def test_what_is_no_command_is_refused_with_advice(server: Any, advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        mcp(server)


def test_an_extra_that_is_missing_is_named_with_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    assert mcp("server").name == "server"
    with pytest.raises(MissingExtra, match="MCP") as missing:
        mcp("http://localhost/mcp")
    assert missing.value.extra == "mcp"


def test_a_server_that_is_not_passed_as_one_tool_is_refused_with_the_cure(tmp_path: Path) -> None:
    (file := tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    model, server, servers = ScriptedModel("x"), mcp("x"), mcp_servers(file)
    with pytest.raises(ConfigurationError, match=r"\[mcp\('x'\)\]"):
        Agent(model, tools=wrong(server))
    cures = (servers, r"\* before the values\(\)"), ([server], r"\* before it"), (servers.values(), r"\* before")
    for nested, cure in cures:
        with pytest.raises(ConfigurationError, match=cure):
            Agent(model, tools=wrong([nested]))
    assert Agent(model, tools=[*servers.values()]).name == "agent"


def test_a_permission_that_is_misspelt_is_refused_with_the_right_one() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'network'"):
        mcp("x", permissions=["netwrok"])


def test_no_secret_of_an_address_is_shown() -> None:
    assert "geheim" not in repr(mcp("https://example.com/mcp?token=geheim"))
    with pytest.raises(ConfigurationError, match="password") as raised:
        mcp("https://ada:geheim@example.com/mcp")
    assert "geheim" not in str(raised.value)


def test_a_program_may_have_any_name(tmp_path: Path) -> None:
    for name in ("srv.py", "a.b/run", "mcp.json"):
        (program := tmp_path / name).parent.mkdir(exist_ok=True)
        program.touch(0o755)
        assert mcp(str(program)).settings.command == (str(program),)
        assert mcp(f"./{name}", folder=str(tmp_path)).settings.command == (f"./{name}",)


def test_a_file_of_settings_gives_its_servers(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entries = {"a": {"command": "x", "args": ["y"]}, "b": {"url": "http://c", "type": "http"}, "c": {"disabled": True}}
    file.write_text(json.dumps({"mcpServers": entries, "other": 1}))
    servers = mcp_servers(file, timeout=5)
    assert {name: server.name for name, server in servers.items()} == {"a": "a", "b": "b"}
    assert servers["a"].settings.command == ("x", "y")
    assert servers["b"].settings.timeout == 5
    for content in ("{", "[]", "{}", '{"mcpServers": []}'):
        file.write_text(content)
        with pytest.raises(ConfigurationError, match=r"mcp\.json"):
            mcp_servers(file)
    with pytest.raises(ConfigurationError, match="none"):
        mcp_servers(tmp_path / "none.json")
