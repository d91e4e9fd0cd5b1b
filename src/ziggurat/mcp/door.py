"""mcp: a server by its command, its address or its entry in a file of settings."""

import os
import re
import shlex
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ziggurat.core import codec
from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.core.service import Effect
from ziggurat.core.settings import NonEmptyText, Seconds, checked
from ziggurat.http.connection import require_parser
from ziggurat.http.route import Route
from ziggurat.mcp.answers import Elicit
from ziggurat.mcp.client import McpClient
from ziggurat.mcp.settings import Settings
from ziggurat.mcp.wire import Authorization, Revision
from ziggurat.messages.model import Model
from ziggurat.models.resolving import resolve
from ziggurat.tools.permissions import Permissions, known

_RUNNERS = frozenset({"npx", "bunx", "pnpm", "dlx", "exec", "uvx", "uv", "run", "pipx", "node", "deno", "docker", "sh"})
_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_NO_PROGRAM = re.compile(r".*\.(json|py)|\w+://.*|[\w.-]+:\d+(/.*)?|(localhost|\w[\w-]*(\.[\w-]+)+)/.*")


@checked
def mcp(
    server: NonEmptyText | Sequence[str] | Mapping[str, Any],
    *,
    name: NonEmptyText | None = None,
    only: Collection[str] = ("*",),
    prefix: bool = False,
    effect: Effect | Mapping[str, Effect] | None = None,
    permissions: Permissions | None = None,
    approval: bool | Collection[str] = False,
    timeout: Seconds = 60.0,
    env: Mapping[str, str] | None = None,
    folder: str | None = None,
    headers: Mapping[str, str] | None = None,
    authorization: Authorization | None = None,
    model: str | Model | None = None,
    elicit: Elicit | None = None,
    roots: Sequence[str] = (),
    search: bool | None = None,
    required: bool = True,
    revision: Revision | None = None,
) -> McpClient:
    """Use the tools of a server of the Model Context Protocol, in either of its eras::

        files = mcp("npx -y @modelcontextprotocol/server-filesystem /data", approval=["write_file"])
        agent = Agent("openai:gpt-5-mini", tools=[files, mcp("https://example.com/mcp")])

    The tools are listed when a run begins, and recorded with it. They are tools like any others: with effects,
    permissions, approvals, time-outs and hooks. The origin of a result is the server and the tool, as in
    ``mcp:files/read_file``. A tool whose schema is broken is left out with a warning.

    Args:
        server: A command, an address that begins with http:// or https://, or an entry of a file of settings, with
            ``command``, ``args`` and ``env``, or ``url`` and ``headers``. ``${NAME}`` and ``${NAME:-default}`` in an
            entry are variables of the environment.
        name: Its name, in messages and before names of tools; by default made from the command or address.
        only: Names of tools to use, with ``*`` and ``?``.
        prefix: Whether the server's name is before the names of all its tools; otherwise only where two tools have the
            same name.
        effect: The effect of its tools, of all or by name. By default it is as the server says: ``"none"`` if it only
            reads, ``"once"`` if it destroys something and must not be repeated, otherwise ``"repeatable"``.
        permissions: The permissions that its tools need, such as ``["network"]``.
        approval: Whether a person must agree to each call; or the names of the tools for which that holds.
        timeout: Seconds that the server may be silent in a call. Progress that it reports counts as an answer, up to
            twenty times as long.
        env: Variables for the process of a command, which gets only a few of this process: no keys.
        folder: The folder in which a command runs.
        headers: Headers of each request to an address.
        authorization: Gives credentials to requests to an address, such as `OAuth`.
        model: A model that the server may ask, within the budget and the approvals of the run; by default none.
        elicit: Answers what the server asks a person. By default it is a question of the run, which waits for it.
        roots: Folders that the server is told it may work in.
        search: Whether a model finds the tools with `search_tools` instead of being shown all; by default if there are
            more than 40.
        required: Whether a run fails when the server cannot be reached at its beginning; if not, it has no tools then.
        revision: The revision of the protocol; by default what the server has, the newest first.

    Raises:
        ConfigurationError: an argument has a wrong type, or the entry or command cannot be read, or is no command.
        MissingExtra: it is an address, and the extra ``mcp`` is not installed.
    """
    entry = _entry(server, folder)
    url = entry.url
    if url:
        try:
            require_parser()
        except MissingExtra as error:
            raise MissingExtra(f"the MCP server at {url}", "mcp") from error
        Route(url)  # which refuses what is no address
    known(permissions or ())
    return McpClient(
        Settings(
            name=name or _name_of(entry),
            command=entry.words,
            env={**entry.env, **(env or {})},
            folder=folder or entry.cwd,
            url=url,
            headers={**entry.headers, **(headers or {})},
            authorization=authorization,
            revision=revision or "",
            timeout=timeout,
            prefix=prefix,
            only=tuple(only),
            effect=effect,
            permissions=permissions,
            approval=approval if isinstance(approval, bool) else tuple(approval),
            model=None if model is None else resolve(model),
            elicit=elicit,
            roots=tuple(roots),
            search=search,
            required=required,
        )
    )


