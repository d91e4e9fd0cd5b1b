"""Agents of the command line: from options, which are stored with a run, to an agent, and from a stored run to it."""

import asyncio
import math
import os
import sys
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.cli import store as stores, terminal
from ziggurat.cli.load import load_agent, load_servers, load_tool
from ziggurat.cli.memories import memory_of
from ziggurat.cli.options import FLAGS, AgentOptions
from ziggurat.core import codec
from ziggurat.core.errors import ConfigurationError
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import LogInfo
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.model import Model
from ziggurat.models.resolving import resolve
from ziggurat.models.selection import MODEL, select_model
from ziggurat.tools.approval import Approvals

# -- options in the record -------------------------------------------------------------------------------------------

_LABEL = "command line"


class _Labels(Struct, rename={"options": _LABEL}):
    options: AgentOptions | None = None


def labels_of(options: AgentOptions) -> dict[str, object]:
    """Return the label that stores these options with a run: with absolute paths and the resolved default model."""
    resolved = replace(
        options,
        model=options.model_name if options.agent is None else options.model,
        agent=None if options.agent is None else _absolute(options.agent),
        tools=tuple(_absolute(tool) for tool in options.tools),
        mcp=tuple(os.path.abspath(each) if each.endswith(".json") else each for each in options.mcp),
    )
    return {_LABEL: resolved.given()}


def _absolute(spec: str) -> str:
    where, colon, name = spec.rpartition(":")
    return f"{os.path.abspath(os.path.expanduser(where))}:{name}" if colon and where.endswith(".py") else spec


def options_in(journal: LocalJournal) -> AgentOptions | None:
    return codec.convert(entries.labels_of(journal.entries[0]), _Labels).options


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
    return replace(stored, **overrides.given())


# -- from options to an agent ----------------------------------------------------------------------------------------


def agent_of(options: AgentOptions, store: str | None = "memory:") -> Runnable:
    if options.agent is not None:
        _check_alone(options)
        return in_store(load_agent(options.agent), store)
    if options.timeout is not None and not 0 < options.timeout < math.inf:
        raise ConfigurationError(f"--timeout is a number of seconds above 0, got {options.timeout:g}")
    tools = [load_tool(spec) for spec in dict.fromkeys(options.tools or ("calculator", "timestamp"))]
    memory_tools, middleware = memory_of(options.memory, options.model_name, store)
    return Agent(
        _model(options),
        tools=[*tools, *memory_tools, *load_servers(options.mcp)],
        middleware=middleware,
        instructions=options.instructions,
        timeout=options.timeout,
        max_steps=options.max_steps,
        store=stores.open_store(store),
    )


def _check_alone(options: AgentOptions) -> None:
    excluded = [FLAGS[name] for name in options.given() if name not in ("agent", "approve")]
    if excluded and options.agent is not None:
        raise ConfigurationError(
            f"--agent takes an agent that is made already, so {' and '.join(excluded)} cannot be given with it; "
            f"set it in {options.agent.rpartition(':')[0] or options.agent}"
        )


def _model(options: AgentOptions) -> Model:
    try:
        return resolve(options.model_name)
    except ConfigurationError as error:
        if options.model is not None:
            raise
        raise ConfigurationError(f"${MODEL}: {error}") from error


def in_store(agent: Runnable, store: str | None) -> Runnable:
    """Return the agent with its runs in a store: its own, if that is persistent and no other is named."""
    if store is None and stores.is_lasting(agent.store):
        return agent
    return agent.with_store(stores.open_store(store))


# -- before the first call ---------------------------------------------------------------------------------------------


class Prepared(Struct, frozen=True):
    agent: Runnable
    approvals: Approvals | None
    labels: dict[str, object]
    where: str | None

    async def ask(self, prompt: str, session: str | None, **more: Any) -> AgentRun:
        if session is not None:
            await stores.report_if_busy(self.agent.store, session)
        given = {"approvals": self.approvals, "labels": self.labels, "session": session, **more}
        return await self.agent.run(prompt, **given)


def prepare(chosen: AgentOptions, session: str | None, store: str | None, *, quiet: bool) -> Prepared:
    chosen = _with_model(chosen, quiet=quiet)
    approvals, labels = chosen.approvals, labels_of(chosen)
    agent = agent_of(chosen, store)
    if session is not None:
        stores.require_lasting(agent.store, f"--session {session}", "conversation", "--session")
    return Prepared(agent, approvals, labels, stores.where_kept(agent.store, chosen.agent, store))


def _with_model(chosen: AgentOptions, *, quiet: bool = False) -> AgentOptions:
    """Return options that name a model: where none is named, the selected one, which is written on standard error."""
    named = chosen.model if chosen.model is not None else os.environ.get(MODEL) or "auto"
    if chosen.agent is not None or named.strip() != "auto":
        return chosen
    selected = select_model()
    if not quiet:
        terminal.write(f"model: {selected.name} ({selected.why})\n", sys.stderr)
    return replace(chosen, model=selected.name)


# -- from a stored run to its agent ----------------------------------------------------------------------------------


class StoredRun(Struct, frozen=True):
    id: str
    agent: Runnable
    journal: LocalJournal
    options: AgentOptions
    where: str | None


def rebuild(run: str, overrides: AgentOptions, store: str | None) -> StoredRun:
    if overrides.agent is not None and store is None:  # the agent may have a store of its own; it stays open
        agent, options = agent_of(overrides, store), overrides
        info, journal = asyncio.run(_read_or_close(agent, run))
    else:
        info, journal = stores.load_run(run, store)
        options = options_for(info.id, journal, overrides)
        agent = agent_of(options, store)
    where = with_agent(stores.where_kept(agent.store, overrides.agent, store), journal, overrides.agent)
    return StoredRun(info.id, agent, journal, options, where)


def with_agent(where: str | None, journal: LocalJournal, spec: str | None = None) -> str | None:
    """Return the options with which another command finds a run, with its agent where its record does not say it."""
    if where is None or " --agent " in where or (spec is None and options_in(journal) is not None):
        return where
    return f"{where} --agent {'FILE.PY:NAME' if spec is None else terminal.shell_word(spec)}"


async def _read_or_close(agent: Runnable, run: str) -> tuple[LogInfo, LocalJournal]:
    try:
        return await stores.read_run(agent.store, run)
    except BaseException:
        await agent.store.close()
        raise
