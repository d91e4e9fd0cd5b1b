"""The commands for stored runs, their options and their help."""

__all__ = ["add_run_commands"]

from pathlib import Path
from typing import Annotated, Literal

import typer

from ziggurat.cli import options

_Json = Annotated[bool, typer.Option("--json", help="Write events to standard output, one per line.")]
_Prompt = Annotated[
    str | None,
    typer.Option("--prompt", "-p", metavar="TEXT", help="What is said at that step; at step 1, another question."),
]
_Effects = Annotated[
    Literal["refuse", "recorded", "live"],
    typer.Option("--effects", help="What becomes of tools with side effects."),
]


def add_run_commands(app: typer.Typer) -> None:
    """Give a program the commands for runs that are kept."""
    for command in (runs, show, resume, approve, replay, fork, export, vacuum):
        app.command()(command)


def runs(
    status: Annotated[
        str | None, typer.Option("--status", metavar="STATUS", help="Only those: running, suspended, completed ...")
    ] = None,
    agent: Annotated[str | None, typer.Option("--agent", "-a", metavar="NAME", help="Only this agent's.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Only those changed since: 90m, 12h, 7d, or a date.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="At most so many.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON object per line.")] = False,
    store: options.Store = None,
) -> None:
    """List the runs that are kept, the latest first.

    \b
    Examples:
      ziggurat runs
      ziggurat runs --status suspended --since 7d
      ziggurat runs --json --limit 100 | jq -r .id
    """
    from ziggurat.cli.records import list_runs

    raise typer.Exit(list_runs(store, status=status, agent=agent, since=since, limit=limit, json=json))


def show(run: options.Run, store: options.Store = None) -> None:
    """Show a run: each call with its time, tokens and cost.

    The first column says when a call ended, the second how long it took.

    \b
    Examples:
      ziggurat show 3f2a
      ziggurat show r-17 --store sqlite:///agents.db
    """
    from ziggurat.cli.show import show_record

    raise typer.Exit(show_record(run, store))


def resume(
    run: options.Run,
    agent: options.Agent = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse to go on where the agent differs from the record.")
    ] = False,
    json: _Json = False,
    quiet: options.Quiet = False,
    store: options.Store = None,
) -> None:
    """Continue a run that waits, was interrupted, or failed.

    Its agent is made again as the command line made it; of a run that a program began, name it with --agent. Where
    calls wait for decisions you are asked; without a terminal, use approve.

    \b
    Examples:
      ziggurat resume 3f2a
      ziggurat resume r-17 --agent desk.py:agent
    """
    from ziggurat.cli.agent_options import AgentOptions
    from ziggurat.cli.resume import resume_run
    from ziggurat.cli.run import Output

    raise typer.Exit(resume_run(run, AgentOptions(agent=agent), store, Output(json, quiet), strict=strict))


def approve(
    run: options.Run,
    item: Annotated[
        str | None, typer.Argument(metavar="[ITEM]", help="Which call, by its id; needed where several wait.")
    ] = None,
    deny: Annotated[
        str | None, typer.Option("--deny", metavar="REASON", help="Deny it; the model is told why.")
    ] = None,
    modify: Annotated[
        str | None, typer.Option("--modify", metavar="JSON", help="Approve it with these arguments instead.")
    ] = None,
    happened: Annotated[
        str | None,
        typer.Option(
            "--happened", metavar="RESULT", help="It was interrupted and took effect; the model is told this."
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--did-not-happen", help="It was interrupted and took no effect: run it now.")
    ] = False,
    agent: options.Agent = None,
    json: _Json = False,
    quiet: options.Quiet = False,
    store: options.Store = None,
) -> None:
    """Decide on a call that waits, and continue with its run.

    Without ITEM the only call that waits is meant; where there are several, they are listed. The run ends with 3 again
    while others wait.

    Of a call that acts once and was interrupted, nobody knows whether it took effect: find out, and say --happened or
    --did-not-happen, or --deny to leave it at that.

    \b
    Examples:
      ziggurat approve 3f2a
      ziggurat approve 3f2a 91bc --deny "not today"
      ziggurat approve 3f2a 91bc --modify '{"amount": 5}'
      ziggurat approve 3f2a --happened "paid, receipt 17"
    """
    from ziggurat.cli.agent_options import AgentOptions
    from ziggurat.cli.resume import Said, approve_run
    from ziggurat.cli.run import Output

    said = Said(deny, modify, happened, again)
    raise typer.Exit(approve_run(run, item, AgentOptions(agent=agent), store, Output(json, quiet), said))


def replay(
    run: options.Run,
    live: Annotated[
        Literal["nothing", "tools", "models"],
        typer.Option("--live", help="What is called again; all else answers from the record."),
    ] = "nothing",
    agent: options.Agent = None,
    store: options.Store = None,
) -> None:
    """Go through a run again without calling anything.

    Ends with 0 if it still goes the same way, else with 1 and the first difference.

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
    at: Annotated[int, typer.Option("--at", min=1, metavar="STEP", help="The first step that is made again.")],
    prompt: _Prompt = None,
    model: Annotated[str | None, typer.Option("--model", "-m", metavar="NAME", help="Another model.")] = None,
    tool: Annotated[
        list[str] | None, typer.Option("--tool", "-t", metavar="MODULE:FUNCTION", help="Other tools. May be repeated.")
    ] = None,
    instructions: options.Instructions = None,
    agent: options.Agent = None,
    effects: _Effects = "refuse",
    json: _Json = False,
    quiet: options.Quiet = False,
    store: options.Store = None,
) -> None:
    """Go another way from a step of a run, in a run of its own.

    The steps before it are kept and cost nothing, and the run itself stays as it is. Tools with side effects are
    refused, unless --effects says otherwise.

    \b
    Examples:
      ziggurat fork 3f2a --at 2 --model openai:gpt-5-mini
      ziggurat fork 3f2a --at 1 --prompt "What is 13 * 12?"
      ziggurat fork r-17 --at 4 --agent desk.py:agent --effects live
    """
    from ziggurat.cli.agent_options import AgentOptions
    from ziggurat.cli.resume import fork_run
    from ziggurat.cli.run import Output

    chosen = AgentOptions(model, tuple(tool or ()), agent, instructions)
    raise typer.Exit(fork_run(run, at, prompt, chosen, store, Output(json, quiet), effects=effects))


def export(
    run: options.Run,
    pytest: Annotated[
        bool, typer.Option("--pytest", help="Write a test that goes through it again without network.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Write its record as JSON lines; this is the default.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write there, not to standard output.")
    ] = None,
    agent: options.Agent = None,
    store: options.Store = None,
) -> None:
    """Write a run out: its record, or a test made of it.

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


def vacuum(
    older: Annotated[
        str, typer.Option("--older-than", metavar="SPAN", help="Those that have not changed for so long.")
    ] = "30d",
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Also those that could go on.")] = False,
    store: options.Store = None,
) -> None:
    """Remove old runs, and give their room back.

    \b
    Examples:
      ziggurat vacuum
      ziggurat vacuum --older-than 12h --unfinished
    """
    from ziggurat.cli.records import vacuum_runs

    raise typer.Exit(vacuum_runs(store, older=older, unfinished=unfinished))
