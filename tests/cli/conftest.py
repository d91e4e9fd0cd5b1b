"""Running the command line in this process."""

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from ziggurat.cli.main import main

AGENTS = str(Path(__file__).parent / "agents.py")


class Ended(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ended]


class Typed(io.StringIO):
    """Standard input or output that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The address of a store."""
    return f"sqlite:///{tmp_path}/runs.db"


@pytest.fixture
def ziggurat(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Call the command line with arguments and text on standard input."""
    monkeypatch.delenv("ZIGGURAT_MODEL", raising=False)
    monkeypatch.delenv("ZIGGURAT_DEBUG", raising=False)
    monkeypatch.setenv("ZIGGURAT_STORE", "memory:")
    for name in ("OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"):  # whatever listens on the ports of this machine
        monkeypatch.setenv(f"{name}_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*arguments: str, stdin: str = "") -> Ended:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = main(arguments)
        return Ended(code, *capsys.readouterr())

    yield run
    sys.modules.pop("agents", None)


@pytest.fixture
def kept(url: str, ziggurat: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("ZIGGURAT_STORE", url)
    return ziggurat


def listed(kept: Command, *options: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in kept("runs", "--json", *options).out.splitlines()]
