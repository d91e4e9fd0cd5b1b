"""Runs as tasks of A2A: the id of a task is that of its run, and all that is shown of it is on record."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.enter import parts_of
from ziggurat.core.clock import SYSTEM_CLOCK
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.core.path import escaped, is_question, step_of
from ziggurat.journal.entries import Ended, JournalEntry, Opened
from ziggurat.journal.store import LogInfo
from ziggurat.messages import events, stops
from ziggurat.messages.agent import AgentRequest, AgentRun, Answer, PendingItem
from ziggurat.messages.message import Message
from ziggurat.runs.recorded_events import RecordedEvents
from ziggurat.serve import narration
from ziggurat.serve.decisions import PendingRow
from ziggurat.serve.requests import first_id
from ziggurat.serve.rows import time_of
from ziggurat.serve.ui.runs import records_of
from ziggurat.wires import a2a

CONTEXT = "a2a_context"
"""The label of a run that names its conversation."""

_STATES: dict[str, a2a.TaskState] = {
    "running": a2a.WORKING,
    "Completed": "TASK_STATE_COMPLETED",
    "ToolCalled": "TASK_STATE_COMPLETED",
    "StopCondition": "TASK_STATE_COMPLETED",
    "Continued": a2a.WORKING,
    "Cancelled": "TASK_STATE_CANCELED",
    "Denied": "TASK_STATE_REJECTED",
}


def context_of(info: LogInfo) -> str:
    return str(info.labels.get(CONTEXT) or first_id(info.id))


def state_of(status: str, *, asks: bool = False) -> a2a.TaskState:
    if status == "Suspended":
        return a2a.INPUT_REQUIRED if asks else a2a.WORKING
    return _STATES.get(status, "TASK_STATE_FAILED")


class TaskView:
    """Shows a run as a task, from the entries of its record, and of those of the runs as which it has continued."""

    def __init__(self, agent: Runnable[Any], info: LogInfo, reason: str | None = None) -> None:
        self._info = info  # of the last run
        self._reason = reason  # why a mistake has interrupted it
        self._id = first_id(info.id)
        self._agent = escaped(agent.name)
        self._history: list[a2a.Message] = []
        self._items: dict[int, PendingItem] = {}
        self._run: AgentRun | None = None
        self._calls = 0
        self.entries: int = 0
        self._before = 0  # entries of the runs before the last
        self._end: Ended | None = None

    @classmethod
    async def of(cls, agent: Runnable[Any], info: LogInfo, reason: str | None = None) -> "TaskView":
        view = cls(agent, info, reason)
        for run_id, entries in await records_of(agent, first_id(info.id)):
            reader, view._before = RecordedEvents(run_id, view._agent, parts_of(agent).read), view.entries
            for entry in entries:
                view._add(reader.read(entry))
        return view

    def _add(self, what: JournalEntry | Event) -> None:
        self.entries += 1
        self._calls += not isinstance(what, (Opened, events.AgentStarted, events.AgentEnded, Ended))
        match what:
            case Opened():
                self._end = None
                if isinstance(what.request, AgentRequest) and not self._before:
                    self._say("ROLE_USER", *_shown(what.request.messages[-1]))
            case events.ModelEnded(path, response) if is_question(path) and step_of(path)[0] == self._agent:
                self._say("ROLE_AGENT", *_shown(response.message))
            case events.ApprovalRequested(_, item):
                self._items[self.entries] = item
                self._say("ROLE_AGENT", a2a.Part(text=question_of_item(item)))
            case events.ApprovalDecided(_, _, _, decision):
                text = str(decision.value) if isinstance(decision, Answer) else type(decision).__name__.lower()
                self._say("ROLE_USER", a2a.Part(text=text))
            case events.AgentEnded(path, run) if path == self._agent:
                self._run = run
            case Ended():
                self._end = what

    def _say(self, role: Any, *parts: a2a.Part) -> None:
        if parts:
            self._history.append(self._message(role, parts, self.entries))

    def _message(self, role: Any, parts: tuple[a2a.Part, ...], number: int) -> a2a.Message:
        return a2a.Message(f"{self._id}-{number}", role, parts, context_of(self._info), self._id)

    def message(self) -> a2a.Message | None:
        """Return the answer of an agent that has called nothing, so that there was no task; None for any other."""
        if self._calls or self.status().state != "TASK_STATE_COMPLETED":
            return None
        parts = tuple(part for artifact in artifacts_of(self._run) for part in artifact.parts)
        return self._message("ROLE_AGENT", parts, self.entries) if parts else None

    def task(self, history: int | None = None, *, artifacts: bool = True) -> a2a.Task:
        if history is not None and history < 0:
            raise ConfigurationError(f"historyLength is a number of messages, got {history}")
        kept = self._history if history is None else self._history[-history:] if history else []
        status = self.status()
        done = status.state == "TASK_STATE_COMPLETED" and artifacts
        return a2a.Task(self._id, status, context_of(self._info), artifacts_of(self._run) if done else (), tuple(kept))

    def status(self) -> a2a.Status:
        parts: tuple[a2a.Part, ...] = ()
        state = state_of(self._info.status, asks=self._info.asks)
        if self._reason is not None and state not in a2a.TERMINAL:
            state, parts = "TASK_STATE_FAILED", (a2a.Part(text=self._reason),)
        elif state == a2a.INPUT_REQUIRED and self._end is not None:
            numbers = [self._before + each for each in self._end.waits or ()]
            parts = parts_of_items([self._items[each] for each in numbers if each in self._items])
        elif state in a2a.TERMINAL and state != "TASK_STATE_COMPLETED":
            run = self._end.run if self._end is not None and isinstance(self._end.run, AgentRun) else self._run
            parts = (a2a.Part(text=narration.error_of(run) or self._info.status),)
        message = self._message("ROLE_AGENT", parts, self.entries) if parts else None
        return a2a.Status(state, message, timestamp(self._info.updated))


def timestamp(seconds: float) -> str:
    return time_of(seconds).replace("+00:00", "Z")


def _shown(message: Message) -> Iterator[a2a.Part]:
    return (part for each in message.parts if (part := a2a.Part.of(each)) is not None)


def question_of_item(item: PendingItem) -> str:
    return item.reason if item.stage == "question" else f"{item.call.name}({item.shown}) waits for a decision"


def parts_of_items(items: Sequence[PendingItem]) -> tuple[a2a.Part, ...]:
    text = "\n".join(question_of_item(item) for item in items)
    return (a2a.Part(text=text), a2a.Part(data={"pending": [PendingRow.of(item) for item in items]}))


def artifacts_of(run: AgentRun | None) -> tuple[a2a.Artifact, ...]:
    if run is None:
        return ()
    output, said = run._output, run.history[run.start :]
    files = [part for part in _shown(said[-1]) if part.text is None] if said else []
    value = [] if output is None else [a2a.Part(text=output) if isinstance(output, str) else a2a.Part(data=output)]
    parts = (*(each for each in value if each.text != ""), *files)
    return (a2a.Artifact("answer", parts),) if parts else ()


_MOST = 1_000  # tasks that are looked through, the latest first


async def list_tasks(agent: Runnable[Any], query: a2a.TasksQuery) -> dict[str, object]:
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
        raise ConfigurationError(f"statusTimestampAfter is a time with its zone, got {text!r:.50}") from error


class Updates:
    """Writes what is told of a run as updates of its task; the text of each reply replaces that of the one before."""

    def __init__(self, task: str, context: str, *, pieces: bool = True) -> None:
        self._ids = (task, context)
        self._pieces = pieces
        self._text = ""
        self._count = 0

    def encode(self, tale: narration.Tale) -> Iterator[a2a.StreamResponse]:
        match tale:
            case narration.Begin(thinking=False):
                self._text = ""
            case narration.Piece(thinking=False, text=text) if self._pieces:
                artifact = a2a.Artifact("answer", (a2a.Part(text=text),))
                yield self._changed(artifact, append=bool(self._text))
                self._text += text
            case narration.Waits(items):
                yield self._in_state(a2a.INPUT_REQUIRED, *parts_of_items([item for _, item in items]))
            case narration.Over(run, reason):
                yield from self._over(run, reason)

    def _over(self, run: AgentRun | None, reason: str) -> Iterator[a2a.StreamResponse]:
        state = state_of("Failed" if run is None else stops.status_of(run.stop))
        if state == "TASK_STATE_COMPLETED":
            told = (a2a.Artifact("answer", (a2a.Part(text=self._text),)),)
            made = artifacts_of(run)
            yield from [self._changed(artifact) for artifact in made] if made != told else []
            yield self._in_state(state)
        else:
            yield self._in_state(state, a2a.Part(text=narration.error_of(run, reason) or state))

    def _changed(self, artifact: a2a.Artifact, *, append: bool = False) -> a2a.StreamResponse:
        return a2a.StreamResponse(artifact_update=a2a.ArtifactUpdate(*self._ids, artifact, append))

    def _in_state(self, state: a2a.TaskState, *parts: a2a.Part) -> a2a.StreamResponse:
        task, context = self._ids
        self._count += 1
        message = a2a.Message(f"{task}-update-{self._count}", "ROLE_AGENT", parts, context, task) if parts else None
        status = a2a.Status(state, message, timestamp(SYSTEM_CLOCK.now()))
        return a2a.StreamResponse(status_update=a2a.StatusUpdate(task, context, status))
