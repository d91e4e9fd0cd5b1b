"""Building an agent from command-line options."""

import math
import os
from collections.abc import Sequence

from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.cli.agent_options import AgentOptions
from ziggurat.cli.load import BUILTIN_TOOLS, load_agent, load_tool
from ziggurat.cli.store import is_lasting, open_store
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import Model
from ziggurat.models.resolving import resolve
from ziggurat.models.selection import MODEL
from ziggurat.tools.toolbox import Tool


def agent_of(options: AgentOptions, store: str | None = "memory:") -> Runnable:
    """Return the agent for the options: an existing one, or one built from them."""
    if options.agent is not None:
        others = {
            "--model": options.model,
            "--tool": options.tools or None,
            "--instructions": options.instructions,
            "--max-steps": options.max_steps,
            "--timeout": options.timeout,
            "--memory": options.memory,
        }
        excluded = [option for option, value in others.items() if value is not None]
        if excluded:
            raise ConfigurationError(
                f"--agent takes an agent that is made already, so {' and '.join(excluded)} cannot be given with it; "
                f"set it in {options.agent.rpartition(':')[0] or options.agent}"
            )
        return in_store(_load(options.agent, options.folder), store)
    if options.timeout is not None and not 0 < options.timeout < math.inf:
        raise ConfigurationError(
            f"--timeout is a number of seconds above 0, got {options.timeout:g}; without it there is no limit"
        )
    model = options.model if options.model is not None else os.environ.get(MODEL) or "local"
    tools, middleware = _memory(options.memory, store, model)
    return Agent(
        _model(model, options.model),
        tools=[*_tools(options.tools), *tools],
        middleware=middleware,
        instructions=options.instructions,
        timeout=options.timeout,
        max_steps=options.max_steps,
        store=open_store(store),
    )


def _model(name: str, option: str | None) -> Model:
    try:
        return resolve(name)
    except ConfigurationError as error:
        if option is not None:
            raise
        raise ConfigurationError(f"${MODEL}: {error}") from error


def check_session(agent: Runnable, session: str | None) -> None:
    """Refuse a session when the store is not persistent."""
    if session is not None and not is_lasting(agent.store):
        raise ConfigurationError(
            f"--session {session}: with the store memory: no conversation outlives the command; omit --session, "
            "or name a store that lasts, as in --store sqlite:///runs.db"
        )


def _memory(owner: str | None, store: str | None, model: str) -> tuple[Sequence[Tool], Sequence[Middleware]]:
    """Return the tools and middleware for an agent with a memory, stored beside its runs; empty without an owner."""
    if owner is None:
        return (), ()
    if not owner.strip() or "/" in owner:
        raise ConfigurationError(
            f"--memory says whose memory it is, by a name without '/', as in --memory me: {owner!r}"
        )
    from ziggurat.agents.memory import Remembering, memory_tools
    from ziggurat.cli.memories import embedder_here, open_memories

    tools = memory_tools()[:1] if only_remembers(model) else memory_tools()
    return tools, [Remembering(open_memories(store), owner.strip(), embedder=embedder_here())]


def only_remembers(model: str) -> bool:
    """Return whether a model gets only the first memory tool: the embedded model would answer a question by
    calling recall, although the memories are already in the prompt."""
    return model.strip() == "local"


def _load(spec: str, folder: str | None) -> Runnable:
    try:
        return load_agent(spec)
    except ConfigurationError as error:
        if folder is None or folder == os.getcwd():
            raise
        raise ConfigurationError(
            f"{error}; the run was started in {folder}: go there, or give --agent again"
        ) from error


def in_store(agent: Runnable, store: str | None) -> Runnable:
    """Return the agent with its runs in a store: its own, if that is persistent and no other is named."""
    if store is None and is_lasting(agent.store):
        return agent
    return agent.with_store(open_store(store))


def _tools(specs: Sequence[str]) -> list[Tool]:
    if not specs:
        return [BUILTIN_TOOLS["calculator"], BUILTIN_TOOLS["timestamp"]]
    return [load_tool(spec) for spec in dict.fromkeys(specs)]
