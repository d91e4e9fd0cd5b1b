"""Where a store keeps its data: paths, and URLs without their secrets."""

import os
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qsl, unquote

from msgspec import Meta

from ziggurat.core.errors import ConfigurationError, StoreError


def without_secrets(url: str) -> str:
    """Return a URL of any kind in a form safe to show: without user name, password, and password parameters."""
    return re.sub(r"(?i)((?:ssl)?password=)[^&]*", r"\1***", re.sub(r"(?<=//).*@", "***@", url, flags=re.DOTALL))


StorePath = Annotated[str | Path, Meta(description="such as 'agents.db'")]  # where a store keeps its data


def check_path(path: str | Path, store: object) -> Path:
    if not os.fspath(path).strip() or "\0" in os.fspath(path):
        raise ConfigurationError(f"{type(store).__name__}() takes a path, such as 'agents.db'; got {path!r}")
    if isinstance(path, str) and path.startswith(("sqlite:", "file:")):
        raise ConfigurationError(f"{type(store).__name__}() takes a path; an address such as {path!r} is for connect()")
    return Path(path)


def path_and_options(url: str, scheme: str, rest: str) -> tuple[Path, dict[str, str]]:
    """Return the path in the URL of a file or a folder, and the options after its question mark."""
    place, _, query = rest.partition("?")
    kind = "file" if scheme == "sqlite" else "folder"
    path = unquote(place[3:] if scheme == "sqlite" else place[2:])
    if not place.startswith("///") or not path.strip("/.") or "\0" in path:
        raise ConfigurationError(
            f"{url!r} names no {kind}: write its path after three slashes, as in "
            f"{'sqlite:///agents.db' if scheme == 'sqlite' else 'file:///var/lib/agents'}"
        )
    if scheme == "file":
        path = f"/{path.lstrip('/')}"
    if path.removeprefix("/").split("/")[0] == "~":
        there = os.path.expanduser(path.removeprefix("/"))
        raise ConfigurationError(
            f"{url!r}: ~ is not replaced by your home folder; write {'sqlite:///' if scheme == 'sqlite' else 'file://'}{there}"
        )
    if path == ":memory:":
        raise ConfigurationError("a database in memory does not outlive the process: use 'memory:' instead")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if query and not options:
        raise ConfigurationError(f"{url!r}: what follows the question mark is not an option such as synchronous=NORMAL")
    return Path(path), options


def take_seconds(url: str, options: dict[str, str], name: str, default: float) -> float:
    text = options.pop(name, None)
    if text is None:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ConfigurationError(f"{url!r}: {name} is a positive number of seconds, got {text!r}")
    return seconds


def take_synchronous(url: str, options: dict[str, str], known: str) -> Literal["FULL", "NORMAL"]:
    synchronous = options.pop("synchronous", "FULL").upper()
    refuse_unknown(url, options, known)
    if synchronous not in ("FULL", "NORMAL"):
        raise ConfigurationError(f"{url!r}: synchronous is FULL or NORMAL, got {synchronous!r}")
    return "NORMAL" if synchronous == "NORMAL" else "FULL"


def refuse_unknown(url: str, options: dict[str, str], known: str) -> None:
    if options:
        raise ConfigurationError(f"{url!r}: unknown options {', '.join(options)}; known are {known}")


_OLDEST = 3  # the oldest format of the tables of logs; databases of older ones lack columns


def check_format(where: str, version: int, newest: int) -> None:
    if version > newest:
        raise StoreError(f"{where} was written by a newer version (format {version}); upgrade ziggurat to open it")
    if 0 < version < _OLDEST:
        raise ConfigurationError(
            f"{where} was written by an older version (format {version}), and formats from {_OLDEST} on can be read: "
            "choose another place, and open this one with the version that wrote it"
        )
