"""``ziggurat run``: one question, one answer, and an exit code; and what must be right before the first call."""

import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.cli import options, store as stores
from ziggurat.cli.agents import agent_of, labels_of
from ziggurat.cli.live import OutputOptions, show_run
from ziggurat.cli.terminal import note, write
from ziggurat.core.clock import new_id
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Listener
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.message import Message
from ziggurat.models.selection import MODEL, select_model
from ziggurat.stores.session import Session
from ziggurat.tools.approval import Approvals


@options.with_agent_options
def run(
    chosen: options.AgentOptions,
    question: Annotated[
        str | None, typer.Argument(help="The question, in quotes; - or nothing on a pipe reads standard input.")
    ] = None,
    session: options.Session = None,
    store: options.Store = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write events to standard output, one per line; the last is AgentEnded.")
    ] = False,
    quiet: options.Quiet = False,
) -> int:
    """Ask one question and show how it is answered.

    On a terminal all events are shown live. On a pipe only the answer goes to standard output, and the view of steps
    and tools to standard error. If a tool needs approval you are asked; without a terminal the run is suspended with
    exit code 3, and the last line says how to continue it. Runs are stored: ziggurat runs lists them.

    \b
    Examples:
      ziggurat run "What is 12 * (7 + 5)?"
      ziggurat run --tool weather:forecast --tool calculator "Rain in Paris?"
      ziggurat run --agent desk.py:agent --json "Refund order 881" | jq .event
      echo "What time is it?" | ziggurat run --quiet
      ziggurat run --model local:/models/qwen.gguf --timeout 60 "Who are you?"
      ziggurat run --model openai:gpt-5-mini "Who are you?"
      ziggurat run --agent desk.py:agent --approve 'delete_*' "Clean up"
      ziggurat run --memory me "Remember that I am allergic to nuts."
      ziggurat run --mcp 'npx -y @modelcontextprotocol/server-filesystem .' "Which files are here?"
    """
    prompt = _question(question)
    prepared = prepare(chosen, session, store, quiet=quiet)
    run_id = new_id()
    begin = partial(prepared.ask, prompt, run_id=run_id, session=session)
    return show_run(prepared.agent, begin, OutputOptions(json, quiet, prepared.where), prepared.approvals, run_id)


_HOW = 'ask one, as in: ziggurat run "What is 12 * (7 + 5)?"'


def _question(argument: str | None) -> str:
    """Return the question; ``-``, or no argument on a pipe, reads standard input."""
    if argument is None and sys.stdin.isatty():
        raise ConfigurationError(f"there is no question; {_HOW}")
    if argument is None or argument == "-":
        try:
            question = sys.stdin.read()
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"standard input is not text in {error.encoding}: {error.reason}") from error
        source = "standard input"
    else:
        question, source = argument, "the question"
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{source} holds bytes that are not text (at character {error.start + 1})") from error
    if not question.strip():
        raise ConfigurationError(f"{source} is empty; {_HOW}")
    return question.strip() if source == "standard input" else question


# -- before the first call ---------------------------------------------------------------------------------------------


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


def prepare(chosen: options.AgentOptions, session: str | None, store: str | None, *, quiet: bool) -> Prepared:
    """Return the agent of options, after all checks that need no model call."""
    chosen = _with_model(chosen, quiet=quiet)
    approvals, labels = chosen.approvals, labels_of(chosen)
    agent = agent_of(chosen, store)
    _check_session(agent, session)
    _warn_of_unfitting(agent, chosen.approve)
    return Prepared(agent, approvals, labels, stores.where_kept(agent.store, chosen.agent, store))


def _with_model(chosen: options.AgentOptions, *, quiet: bool = False) -> options.AgentOptions:
    """Return options that name a model: where none is named, the selected one, which is written on standard error."""
    named = chosen.model if chosen.model is not None else os.environ.get(MODEL) or "auto"
    if chosen.agent is not None or named.strip() != "auto":
        return chosen
    selected = select_model()
    if not quiet:
        write(f"model: {selected.name} ({selected.why})\n", sys.stderr)
    return replace(chosen, model=selected.name)


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
