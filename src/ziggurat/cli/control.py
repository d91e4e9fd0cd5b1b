"""``ziggurat send``, ``attach``, ``cancel`` and ``inject``: control a run, whichever process drives it."""

import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Annotated, TypeVar

from typer import Argument, Option

from ziggurat.cli import options, outcome, store as stores, terminal
from ziggurat.cli.agents import with_agent
from ziggurat.core.event import Event
from ziggurat.core.path import escaped
from ziggurat.core.visible import visible_line
from ziggurat.journal.entries import Ended
from ziggurat.journal.store import LogInfo, Store
from ziggurat.messages import events
from ziggurat.messages.agent import AgentRun, PendingItem, recorded_items
from ziggurat.messages.conversation import Verb
from ziggurat.observe.console import ConsoleView
from ziggurat.observe.jsonl import JsonLines
from ziggurat.runs import sending
from ziggurat.runs.recorded_events import subscribe
from ziggurat.runs.runs import runs_of
from ziggurat.serve.requests import value_of

T = TypeVar("T")


def _with_run(run: str, store: str | None, work: Callable[[Store, LogInfo], Awaitable[T]]) -> tuple[str, T]:

    async def find_and_work(place: Store) -> tuple[str, T]:
        info = await stores.find_run(place, run)
        return info.id, await work(place, info)

    return stores.with_store(store, find_and_work)


def send(
    run: options.Run,
    name: Annotated[str, Argument(metavar="NAME", help="The name of the event.")],
    value: Annotated[str | None, Argument(metavar="[VALUE]", help="Its value, as JSON or as text.")] = None,
    key: Annotated[str | None, Option("--key", metavar="KEY", help="Send one event with this key, once.")] = None,
    store: options.Store = None,
) -> None:
    """Send an event to a run that waits for it, or will; what does not fit is refused.

    \b
    Examples:
      ziggurat send order-17 paid '{"total": 30}' --key payment-9
    """
    content = None if value is None else value_of(value)
    run_id, new = _with_run(run, store, lambda place, info: sending.send(info.id, name, content, store=place, key=key))
    terminal.write(f"{visible_line(run_id)}  {visible_line(name)} {'sent' if new else 'was sent before'}")


def cancel(
    run: options.Run,
    after_step: Annotated[bool, Option("--after-step", help="Let the current step finish.")] = False,
    store: options.Store = None,
) -> int:
    """Stop a run that any process drives; it can be resumed.

    One that nobody drives ends when a worker, recover or resume takes it. Exit code: 1 if the run has ended already,
    else 0.

    \b
    Examples:
      ziggurat cancel report-7 --after-step
    """
    return _report(*_with_run(run, store, lambda place, info: sending.post_cancel(runs_of(place), info.id, after_step)))


def inject(
    run: options.Run,
    text: Annotated[str, Argument(metavar="TEXT", help="The message to the model, in quotes.")],
    redirect: Annotated[
        bool, Option("--redirect", help="Abandon the current plan: its tool calls are cancelled.")
    ] = False,
    store: options.Store = None,
) -> int:
    """Give a run that any process drives another message, before its next model call.

    Exit code: 1 if the run has ended already, else 0.

    \b
    Examples:
      ziggurat inject report-7 --redirect "Write about Paris instead."
    """
    verb: Verb = "redirect" if redirect else "inject"
    return _report(
        *_with_run(run, store, lambda place, info: sending.post_messages(runs_of(place), info.id, verb, text))
    )


def _report(run_id: str, sent: bool) -> int:
    if not sent:
        terminal.note(f"the run {visible_line(run_id)} has ended")
        return outcome.STOPPED
    terminal.write(f"{visible_line(run_id)}  sent")
    return outcome.COMPLETED


def attach(run: options.Run, json: options.Json = False, store: options.Store = None) -> int:
    """Follow a run that any process drives, until it ends or waits, and write its answer.

    Pieces of replies come as the model writes them. Ctrl-C ends this command, not the run. The exit code is that of a
    run of one's own.

    \b
    Examples:
      ziggurat attach report-7 --json --store sqlite:///agents.db
    """
    whole = sys.stdout.isatty() and not json
    view = JsonLines(sys.stdout) if json else ConsoleView(None if whole else sys.stderr, text=whole)
    shown, ended = False, list[AgentRun]()

    def show(event: Event, path: str) -> None:
        nonlocal shown
        if isinstance(event, (events.Delta, events.ModelStarted)):
            shown = isinstance(event, events.Delta)
        if isinstance(event, events.AgentEnded) and event.path == path:
            ended.append(event.run)
        view(event)

    async def follow(place: Store, info: LogInfo) -> tuple[str | None, tuple[PendingItem, ...]]:
        path, runs = escaped(info.agent), runs_of(place)
        with view if isinstance(view, ConsoleView) else ExitStack():
            async for item in subscribe(runs.subscribe, info.id, path):
                if isinstance(item.what, Event):
                    show(item.what, path)
                elif isinstance(item.what, Ended) and isinstance(item.what.run, AgentRun):
                    show(events.AgentEnded(path, item.what.run), path)
        journal = await runs.read((await runs.newest(info.id) or info).id)
        return with_agent(stores.where_kept(place, None, store), journal), recorded_items(journal)

    try:
        run_id, (where, pending) = _with_run(run, store, follow)
    except KeyboardInterrupt:
        terminal.note("no longer attached; the run goes on")
        return outcome.INTERRUPTED
    if not ended:  # it waits
        outcome.explain_waits(pending)
        outcome.tell_how_to_go_on(run_id, where, [item for item in pending if item.needs_decision])
        return outcome.SUSPENDED
    if not json:
        outcome.write_answer(ended[-1], sys.stdout, was_shown=whole and shown)
    return outcome.report(ended[-1], where)
