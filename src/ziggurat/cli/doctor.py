"""``ziggurat doctor``: what is installed, what is missing, and how to get it."""

import os
import platform
import re
import sys
from importlib import metadata

from ziggurat.cli.providers import report_keys
from ziggurat.cli.report import Report
from ziggurat.cli.store import STORE
from ziggurat.databases.address import without_secrets
from ziggurat.models.real import FORBID_VARIABLE
from ziggurat.models.selection import MODEL, SelectedModel, select_model

_SETTINGS = (MODEL, STORE, "ZIGGURAT_CACHE", FORBID_VARIABLE, "ZIGGURAT_DEBUG", "NO_COLOR")
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:.*\bextra\s*==\s*['\"](?P<extra>[^'\"]+)['\"])?")


def version_text() -> str:
    """Return this package's version, or a note that it is not installed."""
    return _version("ziggurat") or "unknown (not installed as a package)"


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def doctor() -> int:
    """Write a report on this installation; return 0 if ``ziggurat run`` finds a model, else 1."""
    report = Report()
    report.title("Python")
    report.plain(f"{platform.python_implementation()} {platform.python_version()} on {platform.platform(terse=True)}")
    report.plain(sys.executable)
    report.title("Ziggurat")
    report.plain(f"ziggurat {version_text()}")
    extras = _extras()
    complete = _report_extras(report, extras)
    report_keys(report)
    selected = _report_selected(report)
    report.title("Settings")
    for name in _SETTINGS:
        value = os.environ.get(name)
        report.plain(f"{name}: {'not set' if value is None else without_secrets(value)}")
    ready = selected.name != "local" or "local" in complete
    if ready:
        report.fine('ready: ziggurat run "What is 12 * (7 + 5)?"')
    else:
        report.missing("not ready: there is no other model, and the embedded one needs: pip install 'ziggurat[local]'")
    return 0 if ready else 1


def _report_selected(report: Report) -> SelectedModel:
    report.title("Model that is used where none is named")
    selected = select_model()
    report.fine(f"{selected.name}: {selected.why}")
    return selected


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


def _report_extras(report: Report, extras: dict[str, list[str]]) -> set[str]:
    """Write what is installed; return the extras that are complete."""
    complete: set[str] = set()
    for extra, names in extras.items():
        versions = {name: _version(name) for name in names}
        there = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
        lacking = [name for name, version in versions.items() if version is None]
        label = f"extra {extra}: " if extra else ""
        if lacking:
            cure = f"pip install 'ziggurat[{extra}]'" if extra else "pip install --force-reinstall ziggurat"
            report.missing(f"{label}missing {', '.join(lacking)}{' (has ' + there + ')' if there else ''}", cure)
        else:
            complete.add(extra)
            report.fine(f"{label}{there}")
    return complete
