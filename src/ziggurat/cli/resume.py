"""What needs the agent of a stored run: ``resume``, ``approve``, ``replay``, ``fork`` and ``show --as diagram``.

They build it again from the options of the command that has started the run, or take the one that is named.
"""

import asyncio
import sys
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.cli.agent_options import AgentOptions, labels_of, options_for
from ziggurat.cli.approve import NO, approving, ask_answer, by_hand
from ziggurat.cli.build import agent_of
from ziggurat.cli.exit_codes import COMPLETED, INTERRUPTED
from ziggurat.cli.run import OutputOptions, show_run, write_answer
from ziggurat.cli.store import closed, find_run, kept_store, record_in, where_kept
from ziggurat.cli.terminal import note, read_line, shell_word, write
from ziggurat.core.clock import new_id
from ziggurat.core.codec import as_type
from ziggurat.core.entries import Pending
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.event import Listener
from ziggurat.core.journal import LocalJournal
from ziggurat.core.store import Store
from ziggurat.core.visible import visible_line
from ziggurat.messages.agent import AgentRun, Approve, Decision, Deny, DidNotHappen, Happened, Modify, stage_of
from ziggurat.messages.canonical import canonical
from ziggurat.messages.formatting import call_text, plural
from ziggurat.messages.parts import ToolCall
from ziggurat.messages.pending import recorded_item
from ziggurat.runs.options import Live
from ziggurat.tools.approval import Approvals
from ziggurat.tools.fork_effects import Effects


def _rebuild(run: str, overrides: AgentOptions, store: str | None) -> tuple[str, Runnable, LocalJournal, AgentOptions]:
    """Find a run and build its agent again."""

    async def read(place: Store, *, keep: bool) -> tuple[str, LocalJournal]:
        try:
            info = await find_run(place, run)
            record = info.id, await record_in(place, info.id)
        except BaseException:
            await closed(place)
            raise
        if not keep:
            await closed(place)
        return record

    if overrides.agent is not None and store is None:  # the agent may have a store of its own; it stays open
        agent = agent_of(overrides, store)
        run_id, journal = asyncio.run(read(agent.store, keep=True))
        return run_id, agent, journal, overrides
    run_id, journal = asyncio.run(read(kept_store(store), keep=False))
    options = options_for(run_id, journal, overrides)
    return run_id, agent_of(options, store), journal, options


def resume_run(run: str, overrides: AgentOptions, store: str | None, output: OutputOptions, *, strict: bool) -> int:
    """Continue a run; return the exit code."""
    run_id, agent, _, options = _rebuild(run, overrides, store)
    output = replace(output, where=where_kept(agent.store, overrides.agent, store))
    return _continue(agent, run_id, {}, approving(options.approve), output, strict=strict)


def _continue(
    agent: Runnable,
    run_id: str,
    decisions: Mapping[str, Decision],
    approvals: Approvals | None,
    output: OutputOptions,
    *,
    strict: bool = False,
) -> int:
    def begin(listeners: Sequence[Listener]) -> Coroutine[Any, Any, AgentRun]:
        return agent.resume(run_id, decisions, strict=strict, approvals=approvals, listeners=listeners)

    return show_run(agent, begin, output, approvals, run_id)


class DecisionOptions(Struct, frozen=True):
    """The decision given by options; approval if there are none."""

    deny: str | None = None
    modify: str | None = None
    happened: str | None = None
    again: bool = False

    def options(self) -> list[str]:
        """Return the names of the options given."""
        values = {"--deny": self.deny, "--modify": self.modify, "--happened": self.happened}
        ways = [option for option, value in values.items() if value is not None]
        return [*ways, "--did-not-happen"] if self.again else ways


def approve_run(
    run: str,
    item: str | None,
    overrides: AgentOptions,
    store: str | None,
    output: OutputOptions,
    choice: DecisionOptions,
) -> int:
    """Decide on a pending call, and continue its run; return the exit code."""
    if len(ways := choice.options()) > 1:
        raise ConfigurationError(f"a call is decided in one way, not both: give {' or '.join(ways)}")
    run_id, agent, journal, options = _rebuild(run, overrides, store)
    undecided = [each for each in journal.pending() if recorded_item(each, None).needs_decision]
    waiting = _select(undecided, run_id, item)
    record = journal.find(waiting.path)
    started = record is not None and record.intent is not None
    if stage_of(waiting.path) == "question" and choice.deny is None:
        decision = _answer(waiting, run_id)
    else:
        decision = _decision(choice, waiting, run_id, started=started)
    output = replace(output, where=where_kept(agent.store, overrides.agent, store))
    return _continue(agent, run_id, {waiting.id: decision}, approving(options.approve), output)


