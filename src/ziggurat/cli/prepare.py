"""Agents to ask: what must be right before their first call."""

import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.cli import store as stores
from ziggurat.cli.agents import agent_of, labels_of
from ziggurat.cli.options import AgentOptions
from ziggurat.cli.terminal import note, write
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Listener
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.message import Message
from ziggurat.models.selection import MODEL, select_model
from ziggurat.stores.session.session import Session
from ziggurat.tools.approval import Approvals


class Prepared(Struct, frozen=True):
    agent: Runnable
    approvals: Approvals | None
    labels: dict[str, object]
    where: str | None

    async def ask(
        self,
        prompt: str,
        listeners: Sequence[Listener],
        *,
        run_id: str,
        session: str | Session | None = None,
        history: Sequence[Message] = (),
    ) -> AgentRun:
        if session is not None:
            await stores.tell_if_busy(self.agent.store, session if isinstance(session, str) else session.id)
        return await self.agent.run(
            prompt,
            history=history,
            approvals=self.approvals,
            labels=self.labels,
            listeners=listeners,
            run_id=run_id,
            session=session,
        )


def prepare(chosen: AgentOptions, session: str | None, store: str | None, *, quiet: bool) -> Prepared:
    """Return the agent of options, after all checks that need no model call."""
    chosen = _with_model(chosen, quiet=quiet)
    approvals, labels = chosen.approvals, labels_of(chosen)
    agent = agent_of(chosen, store)
    _check_session(agent, session)
    _warn_of_unfitting(agent, chosen.approve)
    return Prepared(agent, approvals, labels, stores.where_kept(agent.store, chosen.agent, store))


def _with_model(options: AgentOptions, *, quiet: bool = False) -> AgentOptions:
    """Return options that name a model: where none is named, the selected one, which is written on standard error."""
    named = options.model if options.model is not None else os.environ.get(MODEL) or "auto"
    if options.agent is not None or named.strip() != "auto":
        return options
    selected = select_model()
    if not quiet:
        write(f"model: {selected.name} ({selected.why})\n", sys.stderr)
    return replace(options, model=selected.name)


def _check_session(agent: Runnable, session: str | None) -> None:
    if session is not None and not stores.is_lasting(agent.store):
        raise ConfigurationError(
            f"--session {session}: with the store memory: no conversation outlives the command; omit --session, "
            "or name a store that lasts, as in --store sqlite:///runs.db"
        )


def _warn_of_unfitting(agent: Runnable, patterns: Sequence[str]) -> None:
    """Warn about patterns that match no tool of an agent: a misspelled one would never ask."""
    inner = agent if isinstance(agent, Agent) else agent.inner
    if not isinstance(inner, Agent):
        return
    names = list(inner.tools)
    for pattern in patterns if not inner.tools.sources else ():
        if not any(fnmatchcase(name, pattern) for name in names):
            listing = f"its tools: {', '.join(names)}" if names else "it has none"
            note(f"--approve {pattern!r} fits no tool of the agent ({listing})")
