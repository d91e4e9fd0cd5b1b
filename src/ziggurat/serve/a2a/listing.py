"""The tasks of an agent, page by page."""

from datetime import datetime
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError
from ziggurat.journal.store import LogInfo
from ziggurat.serve.a2a.tasks import CONTEXT, TaskView, state_of, timestamp
from ziggurat.serve.requests import first_id
from ziggurat.wires import a2a

_MOST = 1_000
"""Tasks that are looked through, the latest first."""


async def list_tasks(agent: Runnable[Any], query: a2a.TasksQuery) -> dict[str, object]:
    """Return a page of tasks, those that changed last first."""
    if not 1 <= query.page_size <= 100:
        raise ConfigurationError(f"pageSize is a number from 1 to 100, got {query.page_size}")
    labels = {CONTEXT: query.context_id} if query.context_id else None
    since = _seconds(query.status_timestamp_after)
    infos: dict[str, LogInfo] = {}  # each as the last of the runs as which it has continued
    for info in await agent.store.logs("run:", agent=agent.name, labels=labels, limit=_MOST):
        if info.status != "Continued":
            infos.setdefault(first_id(info.id), info)
    found = [
        info
        for info in infos.values()
        if query.status in (None, state_of(info.status, asks=info.asks)) and info.updated >= since
    ]
    marks = [f"{timestamp(info.updated)}~{info.id}" for info in found]
    if query.page_token and query.page_token not in marks:
        raise ConfigurationError("pageToken: the list has changed; begin again without one")
    first = marks.index(query.page_token) + 1 if query.page_token else 0
    page = found[first : first + query.page_size]
    views = [await TaskView.of(agent, info) for info in page]
    tasks = [view.task(query.history_length or 0, artifacts=query.include_artifacts) for view in views]
    more = first + len(page) < len(found)
    return {
        "tasks": tasks,
        "nextPageToken": marks[first + len(page) - 1] if more else "",
        "pageSize": len(page),
        "totalSize": len(found),
    }


def _seconds(text: str | None) -> float:
    try:
        return 0.0 if text is None else datetime.fromisoformat(text).timestamp()
    except ValueError as error:
        raise ConfigurationError(
            f"statusTimestampAfter is a time such as 2026-01-31T18:30:00Z, got {text!r:.50}"
        ) from error