def _answer(waiting: Pending, run_id: str) -> Decision:
    """Return what the person at the terminal answers to a question."""
    item = recorded_item(waiting, None)
    if not by_hand():
        raise ConfigurationError(
            f"{visible_line(item.reason)!r} is a question: answer it at a terminal, with ziggurat approve "
            f"{shell_word(run_id)}, or with decide() in a program"
        )
    return ask_answer(item, read_line, write)


def _decision(choice: DecisionOptions, waiting: Pending, run_id: str, *, started: bool) -> Decision:
    """Return the options as a decision that is valid for the call."""
    name = visible_line(waiting.name)
    if choice.deny is not None:
        return Deny(choice.deny.strip() or NO)
    if not started and (choice.happened is not None or choice.again):
        raise ConfigurationError(
            f"{name} was not started yet, so {choice.options()[0]} does not apply: "
            f"ziggurat approve {shell_word(run_id)} lets it run, --deny REASON does not"
        )
    if choice.happened is not None:
        return Happened(choice.happened)
    if choice.again:
        return DidNotHappen()
    if started:
        raise ConfigurationError(
            f"{name} was interrupted, and nobody knows whether it took effect: find out, then add --happened RESULT "
            "if it did, --did-not-happen to run it now, or --deny REASON to leave it at that"
        )
    if choice.modify is None:
        return Approve()
    try:
        if not choice.modify.strip():
            raise InvalidArguments("there are no arguments; for none at all write '{}'")
        return Modify(canonical(choice.modify, waiting.name))
    except InvalidArguments as error:
        raise ConfigurationError(f"--modify: {error}; nothing was recorded, and the call still waits") from error


def _select(pending: list[Pending], run_id: str, item: str | None) -> Pending:
    if not pending:
        raise ConfigurationError(f"nothing waits for a decision in the run {run_id}")
    if item is not None and not item.strip():  # it is the beginning of every id
        raise ConfigurationError("which call? its id is empty; omit it where only one waits")
    selected = [each for each in pending if item is None or each.id.startswith(item)]
    if len(selected) == 1:
        return selected[0]
    listed = "\n".join(f"  {visible_line(each.id)}  {call_text(as_type(each.request, ToolCall))}" for each in pending)
    lack = f"no call, or more than one, begins with {item!r}" if item else f"{plural(len(pending), 'call')} wait"
    raise ConfigurationError(
        f"{lack}; name one of them, as in ziggurat approve {shell_word(run_id)} {shell_word(pending[0].id)}:\n{listed}"
    )


def replay_run(run: str, overrides: AgentOptions, store: str | None, *, live: Live) -> int:
    """Replay a run, and report whether it matches its record; return the exit code."""
    run_id, agent, _, options = _rebuild(run, overrides, store)

    async def replayed() -> AgentRun:
        try:
            return await agent.replay(run_id, live=live, approvals=approving(options.approve))
        finally:
            await closed(agent.store)

    went = asyncio.run(replayed())
    write_answer(went, sys.stdout)
    called = {"nothing": "nothing was called", "tools": "its tools were called", "models": "its models were called"}
    note(f"{plural(went.steps, 'step')} as on record; {called[live]}")
    return COMPLETED


def draw_run(run: str, overrides: AgentOptions, store: str | None, *, as_picture: bool) -> int:
    """Write what the agent of a run is made of, marked with how far the run has come; return the exit code."""
    run_id, agent, _, _ = _rebuild(run, overrides, store)

    async def standing() -> str:
        try:
            diagram = await agent.standing(run_id)
            return diagram.svg() if as_picture else diagram.mermaid()
        finally:
            await closed(agent.store)

    write(asyncio.run(standing()).rstrip("\n"))
    return COMPLETED


def fork_run(
    run: str,
    step: int,
    prompt: str | None,
    overrides: AgentOptions,
    store: str | None,
    output: OutputOptions,
    *,
    effects: Effects,
) -> int:
    """Start a new run from a step of a run; return the exit code."""
    run_id, agent, _, options = _rebuild(run, overrides, store)
    forked = new_id()
    approvals, labels = approving(options.approve), labels_of(options)

    def begin(listeners: Sequence[Listener]) -> Coroutine[Any, Any, AgentRun]:
        return agent.fork(
            run_id,
            step,
            prompt,
            effects=effects,
            new_id=forked,
            approvals=approvals,
            labels=labels,
            listeners=listeners,
        )

    output = replace(output, where=where_kept(agent.store, overrides.agent, store))
    code = show_run(agent, begin, output, approvals, forked)
    if code != INTERRUPTED:  # an interrupted run is named in the message on how to continue
        note(f"this is the run {forked}")
    return code
