"""Find the AI SDK for the tests with it, or fetch it: `python -m tests.serve.openai.node` does so for `make test`.

Its packages are those of `ai_sdk/package-lock.json`, each with its digest, in the cache of the user. Where there is no
node, or they cannot be fetched, the tests are skipped, which is said by this command and by each of them.
"""

import os
import shutil
import sys
from hashlib import blake2b
from pathlib import Path

from tests.serve.commands import CACHE, output_of

__all__ = ["CLIENT", "MISSING", "fetch_packages", "find_packages"]

_SOURCE = Path(__file__).parent / "ai_sdk"
_FILES = ("package.json", "package-lock.json")
CLIENT: Path = _SOURCE / "client.mjs"
"""The program that talks with a server by the AI SDK."""

MISSING = "no AI SDK: install Node.js 20 with npm, then run python -m tests.serve.openai.node"


def find_packages() -> Path | None:
    """Return the folder with the packages, or None if they are not there or there is no node."""
    folder = _folder()
    return folder if folder.is_dir() and shutil.which("node") else None


def _folder() -> Path:
    digest = blake2b(b"".join((_SOURCE / name).read_bytes() for name in _FILES), digest_size=8).hexdigest()
    return CACHE / "node" / digest


def fetch_packages() -> Path | None:
    """Return the folder with the packages, after fetching them if need be; None if that is impossible."""
    folder = _folder()
    if find_packages() is None and shutil.which("node"):
        fresh = folder.with_name(f"{folder.name}-{os.getpid()}")
        fresh.mkdir(parents=True)
        for name in _FILES:
            shutil.copy(_SOURCE / name, fresh)
        if output_of("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", folder=fresh) is not None:
            fresh.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
    return find_packages()


if __name__ == "__main__":
    packages = fetch_packages()
    if packages is None:
        sys.exit(f"\n*** SKIPPED: all tests with the AI SDK: {MISSING} ***\n")
    print(f"the tests with the AI SDK use {packages}")
