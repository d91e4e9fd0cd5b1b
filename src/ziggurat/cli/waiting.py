"""``ziggurat pending`` and ``recover``: list what waits, and go on with interrupted runs."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from ziggurat.agents.recovery import Recovery
from ziggurat.agents.runnable import Runnable
from ziggurat.cli.agent_options import AgentOptions
from ziggurat.cli.build import agent_of
from ziggurat.cli.exit_codes import COMPLETED, STOPPED
from ziggurat.cli.store import closed, kept_store, labels_from
from ziggurat.cli.terminal import note, write, write_json
from ziggurat.core.codec import encode
from ziggurat.core.store import UNFINISHED
from ziggurat.core.stored_rows import read_record
from ziggurat.core.visible import visible_line
from ziggurat.messages import stops
from ziggurat.messages.agent import PendingItem
from ziggurat.messages.formatting import call_text, plural
from ziggurat.stores.pending import pending_items


class _PendingCall(Struct):
    """One call that waits, as JSON."""

    run: str
    id: str
    path: str
    stage: str
    tool: str
    arguments: str
    reason: str
    until: float | None
    interrupted: bool


def list_pending(store: str | None, *, agent: str | None, labels: Sequence[str] | None, limit: int, json: bool) -> int:
    """Write the calls that wait for a decision, those of the latest run first; return the exit code."""
    waiting = asyncio.run(_pending(store, agent, labels_from(labels), limit))
    if not waiting and not json:
        note("nothing waits for a decision")
    for run_id, items in waiting.items():
        for item in items:
            if json:
                write_json(encode(_as_json(run_id, item)))
            else:
                write(_line(run_id, item))
    return COMPLETED


async def _pending(
    store: str | None, agent: str | None, labels: Mapping[str, object], limit: int
) -> dict[str, tuple[PendingItem, ...]]:
    place = kept_store(store)
    try:
        infos = await place.logs("run:", agent=agent, status=stops.Suspended.__name__, labels=labels, limit=limit)
        return await pending_items(infos, lambda run_id: read_record(place, run_id))
    finally:
        await place.close()


def _as_json(run_id: str, item: PendingItem) -> _PendingCall:
    call = item.call
    return _PendingCall(
        run_id, item.id, item.path, item.stage, call.name, call.arguments, item.reason, item.until, item.interrupted
    )


def _line(run_id: str, item: PendingItem) -> str:
    cells = [visible_line(run_id), visible_line(item.id), call_text(item.call)]
    if not item.needs_decision:
        return "  ".join([*cells[:2], f"waits {visible_line(item.reason)}", *_until(item)])
    if item.reason:
        cells.append(visible_line(item.reason))
    if item.interrupted:
        cells.append("(interrupted: it may have taken effect)")
    return "  ".join([*cells, *_until(item)])


def _until(item: PendingItem) -> list[str]:
    """Return until when it waits, in brackets; nothing for a timer, whose reason has it, and for what never ends."""
    if item.until is None or item.stage == "timer":
        return []
    return [f"(until {datetime.fromtimestamp(item.until, UTC):%Y-%m-%d %H:%M:%S} UTC)"]


def recover_runs(agent: str, store: str | None, *, concurrency: int, attempts: int, cancelled: bool) -> int:
    """Go on with the interrupted runs of an agent; return the exit code."""
    recovery = asyncio.run(_recover(agent_of(AgentOptions(agent=agent), store), concurrency, attempts, cancelled))
    for run_id, run in recovery.runs.items():
        write(f"{visible_line(run_id)}  {type(run.stop).__name__}")
    for run_id, error in recovery.errors.items():
        write(f"{visible_line(run_id)}  {type(error).__name__}: {visible_line(str(error))}")
    if not recovery.runs and not recovery.errors:
        note("no interrupted run to recover")
        return COMPLETED
    note(f"{plural(len(recovery.runs), 'run')} recovered, {len(recovery.errors)} could not be")
    waiting = UNFINISHED - {stops.Suspended.__name__}  # a run that waits for a decision has done what it could
    failed = any(type(run.stop).__name__ in waiting for run in recovery.runs.values())
    return STOPPED if failed or recovery.errors else COMPLETED


async def _recover(agent: Runnable, concurrency: int, attempts: int, cancelled: bool) -> Recovery[object]:
    try:
        return await agent.recover(concurrency=concurrency, attempts=attempts, cancelled=cancelled)
    finally:
        await closed(agent.store)