@checked
def mcp_servers(path: str | Path, **settings: Any) -> dict[str, McpClient]:
    """Return the servers in a file of settings in the usual format, by name::

        agent = Agent(model, tools=[*mcp_servers("mcp.json").values()])

    The file has an object ``mcpServers`` (or ``servers``); entries that are ``"disabled"`` are left out.

    Args:
        path: The file.
        settings: Settings of `mcp` for all of them.

    Raises:
        ConfigurationError: the file cannot be read, or an entry is wrong.
    """
    try:
        content = msgspec.json.decode(Path(path).expanduser().read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"the file {str(path)!r} cannot be read: {error}") from error
    entries = content.get("mcpServers", content.get("servers"))
    if not isinstance(entries, dict):
        raise ConfigurationError(f"the file {str(path)!r} has no object 'mcpServers'")
    chosen = {name: entry for name, entry in entries.items() if not (isinstance(entry, dict) and entry.get("disabled"))}
    return {name: mcp(entry, name=name, **settings) for name, entry in chosen.items()}


class _Entry(msgspec.Struct, frozen=True):
    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}

    @property
    def words(self) -> tuple[str, ...]:
        return (self.command, *self.args) if self.command else ()


def _entry(server: str | Sequence[str] | Mapping[str, Any], folder: str | None) -> _Entry:
    if isinstance(server, str) and server.startswith(("http://", "https://")):
        return _Entry(url=server)
    if isinstance(server, Mapping):
        try:
            entry = codec.convert(_filled(dict(server)), _Entry)
        except msgspec.ValidationError as error:
            raise ConfigurationError(f"the entry of an MCP server is wrong: {error}") from error
        if bool(entry.command) == bool(entry.url):
            raise ConfigurationError(f"an MCP server has either a command or a url; got {dict(server)!r:.200}")
        return entry
    try:
        words = shlex.split(server) if isinstance(server, str) else [str(word) for word in server]
    except ValueError as error:
        raise ConfigurationError(f"the command {server!r:.200} cannot be read: {error}") from error
    if not words:
        raise ConfigurationError("mcp() takes a command, an address or an entry of a file of settings; got nothing")
    place = os.path.join(folder or "", words[0]) if "/" in words[0] else words[0]
    if len(words) == 1 and _NO_PROGRAM.fullmatch(words[0]) and shutil.which(place) is None:
        raise ConfigurationError(
            f"{words[0]!r:.200} is not a command, such as 'python server.py'; an address begins with http:// "
            "or https://, and mcp_servers() reads a file of settings"
        )
    return _Entry(words[0], tuple(words[1:]))


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each) for each in value]
    return _VARIABLE.sub(_variable, value) if isinstance(value, str) else value


def _variable(found: re.Match[str]) -> str:
    value = os.environ.get(found[1], found[2])
    if value is None:
        raise ConfigurationError(f"the variable {found[1]} of an entry of an MCP server is not set")
    return value


def _name_of(entry: _Entry) -> str:
    """Return a name made from a command or an address: ``files`` for ``npx -y @example/server-files@1.2 /data``."""
    if entry.url:
        text = urlsplit(entry.url).hostname or ""
        found = text.removeprefix("www.").removeprefix("mcp.").partition(".")[0] if not text[:1].isdigit() else ""
    else:
        words = [word for word in entry.words if not word.startswith("-")]
        word = next((each for each in words if Path(each).name not in _RUNNERS and "python" not in each), words[0])
        found = re.sub(r"@[\w.^~-]+$", "", word.rpartition("/")[2]).partition(".")[0]
        found = re.sub(r"^(mcp[-_])?(server[-_])?|([-_]server)?([-_]mcp)?$", "", found)
    return re.sub(r"[^A-Za-z0-9_-]", "_", found) or "mcp"
