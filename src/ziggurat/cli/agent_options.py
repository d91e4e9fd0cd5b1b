"""The command-line options that define an agent; they are stored with its run, so that it can be built again."""

import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ziggurat.cli.terminal import write
from ziggurat.core.codec import Raw, decode
from ziggurat.core.entries import Opened
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.journal import LocalJournal
from ziggurat.models.selection import MODEL, select_model

"""The environment variable with the default model, used when no option names one."""


class AgentOptions(Struct, frozen=True):
    """The options as given; None or empty for those that were not given."""

    model: str | None = None
    tools: tuple[str, ...] = ()
    agent: str | None = None
    instructions: str | None = None
    max_steps: int | None = None
    timeout: float | None = None
    approve: tuple[str, ...] = ()
    folder: str | None = None
    memory: str | None = None


_LABEL = "command line"


class _Labels(msgspec.Struct, rename={"options": _LABEL}):
    """The label that the command line sets on a run."""

    options: AgentOptions | None = None


def labels_of(options: AgentOptions) -> Mapping[str, Any]:
    """Return the label that stores these options with a run: with absolute paths and the resolved default model."""
    model = (
        options.model if options.model is not None or options.agent is not None else os.environ.get(MODEL) or "local"
    )
    resolved = replace(
        options,
        model=model,
        agent=None if options.agent is None else _whole(options.agent),
        tools=tuple(_whole(tool) for tool in options.tools),
        folder=os.getcwd(),
    )
    return {_LABEL: {name: value for name, value in asdict(resolved).items() if value not in (None, ())}}


def with_model(options: AgentOptions, *, quiet: bool = False) -> AgentOptions:
    """Return options that name a model: where none is named, the selected one, which is written on standard error."""
    named = options.model if options.model is not None else os.environ.get(MODEL) or "auto"
    if options.agent is not None or named.strip() != "auto":
        return options
    selected = select_model()
    if not quiet:
        write(f"model: {selected.name} ({selected.why})\n", sys.stderr)
    return replace(options, model=selected.name)


def _whole(spec: str) -> str:
    where, colon, name = spec.rpartition(":")
    return f"{os.path.abspath(os.path.expanduser(where))}:{name}" if colon and where.endswith(".py") else spec


def options_in(journal: LocalJournal) -> AgentOptions | None:
    """Return the options of a run's agent, or None if the command line did not start the run."""
    opened = journal.entries[0]
    if not isinstance(opened, Opened) or opened.labels is None:
        return None
    labels = opened.labels
    plain = decode(labels, object) if isinstance(labels, Raw) else labels
    return None if plain is None else msgspec.convert(plain, _Labels).options


def options_for(run_id: str, journal: LocalJournal, overrides: AgentOptions) -> AgentOptions:
    """Return the options to build the agent of a run again; options given now override the stored ones."""
    if overrides.agent is not None:
        return overrides
    stored = options_in(journal)
    if stored is None:
        raise ConfigurationError(
            f"the run {run_id} was not started on the command line, so its record does not say how to build its agent; "
            "name the agent with --agent FILE.PY:NAME"
        )
    return replace(
        stored,
        model=stored.model if overrides.model is None else overrides.model,
        tools=overrides.tools or stored.tools,
        instructions=stored.instructions if overrides.instructions is None else overrides.instructions,
        max_steps=stored.max_steps if overrides.max_steps is None else overrides.max_steps,
        timeout=stored.timeout if overrides.timeout is None else overrides.timeout,
        approve=overrides.approve or stored.approve,
    )


def options_text(options: AgentOptions) -> str:
    """Return options as they would be written on the command line."""
    words: list[str] = []
    for option, value in (
        ("--agent", options.agent),
        ("--model", options.model),
        ("--instructions", options.instructions),
        ("--memory", options.memory),
    ):
        words += [] if value is None else [option, value]
    for option, values in (("--tool", options.tools), ("--approve", options.approve)):
        for each in values:
            words += [option, each]
    return shlex.join(words)
