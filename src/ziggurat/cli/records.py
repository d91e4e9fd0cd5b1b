"""``ziggurat runs``, ``export``, ``accept-loss`` and ``vacuum``: list stored runs, export, repair and remove them."""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

from msgspec import Struct

from ziggurat.cli.exit_codes import COMPLETED
from ziggurat.cli.store import closed, find_run, kept_store, labels_from, record_in
from ziggurat.cli.terminal import note, write, write_json
from ziggurat.core.codec import as_type, encode
from ziggurat.core.entries import Opened
from ziggurat.core.errors import ConfigurationError, JournalError
from ziggurat.core.json_lines import read_entry
from ziggurat.core.loss import accept_loss
from ziggurat.core.store import LogInfo, Store, acknowledged_in, run_log, session_log
from ziggurat.core.stored_rows import lines_of
from ziggurat.core.visible import visible_line
from ziggurat.databases.files import write_private_text
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.formatting import duration, plural, shortened

_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_STATUSES: tuple[str, ...] = ("running", *(kind.__name__ for kind in get_args(stops.Stop)), "Quarantined")


class _ListedRun(Struct):
    """One listed run as JSON."""

    id: str
    status: str
    agent: str
    entries: int
    created: float
    updated: float
    question: str
    forked_from: str | None = None
    labels: dict[str, object] = {}


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of a span such as ``90m`` or ``2d``, or the seconds since a date."""
    span = _SPAN.fullmatch(text.strip())
    if span is not None:
        return float(span[1]) * _SECONDS[span[2]]
    try:
        return time.time() - datetime.fromisoformat(text.strip()).timestamp()
    except ValueError as error:
        raise ConfigurationError(
            f"{option} is a span such as 90m, 12h or 7d, or a date such as 2026-11-22; got {text!r}"
        ) from error


def list_runs(
    store: str | None,
    *,
    status: str | None,
    agent: str | None,
    since: str | None,
    labels: Sequence[str] | None,
    limit: int,
    json: bool,
) -> int:
    """Write a list of the stored runs, the latest first; return the exit code."""
    chosen = None if status is None else _status(status)
    after = None if since is None else time.time() - seconds_of(since, "--since")
    runs = asyncio.run(_list(store, chosen, agent, after, labels_from(labels), limit))
    if json:
        for run in runs:
            write_json(encode(run))
        return COMPLETED
    if not runs:
        note("there is no such run")
        return COMPLETED
    rows = [tuple(map(visible_line, (run.id, run.status, run.agent))) for run in runs]
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    now = time.time()
    for run, row in zip(runs, rows, strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        age = f"{duration(max(0.0, now - run.updated))} ago"
        write(f"{'  '.join(cells)}  {age:>16}  {shortened(run.question, 60)}")
    return COMPLETED


_WIDEST = 60
"""Characters to which a column of a list is padded, so that one long id does not make all lines long."""


def _status(name: str) -> str:
    """Return the status with this name, ignoring case."""
    statuses = {each.lower(): each for each in _STATUSES}
    if name.lower() in statuses:
        return statuses[name.lower()]
    near = get_close_matches(name.lower(), statuses, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise ConfigurationError(f"--status {name}: {hint}known are {', '.join(statuses)}")


async def _list(
    store: str | None,
    status: str | None,
    agent: str | None,
    after: float | None,
    labels: Mapping[str, object],
    limit: int,
) -> list[_ListedRun]:
    place = kept_store(store)
    try:
        infos = await place.logs("run:", agent=agent, status=status, labels=labels, limit=limit)
        return [await _list_entry(place, info) for info in infos if after is None or info.updated >= after]
    finally:
        await place.close()


async def _list_entry(store: Store, info: LogInfo) -> _ListedRun:
    question, origin = "", None
    try:
        (line,) = await lines_of(store, info.log, await store.read(info.log, 0, 1))
        opened = read_entry(line)
        if isinstance(opened, Opened) and opened.request is not None:
            question = as_type(opened.request, AgentRequest).messages[-1].text
            origin = None if opened.forked is None else opened.forked.run_id
    except (JournalError, ValueError, RecursionError):  # damaged runs are listed too
        question = info.problem or "(cannot be read)"
    times = (info.created, info.updated)
    return _ListedRun(info.id, info.status, info.agent, info.count, *times, question, origin, info.labels)


def export_run(run: str, store: str | None, *, pytest: bool, agent: str | None, file: Path | None) -> int:
    """Write a run as JSON lines, or as a test; return the exit code."""
    text = asyncio.run(_export(run, store, pytest, agent))
    if file is None:
        write(text) if pytest else write_json(text)
        return COMPLETED
    try:
        write_private_text(file, text)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}") from error
    note(f"wrote {file}")
    return COMPLETED


async def _export(run: str, store: str | None, pytest: bool, agent: str | None) -> str:
    place = kept_store(store)
    try:
        info = await find_run(place, run)
        journal = await record_in(place, info.id)
    finally:
        await closed(place)
    if not pytest:
        return journal.dump().decode()
    from ziggurat.cli.pytest_file import as_test

    return as_test(info, journal, agent)


def accept_loss_of(name: str, store: str | None, *, session: bool) -> int:
    """Accept that the end of a run, or a whole session, is lost; return the exit code."""

    async def accepted() -> range:
        place = kept_store(store)
        try:
            log = session_log(name) if session else run_log(name)
            if not session and await acknowledged_in(place, log) is None:
                log = (await find_run(place, name)).log
            return await accept_loss(place, log)
        finally:
            await closed(place)

    lost = asyncio.run(accepted())
    outcome = f"the loss of entries {lost[0]} to {lost[-1]} is accepted" if lost else "no entry is missing at the end"
    write(f"{visible_line(name)}: {outcome}")
    return COMPLETED


def vacuum_runs(store: str | None, *, older: str, unfinished: bool) -> int:
    """Remove runs that have not changed for some time; return the exit code."""

    async def removed() -> int:
        place = kept_store(store)
        try:
            return await place.vacuum(time.time() - seconds_of(older, "--older-than"), unfinished=unfinished)
        finally:
            await place.close()

    write(f"{plural(asyncio.run(removed()), 'run')} removed")
    return COMPLETED
