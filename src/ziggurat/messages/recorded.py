"""Functions that rebuild a conversation from the record of a run, step by step, without running anything."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest

from msgspec import Struct, field
from msgspec.structs import replace

from ziggurat.core.codec import as_type, digest, encode
from ziggurat.core.path import is_question, is_tool_call, name_at, parent_of, step_of, upwards
from ziggurat.journal.entries import Entered, Intent, JournalEntry, Pending, Result
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.conversation import Steer
from ziggurat.messages.message import Message, Text, Thinking, ToolCall, ToolResult, fit

_STEP = re.compile(r"step-(\d+)/([^/]+)")
_TOOL = re.compile(r"tool-(\d+):")


class _Asked(Struct):
    messages: tuple[Message, ...]


class _Replied(Struct):
    message: Message


class RecordedStep(Struct):
    number: int
    before: list[Message] = field(default_factory=list)
    replies: list[Message] = field(default_factory=list)
    results: dict[int, ToolResult] = field(default_factory=dict)
    after: list[Message] = field(default_factory=list)
    due: list[Message] = field(default_factory=list)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return self.replies[-1].tool_calls if self.replies else ()

    @property
    def complete(self) -> bool:
        return bool(self.replies) and len(self.results) >= len(self.calls)

    def messages(self) -> list[Message]:
        results = [Message("tool", (self.results[number],)) for number in sorted(self.results)]
        return [*self.before, *self.replies, *results, *self.after]


def recorded_steps(
    entries: Iterable[JournalEntry], agent: str
) -> tuple[tuple[Message, ...] | None, list[RecordedStep]]:
    """Return the request's messages of the agent at a path (None if it was not entered), and its steps."""
    request: tuple[Message, ...] | None = None
    steps: dict[int, RecordedStep] = {}
    under = agent + "/"
    for entry in entries:
        if isinstance(entry, Entered) and entry.path == agent:
            request = as_type(entry.request, _Asked).messages
        elif isinstance(entry, Result) and entry.path.startswith(under):
            _add_result(entry, entry.path[len(under) :], steps)
    ordered = [steps[number] for number in sorted(steps)]
    for earlier, later in pairwise(ordered):
        later.before[:0] = earlier.due
    return request, ordered


def _add_result(entry: Result, place: str, steps: dict[int, RecordedStep]) -> None:
    if place.startswith("steering-") and "/" not in place:
        steer = as_type(entry.value, Steer)
        step = steps.setdefault(steer.step, RecordedStep(steer.step))
        (step.before if steer.place == "before" else step.due).extend(steer.messages)
        return
    match = _STEP.fullmatch(place)
    if match is None:
        return
    step = steps.setdefault(int(match[1]), RecordedStep(int(match[1])))
    tool = _TOOL.match(match[2])
    if is_question(entry.path):
        step.replies.append(fit(as_type(entry.value, _Replied).message))
    elif tool is not None:
        step.results[int(tool[1])] = as_type(entry.value, ToolResult)
    elif match[2] == "nudge":
        step.after.append(as_type(entry.value, Message))


def said_before(entries: Iterable[JournalEntry], path: str) -> list[Message] | None:
    """Return the recorded conversation before the model call at ``.../step-3/model``; None for other paths."""
    if not is_question(path):
        return None
    number = int(parent_of(path).rpartition("-")[2])
    request, steps = recorded_steps(entries, parent_of(parent_of(path)))
    if request is None:
        return None
    messages = [*request]
    for step in steps:
        if step.number < number:
            messages += step.messages()
        elif step.number == number:
            messages += step.before
    return messages


_WAITS = "no result yet: a person has been asked and has not decided; do not ask for it again"


def waiting_steps(journal: LocalJournal, waits: Sequence[str]) -> list[Message]:
    """Return the messages of the steps around waits at paths: the reply, and the result of each call so far."""
    messages: list[Message] = []
    for agent in dict.fromkeys(step_of(calls[-1])[0] for path in waits if (calls := _calls_around(path))):
        _, steps = recorded_steps(journal.entries, agent)
        last = steps[-1] if steps else None
        if last is None or last.complete or not last.replies:
            continue
        reply = last.replies[-1]
        entered = [name_at(path) for path in upwards(agent) if journal.index.is_entered(path)]
        messages.append(replace(reply, name="/".join(reversed(entered[:-1]))) if entered[1:] else reply)
        for number, call in enumerate(reply.tool_calls, 1):
            result = last.results.get(number) or ToolResult(call.id, call.name, _WAITS, "interrupted", call.name)
            messages.append(Message("tool", (result,)))
    return messages


def waiting_calls(entries: Iterable[JournalEntry], waits: Sequence[str]) -> list[ToolCall]:
    paths = {path for wait in waits for path in _calls_around(wait)}
    calls = [entry for entry in entries if isinstance(entry, (Pending, Intent)) and entry.path in paths]
    return [as_type(entry.request, ToolCall) for entry in calls]


def _calls_around(path: str) -> list[str]:
    """Return the paths of the tool calls at and above a path, the innermost first."""
    return [above for above in upwards(path) if is_tool_call(above)]


def first_difference(recorded: Sequence[Message], current: Iterable[Message]) -> tuple[str, str, str]:
    pairs = list(zip_longest(recorded, current))
    at = next((at for at, (was, now) in enumerate(pairs) if encode(was) != encode(now)), 0)
    was, now = pairs[at]
    role = (now or was).role  # at least one of them exists
    texts = shown(was), shown(now)
    if texts[0] == texts[1]:  # such as of two pictures
        texts = digest(was), digest(now)
    return f"message {at + 1} of the question ({role})", *texts


def shown(message: Message | None) -> str:
    if message is None:
        return "(no message)"
    lines = []
    for part in message.parts:
        if isinstance(part, Text):
            lines.append(part.text)
        elif isinstance(part, Thinking):
            lines.append(f"(thought) {part.text}")
        elif isinstance(part, ToolCall):
            lines.append(f"{part.name}({part.arguments})")
        elif isinstance(part, ToolResult):
            lines.append(f"{part.name} {'failed' if part.error else 'returned'}: {part.text}")
        else:
            lines.append(f"({type(part).__name__.lower()})")
    return "\n".join(lines)
