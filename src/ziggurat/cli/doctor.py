"""``ziggurat doctor``: what is installed, what is missing, and how to get it. It works without the extra ``cli``."""

import os
import platform
import re
import sys
from collections.abc import Sequence
from importlib import metadata

from ziggurat.cli.store import STORE
from ziggurat.cli.terminal import write
from ziggurat.databases.address import without_secrets
from ziggurat.models.http.dialect import DIALECTS, Dialect
from ziggurat.models.real import FORBID_VARIABLE
from ziggurat.models.selection import EXAMPLES, MODEL, select_model

_SETTINGS = (MODEL, STORE, "ZIGGURAT_CACHE", FORBID_VARIABLE, "ZIGGURAT_DEBUG", "NO_COLOR")
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:.*\bextra\s*==\s*['\"](?P<extra>[^'\"]+)['\"])?")


def version_text() -> str:
    return _version("ziggurat") or "unknown (not installed as a package)"


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _fine(text: str) -> None:
    write(f"  ✓ {text}")


def _missing(text: str, cure: str = "") -> None:
    write(f"  ✗ {text}  {cure}".rstrip())


def _plain(text: str) -> None:
    write(f"  · {text}")


def doctor() -> int:
    """Report what is installed, what is missing, and how to install it.

    Exit code: 0 if a model is found that can run, else 1. API keys are reported as set or not set, never shown.

    \b
    Example:
      ziggurat doctor
    """
    write("Python")
    _plain(f"{platform.python_implementation()} {platform.python_version()} on {platform.platform(terse=True)}")
    _plain(sys.executable)
    write("Ziggurat")
    _plain(f"ziggurat {version_text()}")
    complete = _report_extras(_extras())
    _report_keys()
    write("Model that is used where none is named")
    selected = select_model()
    _fine(f"{selected.name}: {selected.why}")
    write("Settings")
    for name in _SETTINGS:
        value = os.environ.get(name)
        _plain(f"{name}: {'not set' if value is None else without_secrets(value)}")
    ready = selected.name != "demo" or "local" in complete
    if ready:
        _fine('ready: ziggurat run "What is 12 * (7 + 5)?"')
    else:
        _missing("not ready: there is no other model, and the demo model needs: pip install 'ziggurat[local]'")
    return 0 if ready else 1


def _extras() -> dict[str, list[str]]:
    """Return the distributions that each extra needs; required ones under an empty name."""
    extras: dict[str, list[str]] = {}
    try:
        stated = metadata.requires("ziggurat") or []
    except metadata.PackageNotFoundError:
        stated = []
    for line in stated:
        match = _REQUIREMENT.match(line.strip())
        if match is not None and match["name"].lower() != "ziggurat" and match["extra"] != "all":
            extras.setdefault(match["extra"] or "", []).append(match["name"])
    return extras


def _report_extras(extras: dict[str, list[str]]) -> set[str]:
    complete: set[str] = set()
    for extra, names in extras.items():
        versions = {name: _version(name) for name in names}
        there = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        lacking = [name for name, version in versions.items() if version is None]
        label = f"extra {extra}: " if extra else ""
        if lacking:
            cure = f"pip install 'ziggurat[{extra}]'" if extra else "pip install --force-reinstall ziggurat"
            _missing(f"{label}missing {', '.join(lacking)}{' (has ' + there + ')' if there else ''}", cure)
        else:
            complete.add(extra)
            _fine(f"{label}{there}")
    return complete


def _report_keys() -> None:
    write("Providers (keys are never shown)")
    users: dict[str, list[str]] = {}
    for dialect in DIALECTS.values():
        users.setdefault(key_state(dialect), []).append(dialect.name)
    for state, names in users.items():
        _plain(f"{', '.join(names)}: {state}")
    bases = {name for dialect in DIALECTS.values() for name in dialect.base_variables if _is_set((name,))}
    for name in sorted(bases):
        _plain(f"{name}: set, replaces the provider's address")


def example(provider: str) -> str:
    return f"{provider}:{EXAMPLES.get(provider, 'NAME')}"


def _is_set(variables: Sequence[str]) -> str | None:
    return next((name for name in variables if os.environ.get(name, "").strip()), None)


def key_state(dialect: Dialect) -> str:
    """Return which variable holds a provider's key, or should hold it; never the key itself."""
    variable = _is_set(dialect.key_variables)
    if variable is not None:
        return f"{variable}: set"
    lack = "not set" if dialect.key_needed else "not set, none is needed"
    return f"{' or '.join(dialect.key_variables)}: {lack}"
