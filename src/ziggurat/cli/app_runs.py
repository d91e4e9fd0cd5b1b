"""The commands for stored runs, their options and their help."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ziggurat.cli import options
from ziggurat.cli.app_control import attach, cancel, inject, send
from ziggurat.cli.app_serve import serve

_Agent = Annotated[str, typer.Argument(metavar="FILE.PY:NAME", help="The agent, as file.py:name or module:name.")]
_Attempts = Annotated[
    int, typer.Option("--attempts", min=1, metavar="N", help="How often in a row a run may lose its process.")
]
_Prompt = Annotated[
    str | None,
    typer.Option("--prompt", "-p", metavar="TEXT", help="Another message at that step; at step 1, another question."),
]
_Label = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=VALUE", help="Only runs with this label; several must all fit."),
]
_Effects = Annotated[
    Literal["refuse", "recorded", "live"],
    typer.Option("--effects", help="What to do with calls of tools with side effects."),
]


def add_run_commands(app: typer.Typer) -> None:
    """Add the commands for stored runs to the program."""
    started = (submit, worker, serve)
    continued = (resume, recover, approve, send, attach, cancel, inject)
    for command in (*started, runs, pending, show, *continued, replay, fork, export, accept_loss, vacuum):
        app.command()(command)


def submit(
    agent: _Agent,
    prompt: Annotated[str, typer.Argument(help="The question or task, or the input of a flow as JSON, in quotes.")],
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="Its id; to submit the same again has no effect.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label to store with it.")
    ] = None,
    not_before: Annotated[
        str | None, typer.Option("--not-before", metavar="WHEN", help="A date or time, as in 2030-01-31T08:00.")
    ] = None,
    priority: Annotated[
        int, typer.Option("--priority", min=-100, max=100, metavar="N", help="Those with the highest come first.")
    ] = 0,
    store: options.Store = None,
) -> None:
    """Store a run for a worker to drive, and write its id.

    \b
    Examples:
      ziggurat submit desk.py:agent "Write the report" --run-id report-7
      ziggurat submit orders.py:order '{"item": "lamp"}' --not-before 2030-01-31T08:00
    """
    from ziggurat.cli.worker import submit_run

    raise typer.Exit(
        submit_run(agent, prompt, store, run_id=run_id, labels=label, not_before=not_before, priority=priority)
    )


def worker(
    agents: Annotated[list[str], typer.Argument(metavar="FILE.PY:NAME...", help="Agents and schedules to work for.")],
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, metavar="N", help="How many runs of each it drives at the same time.")
    ] = 10,
    attempts: _Attempts = 3,
    grace: Annotated[
        float, typer.Option("--grace", min=0, metavar="SECONDS", help="How long runs may go on after a signal to end.")
    ] = 30.0,
    store: options.Store = None,
) -> None:
    """Drive the runs of agents that are due, until a signal to end.

    Due are those that were submitted, those whose timer has fired, and those whose process was lost. Any number of
    workers may share a store and schedules. At SIGTERM or Ctrl-C no more are taken; a second signal does not wait.

    \b
    Examples:
      ziggurat worker desk.py:agent
      ziggurat worker desk.py:agent orders.py:order reports.py:nightly --concurrency 20
    """
    from ziggurat.cli.worker import run_workers

    raise typer.Exit(run_workers(agents, store, concurrency=concurrency, attempts=attempts, grace=grace))


def runs(
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="Only this: running, suspended, completed ...")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", metavar="NAME", help="Only runs of this agent.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Only runs changed since: 90m, 12h, 7d, or a date.")
    ] = None,
    label: _Label = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="The maximum number.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON object per line.")] = False,
    store: options.Store = None,
) -> None:
    """List the stored runs, the latest first.

    \b
    Examples:
      ziggurat runs
      ziggurat runs --status suspended --since 7d
      ziggurat runs --label team=blue
      ziggurat runs --json --limit 100 | jq -r .id
    """
    from ziggurat.cli.records import list_runs

    raise typer.Exit(list_runs(store, status=status, agent=agent, since=since, labels=label, limit=limit, json=json))


def pending(
    agent: Annotated[str | None, typer.Option("--agent", "-a", metavar="NAME", help="Only runs of this agent.")] = None,
    label: _Label = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="The maximum number of runs.")] = 100,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON object per line.")] = False,
    store: options.Store = None,
) -> None:
    """List the calls that wait for a decision, those of the latest run first.

    Each line has the run, the id of the call, and the call. Only records are read; the agents are not needed.

    \b
    Examples:
      ziggurat pending
      ziggurat pending --agent desk --store sqlite:///agents.db
      ziggurat pending --json | jq -r .run
    """
    from ziggurat.cli.waiting import list_pending

    raise typer.Exit(list_pending(store, agent=agent, labels=label, limit=limit, json=json))


def recover(
    agent: _Agent,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, metavar="N", help="How many runs go on at the same time.")
    ] = 10,
    attempts: _Attempts = 3,
    cancelled: Annotated[
        bool, typer.Option("--cancelled", help="Go on also with runs that a shutdown has cancelled.")
    ] = False,
    store: options.Store = None,
) -> None:
    """Go on with the runs of an agent that are due: what a worker does, once.

    These are the runs whose process has ended without ending them, those that were submitted, and those whose timer has
    fired. Runs that another process drives are left alone, so several processes may recover at the same time. One line
    per run says how it stopped. Exit code: 1 if a run failed or could not go on, else 0.

    \b
    Examples:
      ziggurat recover desk.py:agent
      ziggurat recover desk.py:agent --store sqlite:///agents.db
    """
    from ziggurat.cli.waiting import recover_runs

    raise typer.Exit(recover_runs(agent, store, concurrency=concurrency, attempts=attempts, cancelled=cancelled))


def show(
    run: options.Run,
    drawing: Annotated[
        Literal["tree", "html", "mermaid", "svg", "diagram", "picture"] | None,
        typer.Option(
            "--as",
            help="Write the tree of its calls instead: as text, HTML, Mermaid, or a timeline in SVG; or a diagram (in "
            "Mermaid) or picture (in SVG) of its agent, plan or graph that marks how far it has come.",
        ),
    ] = None,
    agent: options.Agent = None,
    store: options.Store = None,
) -> None:
    """Show a run: each call with its time, tokens and cost.

    The first column is the time at which a call ended, the second how long it took. Only its record is read; a diagram
    needs the agent as well.

    \b
    Examples:
      ziggurat show 3f2a
      ziggurat show r-17 --as html > run.html
      ziggurat show r-17 --as picture --agent orders.py:graph > graph.svg
    """
    from ziggurat.cli.show import show_as

    raise typer.Exit(show_as(run, store, drawing, agent))


def resume(
    run: options.Run,
    agent: options.Agent = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse to continue if the agent differs from the recorded one.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
    store: options.Store = None,
) -> None:
    """Continue a run that is suspended, was interrupted, or failed.

    Its agent is built again from the options of the original command; for a run started by a program, name the agent
    with --agent. If calls wait for decisions you are asked; without a terminal, use approve.

    \b
    Examples:
      ziggurat resume 3f2a
      ziggurat resume r-17 --agent desk.py:agent
    """
    from ziggurat.cli.agent_options import AgentOptions
    from ziggurat.cli.resume import resume_run
    from ziggurat.cli.run import OutputOptions

    raise typer.Exit(resume_run(run, AgentOptions(agent=agent), store, OutputOptions(json, quiet), strict=strict))


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
) -> None:
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
    from ziggurat.cli.agent_options import AgentOptions
    from ziggurat.cli.resume import DecisionOptions, approve_run
    from ziggurat.cli.run import OutputOptions

    decision = DecisionOptions(deny, modify, happened, again)
    raise typer.Exit(approve_run(run, item, AgentOptions(agent=agent), store, OutputOptions(json, quiet), decision))


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
    from ziggurat.cli.agent_options import AgentOptions
    from ziggurat.cli.resume import replay_run

    raise typer.Exit(replay_run(run, AgentOptions(agent=agent), store, live=live))


def fork(
    run: options.Run,
    at: Annotated[int, typer.Option("--at", min=1, metavar="STEP", help="The first step to run again.")],
    prompt: _Prompt = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Another model.")] = None,
    tool: Annotated[
        list[str] | None, typer.Option("--tool", "-t", metavar="MODULE:FUNCTION", help="Other tools. May be repeated.")
    ] = None,
    instructions: options.Instructions = None,
    agent: options.Agent = None,
    effects: _Effects = "refuse",
    json: options.Json = False,
    quiet: options.Quiet = False,
    store: options.Store = None,
) -> None:
    """Start a new run from a step of a stored run.

    The steps before it are reused and cost nothing, and the original run stays unchanged. Tools with side effects are
    refused, unless --effects says otherwise.

    \b
    Examples:
      ziggurat fork 3f2a --at 2 --model openai:gpt-5-mini
      ziggurat fork 3f2a --at 1 --prompt "What is 13 * 12?"
      ziggurat fork r-17 --at 4 --agent desk.py:agent --effects live
    """
    from ziggurat.cli.agent_options import AgentOptions
    from ziggurat.cli.resume import fork_run
    from ziggurat.cli.run import OutputOptions

    chosen = AgentOptions(model, tuple(tool or ()), agent, instructions)
    raise typer.Exit(fork_run(run, at, prompt, chosen, store, OutputOptions(json, quiet), effects=effects))


def export(
    run: options.Run,
    pytest: Annotated[bool, typer.Option("--pytest", help="Write a test that replays it without a network.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Write its record as JSON lines; the default.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to this file, not to standard output.")
    ] = None,
    agent: options.Agent = None,
    store: options.Store = None,
) -> None:
    """Export a run as its record, or as a test that replays it.

    \b
    Examples:
      ziggurat export 3f2a > run.jsonl
      ziggurat export 3f2a --pytest -o test_rain.py
      ziggurat export r-17 --pytest --agent desk.py:agent
    """
    from ziggurat.cli.records import export_run
    from ziggurat.core.errors import ConfigurationError

    if pytest and json:
        raise ConfigurationError("a run is written as JSON lines or as a test, not both: --json or --pytest")
    raise typer.Exit(export_run(run, store, pytest=pytest, agent=agent, file=output))


def accept_loss(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id; with --session, the session's.")],
    session: Annotated[bool, typer.Option("--session", help="RUN is a session.")] = False,
    store: options.Store = None,
) -> None:
    """Accept that the last entries of a damaged run are lost, so that it can be continued without them.

    Restore a backup instead if there is one: calls whose entries are lost are made again, also those of tools that must
    run at most once. The acceptance is recorded in the run. If nothing is left of it, its id becomes free.

    \b
    Examples:
      ziggurat accept-loss r-17 --store sqlite:///agents.db
      ziggurat accept-loss --session alice
    """
    from ziggurat.cli.records import accept_loss_of

    raise typer.Exit(accept_loss_of(run, store, session=session))


def vacuum(
    older: Annotated[
        str, typer.Option("--older-than", metavar="SPAN", help="Runs that have not changed for this long.")
    ] = "30d",
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Also runs that could be continued.")] = False,
    store: options.Store = None,
) -> None:
    """Remove old runs, and free their disk space.

    \b
    Examples:
      ziggurat vacuum
      ziggurat vacuum --older-than 12h --unfinished
    """
    from ziggurat.cli.records import vacuum_runs

    raise typer.Exit(vacuum_runs(store, older=older, unfinished=unfinished))
