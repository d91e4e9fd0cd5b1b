"""``ziggurat resume``, ``approve``, ``replay`` and ``fork``: what needs the agent of a stored run."""

import sys
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any, Literal

from typer import Argument, Option

from ziggurat.cli import options, outcome
from ziggurat.cli.agents import StoredRun, labels_of, rebuild
from ziggurat.cli.approve import select, stated_decision
from ziggurat.cli.live import OutputOptions, show_run
from ziggurat.cli.store import then_closed
from ziggurat.cli.terminal import note, shell_word
from ziggurat.core.clock import new_id
from ziggurat.core.errors import IN_PROGRESS, ConfigurationError
from ziggurat.core.event import Listener
from ziggurat.core.visible import visible_line
from ziggurat.messages.agent import AgentRun, Decision, recorded_items
from ziggurat.messages.formatting import plural


def resume(
    run: options.Run,
    agent: options.Agent = None,
    strict: Annotated[bool, Option("--strict", help="Refuse an agent that differs from the recorded one.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    store: options.Store = None,
) -> int:
    """Continue a run that is suspended, was interrupted, or failed.

    Its agent is built again from the options of the original command; for a run started by a program, name the agent
    with --agent. If calls wait for decisions you are asked; without a terminal, use approve.

    \b
    Examples:
      ziggurat resume 3f2a
      ziggurat resume r-17 --agent desk.py:agent
    """
    found = rebuild(run, options.AgentOptions(agent=agent), store)
    output = OutputOptions(json, quiet, found.where)
    return _go_on(found, {}, output, strict=strict)


def _go_on(found: StoredRun, decisions: dict[str, Decision], output: OutputOptions, *, strict: bool = False) -> int:
    approvals = found.options.approvals

    async def begin(listeners: Sequence[Listener]) -> AgentRun:
        try:
            return await found.agent.resume(
                found.id, decisions, strict=strict, approvals=approvals, listeners=listeners
            )
        except IN_PROGRESS:
            if decisions:
                await found.agent.attach(found.id).decide(decisions)
            raise

    try:
        return show_run(found.agent, begin, output, approvals, found.id)
    except IN_PROGRESS:
        if not decisions:
            raise
    note(f"decided; the process that drives the run {visible_line(found.id)} goes on with it")
    return outcome.COMPLETED


def approve(
    run: options.Run,
    item: Annotated[str | None, Argument(metavar="[ITEM]", help="The id of the call; needed if several wait.")] = None,
    deny: Annotated[str | None, Option("--deny", metavar="REASON", help="Deny it; the model gets the reason.")] = None,
    modify: Annotated[str | None, Option("--modify", metavar="JSON", help="Approve it with these arguments.")] = None,
    answer: Annotated[str | None, Option("--answer", metavar="JSON_OR_TEXT", help="The answer to a question.")] = None,
    happened: Annotated[
        str | None,
        Option(
            "--happened", metavar="RESULT", help="It was interrupted but took effect; RESULT is passed to the model."
        ),
    ] = None,
    again: Annotated[bool, Option("--did-not-happen", help="It took no effect: run it now.")] = False,
    agent: options.Agent = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    store: options.Store = None,
) -> int:
    """Decide on a call that waits, or answer a question, and continue its run.

    ITEM may be left out if only one call waits; if several do, they are listed. The run is suspended again, with exit
    code 3, while others wait. If another process drives the run, the decision is recorded, and that process goes on
    with it.

    A call that must run at most once and was interrupted may have taken effect or not: find out, and pass --happened or
    --did-not-happen, or --deny to leave it open.

    \b
    Examples:
      ziggurat approve 3f2a 91bc --deny "not today"
      ziggurat approve 3f2a --happened "paid, receipt 17"
      ziggurat approve order-17 --agent orders.py:order --answer true
    """
    given = {"--deny": deny, "--modify": modify, "--answer": answer, "--happened": happened}
    given["--did-not-happen"] = "" if again else None
    ways = {option: value for option, value in given.items() if value is not None}
    if len(ways) > 1:
        raise ConfigurationError(f"a call is decided in one way, not both: give {' or '.join(ways)}")
    found = rebuild(run, options.AgentOptions(agent=agent), store)
    where, items = found.where or "", [each for each in recorded_items(found.journal) if each.needs_decision]
    waiting = select(items, found.id, item, where)
    command = " ".join(["ziggurat approve", *map(shell_word, [found.id, *([] if item is None else [item])])]) + where
    decision = stated_decision(waiting, command, *next(iter(ways.items()), ("", "")))
    output = OutputOptions(json, quiet, found.where)
    return _go_on(found, {waiting.id: decision}, output)


def replay(
    run: options.Run,
    live: Annotated[
        Literal["nothing", "tools", "models"],
        Option("--live", help="What is called again; everything else is answered from the record."),
    ] = "nothing",
    agent: options.Agent = None,
    store: options.Store = None,
) -> None:
    """Replay a run from its record, without calling anything.

    Exit code: 0 if the agent still behaves as recorded, else 1 with the first difference.

    \b
    Examples:
      ziggurat replay r-17 --agent desk.py:agent --live tools
    """
    found = rebuild(run, options.AgentOptions(agent=agent), store)
    replaying = found.agent.replay(found.id, live=live, approvals=found.options.approvals)
    went = then_closed(found.agent.store, replaying)
    outcome.write_answer(went, sys.stdout)
    called = {"nothing": "nothing was called", "tools": "its tools were called", "models": "its models were called"}
    note(f"{plural(went.steps, 'step')} as on record; {called[live]}")


@options.with_agent_options
def fork(
    chosen: options.AgentOptions,
    run: options.Run,
    at: Annotated[int, Option("--at", min=1, metavar="STEP", help="The first step to run again.")],
    prompt: Annotated[
        str | None,
        Option("--prompt", "-p", metavar="TEXT", help="Another message at that step; at step 1, another question."),
    ] = None,
    effects: Annotated[
        Literal["refuse", "recorded", "live"],
        Option("--effects", help="What to do with calls of tools with side effects."),
    ] = "refuse",
    json: options.Json = False,
    quiet: options.Quiet = False,
    store: options.Store = None,
) -> int:
    """Start a new run from a step of a stored run.

    The steps before it are reused and cost nothing, and the original run stays unchanged. Tools with side effects are
    refused, unless --effects says otherwise.

    \b
    Examples:
      ziggurat fork 3f2a --at 2 --model openai:gpt-5-mini
      ziggurat fork r-17 --at 4 --agent desk.py:agent --effects live
    """
    found = rebuild(run, chosen, store)
    forked, approvals, labels = new_id(), found.options.approvals, labels_of(found.options)

    def begin(listeners: Sequence[Listener]) -> Coroutine[Any, Any, AgentRun]:
        return found.agent.fork(
            found.id,
            at,
            prompt,
            effects=effects,
            new_id=forked,
            approvals=approvals,
            labels=labels,
            listeners=listeners,
        )

    output = OutputOptions(json, quiet, found.where)
    code = show_run(found.agent, begin, output, approvals, forked)
    if code != outcome.INTERRUPTED:  # an interrupted run is named in the message on how to continue
        note(f"this is the run {forked}")
    return code
