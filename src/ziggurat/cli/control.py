"""``ziggurat send``, ``attach``, ``cancel`` and ``inject``: control a run, whichever process drives it."""

import asyncio
import json as text_of
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Literal, TypeVar

from ziggurat.cli.exit_codes import COMPLETED, INTERRUPTED, STOPPED, SUSPENDED, code_of
from ziggurat.cli.run import tell_how_to_go_on, write_answer
from ziggurat.cli.store import closed, find_run, kept_store, record_in, where_kept
from ziggurat.cli.terminal import note, write
from ziggurat.core.entries import Ended
from ziggurat.core.event import Event
from ziggurat.core.path import escaped
from ziggurat.core.store import LogInfo, Store
from ziggurat.core.visible import visible_line
from ziggurat.messages.agent import AgentRun, PendingItem
from ziggurat.messages.events import AgentEnded, Delta, ModelStarted
from ziggurat.messages.formatting import call_text, stop_text
from ziggurat.messages.pending import recorded_items
from ziggurat.observe.console import ConsoleView
from ziggurat.observe.jsonl import JsonLines
from ziggurat.runs.local import runs_of
from ziggurat.runs.recorded_events import RecordedEvents, subscribe
from ziggurat.runs.sending import post_cancel, post_messages, send

T = TypeVar("T")


def _with_run(run: str, store: str | None, work: Callable[[Store, LogInfo], Awaitable[T]]) -> tuple[str, T]:
    """Do something with a stored run; return its id and the result."""

    async def find_and_work() -> tuple[str, T]:
        place = kept_store(store)
        try:
            info = await find_run(place, run)
            return info.id, await work(place, info)
        finally:
            await closed(place)

    return asyncio.run(find_and_work())


def send_event(run: str, name: str, value: str | None, key: str | None, store: str | None) -> int:
    """Send an event to a run; return the exit code."""
    content: object = value
    with suppress(ValueError):
        content = None if value is None else text_of.loads(value)
    run_id, new = _with_run(run, store, lambda place, info: send(info.id, name, content, store=place, key=key))
    write(f"{visible_line(run_id)}  {visible_line(name)} {'sent' if new else 'was sent before'}")
    return COMPLETED


def cancel_run(run: str, store: str | None, *, after_step: bool) -> int:
    """Ask whoever drives a run to stop it; return the exit code."""
    return _report(*_with_run(run, store, lambda place, info: post_cancel(runs_of(place), info.id, after_step)))


def inject_message(run: str, text: str, store: str | None, *, redirect: bool) -> int:
    """Give a run another message; return the exit code."""
    verb: Literal["inject", "redirect"] = "redirect" if redirect else "inject"
    return _report(*_with_run(run, store, lambda place, info: post_messages(runs_of(place), info.id, verb, text)))


def _report(run_id: str, sent: bool) -> int:
    if not sent:
        note(f"the run {visible_line(run_id)} has ended")
        return STOPPED
    write(f"{visible_line(run_id)}  sent")
    return COMPLETED


def attach_run(run: str, store: str | None, *, json: bool) -> int:
    """Follow a run to its end, or until it waits; return the exit code."""
    whole = sys.stdout.isatty() and not json
    reader = _Reader(JsonLines(sys.stdout) if json else ConsoleView(None if whole else sys.stderr, text=whole))
    try:
        run_id, where = _with_run(run, store, partial(reader.follow, option=store))
    except KeyboardInterrupt:
        note("no longer attached; the run goes on")
        return INTERRUPTED
    ended = reader.run
    if ended is None:  # it waits
        items = [item for item in reader.pending if item.needs_decision]
        note(f"suspended: it waits {'; '.join(call_text(item.call) for item in items) or reader.pending[0].reason}")
        tell_how_to_go_on(run_id, where, items)
        return SUSPENDED
    if not json:
        write_answer(ended, sys.stdout, was_shown=whole and reader.shown)
    code = code_of(ended.stop)
    if code != COMPLETED:
        note(stop_text(ended.stop))
        tell_how_to_go_on(run_id, where)
    return code


class _Reader:
    """Shows the events of a run that is followed."""

    def __init__(self, view: ConsoleView | JsonLines) -> None:
        self._view = view
        self.run: AgentRun | None = None
        self.pending: tuple[PendingItem, ...] = ()
        self.shown = False

    async def follow(self, store: Store, info: LogInfo, *, option: str | None) -> str | None:
        """Follow a run to its end; return the options with which another command finds it."""
        path = escaped(info.agent)
        with self._view if isinstance(self._view, ConsoleView) else ExitStack():
            async for item in subscribe(runs_of(store), info.id, 0, RecordedEvents(info.id, path, None)):
                if isinstance(item.what, Event):
                    self._show(item.what, path)
                elif isinstance(item.what, Ended) and isinstance(item.what.run, AgentRun):
                    self._show(AgentEnded(path, item.what.run), path)
        self.pending = recorded_items(await record_in(store, info.id))
        return where_kept(store, None, option)

    def _show(self, event: Event, path: str) -> None:
        if isinstance(event, (Delta, ModelStarted)):
            self.shown = isinstance(event, Delta)
        if isinstance(event, AgentEnded) and event.path == path:
            self.run = event.run
        self._view(event)
