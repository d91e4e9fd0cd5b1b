"""The events that the record of a run tells, so that a reader gets each of them once, whenever it comes."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from msgspec.structs import replace

from ziggurat.calls.enter import read_output
from ziggurat.core.codec import Raw, as_error, as_type
from ziggurat.core.event import Event
from ziggurat.core.path import is_question, is_tool_call, parent_of
from ziggurat.journal import entries
from ziggurat.messages import events
from ziggurat.messages.agent import AgentRequest, AgentRun, PendingItem, decision_of, recorded_item, stage_of
from ziggurat.messages.conversation import Steer
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.usage import Usage, as_usage
from ziggurat.runs.control import SubscribedItem

RECORDED_EVENTS: tuple[type[Event], ...] = (
    events.AgentStarted,
    events.AgentEnded,
    events.ApprovalDecided,
    events.ApprovalRequested,
    events.ModelEnded,
    events.Steered,
    events.ToolEnded,
)
"""The events that a reader gets from the record, and not as they are emitted."""


Read = Callable[[AgentRun], AgentRun] | None  # reads the output of a run that was written


class RecordedEvents:
    """Turns the entries of a run into events, in their order, and decodes the values of those that are none."""

    def __init__(self, run_id: str, path: str, read: Read) -> None:
        self._run_id = run_id
        self._path = path
        self._read = read
        self._calls: dict[str, ToolCall] = {}  # by step and position
        self._items: dict[str, PendingItem] = {}
        self._entered: set[str] = set()  # the paths of agents
        self._records: dict[str, entries.Record] = {}  # of the calls that have an intent
        self._number = 0  # of the last entry
        self._began: dict[str, int] = {}  # the number of the last wait at each path
        self._waits: dict[int, None] = {}  # the numbers of the waits of the last end, without those decided since

    def read(self, entry: entries.JournalEntry) -> Event | entries.JournalEntry:
        self._number += 1
        match entry:
            case entries.Pending():
                self._began[entry.path] = self._number
            case entries.Decided():
                self._waits.pop(self._began.get(entry.path, 0), None)
            case entries.Ended():
                if not entry.still:
                    self._waits = dict.fromkeys(entry.waits or ())
                run, waits = as_type(entry.run, AgentRun | None), tuple(self._waits)
                return replace(entry, run=run, waits=waits if entry.still else entry.waits)
        return self._event(entry)

    def _event(self, entry: entries.JournalEntry) -> Event | entries.JournalEntry:
        match entry:
            case entries.Result():
                return self._result(entry)
            case entries.Entered():
                self._entered.add(entry.path)
                return events.AgentStarted(entry.path, entry.name, self._run_id)
            case entries.Pending() if stage_of(entry.path) not in ("timer", "event"):
                item = self._items[entry.id] = recorded_item(entry, self._records.get(entry.path))
                return events.ApprovalRequested(entry.path, item)
            case entries.Decided() if entry.id in self._items:
                return events.ApprovalDecided(
                    entry.path, entry.id, self._items[entry.id].call, decision_of(entry.decision)
                )
            case entries.Intent():
                self._records[entry.path] = entries.Record(intent=entry)
                if is_tool_call(entry.path):  # of a program, no model has asked for it
                    self._calls.setdefault(entry.path.rpartition(":")[0], as_type(entry.request, ToolCall))
        return _decoded(entry)

    def _result(self, entry: entries.Result) -> Event | entries.JournalEntry:
        path, step = entry.path, parent_of(entry.path)
        if is_question(path):
            response = as_type(entry.value, ModelResponse)
            calls = enumerate(response.message.tool_calls, 1)
            self._calls.update({f"{step}/tool-{number}": call for number, call in calls})
            return events.ModelEnded(path, response)
        if is_tool_call(path):
            call = self._calls.get(path.rpartition(":")[0])
            result = as_type(entry.value, ToolResult)
            return events.ToolEnded(path, call or ToolCall(result.id, result.name, ""), result)
        if path.rpartition("/")[2].startswith("steering-"):
            steer = as_type(entry.value, Steer)
            return events.Steered(path, steer.verb, steer.step)
        if path not in self._entered:
            return replace(entry, value=as_type(entry.value, object))
        run = as_type(entry.value, AgentRun)
        if isinstance(entry.value, Raw) and path == self._path:
            run = read_output(run, self._read)
        return events.AgentEnded(path, run)


async def subscribe(
    follow: Callable[[str, int], AsyncGenerator[SubscribedItem, None]],
    run_id: str,
    path: str,
    after: int = 0,
    *,
    read: Read = None,
    items: AsyncGenerator[SubscribedItem, None] | None = None,
) -> AsyncGenerator[SubscribedItem, None]:
    """Yield what comes after an entry of a run, with its events, then all of the runs as which it continues."""
    while True:
        recorded, next_id = RecordedEvents(run_id, path, read), ""
        # From the start: a result refers to an earlier call.
        async with aclosing(follow(run_id, 0) if items is None else items) as each:
            async for item in each:
                if isinstance(item.what, entries.JournalEntry):
                    item = SubscribedItem(item.number, 0, recorded.read(item.what))
                    if isinstance(item.what, events.AgentEnded) and item.what.path == path:
                        next_id = getattr(item.what.run.stop, "run_id", "")
                if item.number > after or (item.index and item.number == after):
                    yield item
        if not next_id:
            return
        run_id, after, items = next_id, 0, None


def _decoded(entry: entries.JournalEntry) -> entries.JournalEntry:
    match entry:
        case entries.Opened():
            labels, terms = as_type(entry.labels, object), as_type(entry.terms, object)
            return replace(entry, request=as_type(entry.request, AgentRequest | None), labels=labels, terms=terms)
        case entries.Failure():
            return replace(entry, error=as_error(entry.error), spent=_usages(entry.spent))
        case entries.Unanswered():
            return replace(entry, spent=_usages(entry.spent))
        case entries.Intent() if not is_tool_call(entry.path):  # of a step
            return replace(entry, request=as_type(entry.request, object))
        case entries.Intent() | entries.Pending():
            return replace(entry, request=as_type(entry.request, ToolCall))
        case entries.Decided():
            return replace(entry, decision=decision_of(entry.decision))
        case entries.Returned():
            return replace(entry, value=as_type(entry.value, object))
    return entry


def _usages(spent: tuple[object, ...]) -> tuple[Usage, ...]:
    return tuple(usage for cost in spent if (usage := as_usage(cost)) is not None)
