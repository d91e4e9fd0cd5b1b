"""``ziggurat runs``, ``pending``, ``accept-loss`` and ``vacuum``: list, repair and remove stored runs."""

import re
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Struct
from typer import Argument, Option

from ziggurat.cli import options, store as stores, terminal
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, JournalError
from ziggurat.core.visible import visible_line
from ziggurat.journal.entries import Opened
from ziggurat.journal.rows import accept_loss as accept_loss_of
from ziggurat.journal.store import LogInfo, Store, acknowledged_in, run_log, session_log
from ziggurat.messages.agent import PendingItem
from ziggurat.messages.formatting import call_text, plural, shortened
from ziggurat.serve.requests import read_status
from ziggurat.serve.rows import prompt_of, read_entries
from ziggurat.tools.decisions import shown_time

_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class _ListedRun(Struct):
    id: str
    status: str
    agent: str
    entries: int
    created: float
    updated: float
    question: str
    forked_from: str | None = None
    labels: dict[str, object] = {}


def runs(
    status: Annotated[str | None, Option("--status", metavar="STATUS", help="Only this, such as suspended.")] = None,
    agent: options.AgentName = None,
    since: Annotated[str | None, Option("--since", metavar="WHEN", help="Changed since: 90m, 7d, or a date.")] = None,
    label: options.Labels = None,
    limit: options.Limit = 20,
    json: options.JsonRows = False,
    store: options.Store = None,
) -> None:
    """List the stored runs, the latest first.

    \b
    Examples:
      ziggurat runs --status suspended --since 7d
      ziggurat runs --json --limit 100 | jq -r .id
    """
    chosen = None if status is None else read_status(status, "--status")
    after = None if since is None else datetime.now(UTC).timestamp() - seconds_of(since, "--since")
    labels = stores.labels_from(label)

    async def listed(place: Store) -> list[_ListedRun]:
        infos = await place.logs("run:", agent=agent, status=chosen, labels=labels, limit=limit)
        return [await _list_entry(place, info) for info in infos if after is None or info.updated >= after]

    found = stores.with_store(store, listed)
    if json:
        for run in found:
            terminal.write_json(encode(run))
    elif found:
        shown = [
            (run.id, run.status, run.agent, terminal.age_of(run.updated), shortened(run.question, 60)) for run in found
        ]
        terminal.write_table(shown)
    elif chosen or agent or label or since:
        terminal.note("no runs match")
    else:
        terminal.note("no runs yet")


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a span such as ``90m`` or ``2d``, or the seconds since a date."""
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        return float(span[1]) * _SECONDS[span[2]]
    try:
        return datetime.now(UTC).timestamp() - datetime.fromisoformat(text.strip()).timestamp()
    except ValueError as error:
        raise ConfigurationError(f"{option} is a span such as 90m or 7d, or a date; got {text!r}") from error


async def _list_entry(store: Store, info: LogInfo) -> _ListedRun:
    question, origin = "", None
    try:
        (opened,) = await read_entries(store, info, 0, 1)
        question = prompt_of(opened)
        origin = opened.forked.run_id if isinstance(opened, Opened) and opened.forked is not None else None
    except (JournalError, ValueError, RecursionError):  # damaged runs are listed too
        question = info.problem or "(cannot be read)"
    times = (info.created, info.updated)
    return _ListedRun(info.id, info.status, info.agent, info.count, *times, question, origin, info.labels)


def pending(
    agent: options.AgentName = None,
    label: options.Labels = None,
    after: Annotated[str | None, Option("--after", metavar="PLACE", help="Only runs after this place.")] = None,
    limit: options.Limit = 100,
    json: options.JsonRows = False,
    store: options.Store = None,
) -> None:
    """List the calls that wait for people, those of the oldest run first.

    Each line has the run, the id of the call, and the call. Only records are read; the agents are not needed.

    \b
    Examples:
      ziggurat pending --agent desk --store sqlite:///agents.db
      ziggurat pending --json | jq -r .run
    """
    from ziggurat.runs.pending import pending as pending_in

    labels = stores.labels_from(label)
    waiting = stores.with_store(
        store, lambda place: pending_in(place, agent=agent, labels=labels, after=after, limit=limit)
    )
    if not waiting and not json:
        terminal.note("nothing waits for people")
    for run_id, items in waiting.items():
        for item in items:
            if json:
                terminal.write_json(encode(_as_json(run_id, item)))
            else:
                terminal.write(_line(run_id, item))
    if waiting.next is not None:
        terminal.note(f"there are more: --after {waiting.next!r}")


def _as_json(run_id: str, item: PendingItem) -> dict[str, object]:
    fields = {name: getattr(item, name) for name in ("id", "path", "stage", "reason", "until", "interrupted")}
    return {"run": run_id, **fields, "tool": item.call.name, "arguments": item.call.arguments}


def _line(run_id: str, item: PendingItem) -> str:
    cells = [visible_line(run_id), visible_line(item.id), call_text(item.call)]
    if item.reason:
        cells.append(visible_line(item.reason))
    if item.interrupted:
        cells.append("(interrupted: it may have taken effect)")
    if item.until is not None:
        cells.append(f"(until {shown_time(item.until)})")
    return "  ".join(cells)


def accept_loss(
    run: Annotated[str, Argument(metavar="RUN", help="The run's id; with --session, the session's.")],
    session: Annotated[bool, Option("--session", help="RUN is a session.")] = False,
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

    async def accepted(place: Store) -> range:
        log = session_log(run) if session else run_log(run)
        if not session and await acknowledged_in(place, log) is None:
            log = (await stores.find_run(place, run)).log
        return await accept_loss_of(place, log)

    lost = stores.with_store(store, accepted)
    outcome = (
        f"the loss of entries {lost[0]} to {lost[-1]} is accepted"
        if lost
        else "no entry is known to be missing at the end"
    )
    terminal.write(f"{visible_line(run)}: {outcome}")


def vacuum(
    older: Annotated[str, Option("--older-than", metavar="SPAN", help="Runs unchanged for this long.")] = "30d",
    unfinished: Annotated[bool, Option("--unfinished", help="Also runs that could be continued.")] = False,
    store: options.Store = None,
) -> None:
    """Remove old runs, and free their disk space.

    \b
    Examples:
      ziggurat vacuum --older-than 12h --unfinished
    """
    before = datetime.now(UTC).timestamp() - seconds_of(older, "--older-than")
    removed = stores.with_store(store, lambda place: place.vacuum(before, unfinished=unfinished))
    terminal.write(f"{plural(removed, 'run')} removed")
