"""``ziggurat resume``, ``approve``, ``replay`` and ``fork``: what needs the agent of a stored run."""

import sys
from collections.abc import Coroutine, Sequence
from typing import Annotated, Any, Literal

import typer

from ziggurat.cli import options
from ziggurat.cli.agents import StoredRun, labels_of, rebuild
from ziggurat.cli.approve import NO, ask_answer, by_hand
from ziggurat.cli.live import OutputOptions, show_run
from ziggurat.cli.outcome import INTERRUPTED, write_answer
from ziggurat.cli.store import then_closed
from ziggurat.cli.terminal import note, read_line, shell_word, write
from ziggurat.core.clock import new_id
from ziggurat.core.codec import as_type
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.event import Listener
from ziggurat.core.visible import visible_line
from ziggurat.journal.entries import Pending
from ziggurat.messages.agent import (
    AgentRun,
    Approve,
    Decision,
    Deny,
    DidNotHappen,
    Happened,
    Modify,
    recorded_item,
    stage_of,
)
from ziggurat.messages.arguments import canonical
from ziggurat.messages.formatting import call_text, plural
from ziggurat.messages.message import ToolCall


def resume(
    run: options.Run,
    agent: options.Agent = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse to continue if the agent differs from the recorded one.")
    ] = False,
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

    def begin(listeners: Sequence[Listener]) -> Coroutine[Any, Any, AgentRun]:
        return found.agent.resume(found.id, decisions, strict=strict, approvals=approvals, listeners=listeners)

    return show_run(found.agent, begin, output, approvals, found.id)


def approve(
    run: options.Run,
    item: Annotated[
        str | None, typer.Argument(metavar="[ITEM]", help="The id of the call; needed if several wait.")
    ] = None,
    deny: Annotated[
        str | None, typer.Option("--deny", metavar="REASON", help="Deny it; the model gets the reason.")
    ] = None,
    modify: Annotated[
        str | None, typer.Option("--modify", metavar="JSON", help="Approve it with these arguments instead of its own.")
    ] = None,
    happened: Annotated[
        str | None,
        typer.Option(
            "--happened", metavar="RESULT", help="It was interrupted but took effect; RESULT is passed to the model."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--did-not-happen", help="It was interrupted and took no effect: run it now.")
    ] = False,
    agent: options.Agent = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    store: options.Store = None,
) -> int:
    """Decide on a call that waits, and continue its run.

    ITEM may be left out if only one call waits; if several do, they are listed. The run is suspended again, with exit
    code 3, while others wait.

    A call that must run at most once and was interrupted may have taken effect or not: find out, and pass --happened or
    --did-not-happen, or --deny to leave it open.

    \b
    Examples:
      ziggurat approve 3f2a
      ziggurat approve 3f2a 91bc --deny "not today"
      ziggurat approve 3f2a 91bc --modify '{"amount": 5}'
      ziggurat approve 3f2a --happened "paid, receipt 17"
    """
    given = {"--deny": deny, "--modify": modify, "--happened": happened, "--did-not-happen": "" if again else None}
    ways = {option: value for option, value in given.items() if value is not None}
    if len(ways) > 1:
        raise ConfigurationError(f"a call is decided in one way, not both: give {' or '.join(ways)}")
    found = rebuild(run, options.AgentOptions(agent=agent), store)
    undecided = [each for each in found.journal.index.waits_at() if each.asks]
    waiting = _select(undecided, found.id, item)
    record = found.journal.find(waiting.path)
    if stage_of(waiting.path) == "question" and deny is None:
        decision = _answer(waiting, found.id)
    else:
        way, text = next(iter(ways.items()), ("", ""))
        started = record is not None and record.intent is not None
        decision = _decision(way, text, waiting, found.id, started=started)
    output = OutputOptions(json, quiet, found.where)
    return _go_on(found, {waiting.id: decision}, output)


def _answer(waiting: Pending, run_id: str) -> Decision:
    item = recorded_item(waiting, None)
    if not by_hand():
        raise ConfigurationError(
            f"{visible_line(item.reason)!r} is a question: answer it at a terminal, with ziggurat approve "
            f"{shell_word(run_id)}, or with decide() in a program"
        )
    return ask_answer(item, read_line, write)


def _decision(way: str, text: str, waiting: Pending, run_id: str, *, started: bool) -> Decision:
    """Return the option that was given as a decision that is valid for the call; approval without one."""
    name = visible_line(waiting.name)
    if way == "--deny":
        return Deny(text.strip() or NO)
    if not started and way in ("--happened", "--did-not-happen"):
        raise ConfigurationError(
            f"{name} was not started yet, so {way} does not apply: "
            f"ziggurat approve {shell_word(run_id)} lets it run, --deny REASON does not"
        )
    if way == "--happened":
        return Happened(text)
    if way == "--did-not-happen":
        return DidNotHappen()
    if started:
        raise ConfigurationError(
            f"{name} was interrupted, and nobody knows whether it took effect: find out, then add --happened RESULT "
            "if it did, --did-not-happen to run it now, or --deny REASON to leave it at that"
        )
    if way != "--modify":
        return Approve()
    try:
        if not text.strip():
            raise InvalidArguments("there are no arguments; for none at all write '{}'")
        return Modify(canonical(text, waiting.name))
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


def replay(
    run: options.Run,
    live: Annotated[
        Literal["nothing", "tools", "models"],
        typer.Option("--live", help="What is called again; everything else is answered from the record."),
    ] = "nothing",
    agent: options.Agent = None,
    store: options.Store = None,
) -> None:
    """Replay a run from its record, without calling anything.

    Exit code: 0 if the agent still behaves as recorded, else 1 with the first difference.

    \b
    Examples:
      ziggurat replay 3f2a
      ziggurat replay r-17 --agent desk.py:agent --live tools
    """
    found = rebuild(run, options.AgentOptions(agent=agent), store)
    replaying = found.agent.replay(found.id, live=live, approvals=found.options.approvals)
    went = then_closed(found.agent.store, replaying)
    write_answer(went, sys.stdout)
    called = {"nothing": "nothing was called", "tools": "its tools were called", "models": "its models were called"}
    note(f"{plural(went.steps, 'step')} as on record; {called[live]}")


@options.with_agent_options
def fork(
    chosen: options.AgentOptions,
    run: options.Run,
    at: Annotated[int, typer.Option("--at", min=1, metavar="STEP", help="The first step to run again.")],
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt", "-p", metavar="TEXT", help="Another message at that step; at step 1, another question."
        ),
    ] = None,
    effects: Annotated[
        Literal["refuse", "recorded", "live"],
        typer.Option("--effects", help="What to do with calls of tools with side effects."),
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
      ziggurat fork 3f2a --at 1 --prompt "What is 13 * 12?"
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
    if code != INTERRUPTED:  # an interrupted run is named in the message on how to continue
        note(f"this is the run {forked}")
    return code
