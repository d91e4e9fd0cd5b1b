"""Information about providers for the command line: an example model of each, and its environment variables."""

import os
from collections.abc import Sequence

from ziggurat.cli.report import Report
from ziggurat.models.http.dialect import DIALECTS, Dialect
from ziggurat.models.selection import EXAMPLES


def example(provider: str) -> str:
    """Return an example model name of a provider, such as ``openai:gpt-5-mini``."""
    return f"{provider}:{EXAMPLES.get(provider, 'NAME')}"


def is_set(variables: Sequence[str]) -> str | None:
    """Return the first environment variable that is not empty, or None."""
    return next((name for name in variables if os.environ.get(name, "").strip()), None)


def key_state(dialect: Dialect) -> str:
    """Return which variable holds a provider's key, or should hold it; never the key itself."""
    variable = is_set(dialect.key_variables)
    if variable is not None:
        return f"{variable}: set"
    lack = "not set" if dialect.key_needed else "not set, none is needed"
    return f"{' or '.join(dialect.key_variables)}: {lack}"


def report_keys(report: Report) -> None:
    """Write for every provider whether its key is set, and which variables replace provider URLs."""
    report.title("Providers (keys are never shown)")
    users: dict[str, list[str]] = {}
    for dialect in DIALECTS.values():
        users.setdefault(key_state(dialect), []).append(dialect.name)
    for state, names in users.items():
        report.plain(f"{', '.join(names)}: {state}")
    bases = {name for dialect in DIALECTS.values() for name in dialect.base_variables if is_set((name,))}
    for name in sorted(bases):
        report.plain(f"{name}: set, replaces the provider's address")
