"""The commands that control a run, whichever process drives it; their options and their help."""

from typing import Annotated

import typer

from ziggurat.cli import options


def send(
    run: options.Run,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the event.")],
    value: Annotated[str | None, typer.Argument(metavar="[VALUE]", help="Its value, as JSON or as text.")] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Send one event with this key, once.")] = None,
    store: options.Store = None,
) -> None:
    """Send an event to a run that waits for it, or will; what does not fit is refused.

    \b
    Examples:
      ziggurat send order-17 paid '{"total": 30}' --key payment-9
    """
    from ziggurat.cli.control import send_event

    raise typer.Exit(send_event(run, name, value, key, store))


def attach(run: options.Run, json: options.Json = False, store: options.Store = None) -> None:
    """Follow a run that any process drives, until it ends or waits, and write its answer.

    Pieces of replies come as the model writes them. Ctrl-C ends this command, not the run. The exit code is that of a
    run of one's own.

    \b
    Examples:
      ziggurat attach report-7
      ziggurat attach report-7 --json --store sqlite:///agents.db
    """
    from ziggurat.cli.control import attach_run

    raise typer.Exit(attach_run(run, store, json=json))


def cancel(
    run: options.Run,
    after_step: Annotated[bool, typer.Option("--after-step", help="Let the current step finish.")] = False,
    store: options.Store = None,
) -> None:
    """Stop a run that any process drives; it can be resumed.

    One that nobody drives ends when a worker, recover or resume takes it. Exit code: 1 if the run has ended already,
    else 0.

    \b
    Examples:
      ziggurat cancel report-7
      ziggurat cancel report-7 --after-step
    """
    from ziggurat.cli.control import cancel_run

    raise typer.Exit(cancel_run(run, store, after_step=after_step))


def inject(
    run: options.Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message to the model, in quotes.")],
    redirect: Annotated[
        bool, typer.Option("--redirect", help="Abandon the current plan: its tool calls are cancelled.")
    ] = False,
    store: options.Store = None,
) -> None:
    """Give a run that any process drives another message, before its next model call.

    Exit code: 1 if the run has ended already, else 0.

    \b
    Examples:
      ziggurat inject report-7 "Mention the weather."
      ziggurat inject report-7 --redirect "Write about Paris instead."
    """
    from ziggurat.cli.control import inject_message

    raise typer.Exit(inject_message(run, text, store, redirect=redirect))
