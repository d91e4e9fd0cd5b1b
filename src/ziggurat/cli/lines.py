"""Runs as lines of JSON, one for each event."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TextIO

from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.cli.outcome import report, report_interrupted
from ziggurat.cli.store import is_kept
from ziggurat.core.event import Listener
from ziggurat.core.path import escaped
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.events import AgentEnded
from ziggurat.observe.jsonl import JsonLines
from ziggurat.runs.drive import partial_of

Begin = Callable[[Sequence[Listener]], Coroutine[Any, Any, AgentRun]]
"""Starts or continues a run with the given listeners."""


def in_json(agent: Runnable, begin: Begin, out: TextIO, run_id: str, where: str | None) -> int:
    """Write every event of a run as a line; the last line is always the agent's AgentEnded."""
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding="utf-8")
    kept = pipe_closed = False

    async def written() -> AgentRun:
        nonlocal kept
        task = asyncio.current_task()

        def on_closed() -> None:
            nonlocal pipe_closed
            pipe_closed = True
            if task is not None:
                task.cancel()

        lines = JsonLines(out, on_closed=on_closed)
        try:
            return await begin([lines])
        except (Exception, asyncio.CancelledError) as error:
            cancelled = isinstance(error, asyncio.CancelledError)
            kept = cancelled and await is_kept(agent.store, run_id)
            begun = partial_of(error)
            if begun is not None and lines.written:  # the agent could not write its end
                stop = stops.Cancelled() if cancelled else stops.Failed(str(error), type(error).__name__)
                lines(AgentEnded(escaped(agent.name), replace(begun, stop=stop)))
            raise
        finally:
            await agent.store.close()

    try:
        run = asyncio.run(written())
    except asyncio.CancelledError:
        if not pipe_closed:
            raise
    except KeyboardInterrupt:
        return report_interrupted(run_id, where if kept else None)
    if pipe_closed:
        raise BrokenPipeError
    return report(run, where)
