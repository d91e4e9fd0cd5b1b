"""``ziggurat send``, ``attach``, ``cancel`` and ``inject``: control a run, whichever process drives it."""

import json as text_of
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from typing import Annotated, TypeVar

import typer

from ziggurat.cli import options, outcome
from ziggurat.cli.store import find_run, where_kept, with_store
from ziggurat.cli.terminal import note, write
from ziggurat.core.event import Event
from ziggurat.core.path import escaped
from ziggurat.core.visible import visible_line
from ziggurat.journal.entries import Ended
from ziggurat.journal.store import LogInfo, Store
from ziggurat.messages.agent import AgentRun, PendingItem, recorded_items
from ziggurat.messages.conversation import Verb
from ziggurat.messages.events import AgentEnded, Delta, ModelStarted
from ziggurat.messages.formatting import call_text, stop_text
from ziggurat.observe.console import ConsoleView
from ziggurat.observe.jsonl import JsonLines
from ziggurat.runs.recorded_events import subscribe
from ziggurat.runs.runs import runs_of
from ziggurat.runs.sending import post_cancel, post_messages, send as send_event

T = TypeVar("T")


def _with_run(run: str, store: str | None, work: Callable[[Store, LogInfo], Awaitable[T]]) -> tuple[str, T]:

    async def find_and_work(place: Store) -> tuple[str, T]:
        info = await find_run(place, run)
        return info.id, await work(place, info)

    return with_store(store, find_and_work)


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
    content: object = value
    with suppress(ValueError):
        content = None if value is None else text_of.loads(value)
    run_id, new = _with_run(run, store, lambda place, info: send_event(info.id, name, content, store=place, key=key))
    write(f"{visible_line(run_id)}  {visible_line(name)} {'sent' if new else 'was sent before'}")


def cancel(
    run: options.Run,
    after_step: Annotated[bool, typer.Option("--after-step", help="Let the current step finish.")] = False,
    store: options.Store = None,
) -> int:
    """Stop a run that any process drives; it can be resumed.

    One that nobody drives ends when a worker, recover or resume takes it. Exit code: 1 if the run has ended already,
    else 0.

    \b
    Examples:
      ziggurat cancel report-7
      ziggurat cancel report-7 --after-step
    """
    return _report(*_with_run(run, store, lambda place, info: post_cancel(runs_of(place), info.id, after_step)))


def inject(
    run: options.Run,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The message to the model, in quotes.")],
    redirect: Annotated[
        bool, typer.Option("--redirect", help="Abandon the current plan: its tool calls are cancelled.")
    ] = False,
    store: options.Store = None,
) -> int:
    """Give a run that any process drives another message, before its next model call.

    Exit code: 1 if the run has ended already, else 0.

    \b
    Examples:
      ziggurat inject report-7 "Mention the weather."
      ziggurat inject report-7 --redirect "Write about Paris instead."
    """
    verb: Verb = "redirect" if redirect else "inject"
    return _report(*_with_run(run, store, lambda place, info: post_messages(runs_of(place), info.id, verb, text)))


def _report(run_id: str, sent: bool) -> int:
    if not sent:
        note(f"the run {visible_line(run_id)} has ended")
        return outcome.STOPPED
    write(f"{visible_line(run_id)}  sent")
    return outcome.COMPLETED


def attach(run: options.Run, json: options.Json = False, store: options.Store = None) -> int:
    """Follow a run that any process drives, until it ends or waits, and write its answer.

    Pieces of replies come as the model writes them. Ctrl-C ends this command, not the run. The exit code is that of a
    run of one's own.

    \b
    Examples:
      ziggurat attach report-7
      ziggurat attach report-7 --json --store sqlite:///agents.db
    """
    whole = sys.stdout.isatty() and not json
    reader = _Reader(JsonLines(sys.stdout) if json else ConsoleView(None if whole else sys.stderr, text=whole))
    try:
        run_id, place = _with_run(run, store, reader.follow)
    except KeyboardInterrupt:
        note("no longer attached; the run goes on")
        return outcome.INTERRUPTED
    where = where_kept(place, None, store)
    ended = reader.run
    if ended is None:  # it waits
        items = [item for item in reader.pending if item.needs_decision]
        note(f"suspended: it waits {'; '.join(call_text(item.call) for item in items) or reader.pending[0].reason}")
        outcome.tell_how_to_go_on(run_id, where, items)
        return outcome.SUSPENDED
    if not json:
        outcome.write_answer(ended, sys.stdout, was_shown=whole and reader.shown)
    code = outcome.code_of(ended.stop)
    if code != outcome.COMPLETED:
        note(stop_text(ended.stop))
        outcome.tell_how_to_go_on(run_id, where)
    return code


class _Reader:
    def __init__(self, view: ConsoleView | JsonLines) -> None:
        self._view = view
        self.run: AgentRun | None = None
        self.pending: tuple[PendingItem, ...] = ()
        self.shown = False

    async def follow(self, store: Store, info: LogInfo) -> Store:
        """Follow a run to its end; return its store."""
        path, runs = escaped(info.agent), runs_of(store)
        with self._view if isinstance(self._view, ConsoleView) else ExitStack():
            async for item in subscribe(runs.subscribe, info.id, path):
                if isinstance(item.what, Event):
                    self._show(item.what, path)
                elif isinstance(item.what, Ended) and isinstance(item.what.run, AgentRun):
                    self._show(AgentEnded(path, item.what.run), path)
        newest = await runs.newest(info.id) or info
        self.pending = recorded_items(await runs.read(newest.id))
        return store

    def _show(self, event: Event, path: str) -> None:
        if isinstance(event, (Delta, ModelStarted)):
            self.shown = isinstance(event, Delta)
        if isinstance(event, AgentEnded) and event.path == path:
            self.run = event.run
        self._view(event)
