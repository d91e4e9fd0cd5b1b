"""What an agent said and did in a run, said again from its record as its clients got it."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import as_type
from ziggurat.core.errors import RunNotFound
from ziggurat.core.path import escaped, is_question, is_tool_call, parent_of, step_of, upwards
from ziggurat.journal.entries import Decided, JournalEntry, Pending, Result
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import Modify, decision_of
from ziggurat.messages.delta import fit
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.serve.openai.answers import Answered, conclude, is_of_client
from ziggurat.serve.openai.places import ResponseId, RunPlace, asked_calls
from ziggurat.serve.openai.speech import Say, Speech, tool_place


async def say_recorded(agent: Runnable[Any], response_id: ResponseId, say: Say, page: str) -> Answered:
    """Say a response whose run is on record, and has ended or waits, as it was said when it was given."""
    record = await agent.record(response_id.run_id)
    entries = LocalJournal.load(record).entries
    if response_id.after > len(entries):
        raise RunNotFound(f"there is no response {response_id}")
    before = b"".join(record.splitlines(keepends=True)[: response_id.after])
    place = replace(RunPlace.after(before, agent.name), asked=asked_calls(entries))
    speech = Speech(agent.name, say, place)
    await _repeat(entries, agent.name, speech, response_id.after)
    answered = await conclude(await agent.attach(response_id.run_id).result(), speech, page)
    return replace(answered, usage=place.since(answered.usage))


async def _repeat(entries: Sequence[JournalEntry], agent: str, speech: Speech, after: int) -> None:
    calls = _Calls(entries)
    for number, entry in enumerate(entries, 1):
        if not (isinstance(entry, Result) and is_question(entry.path)):
            continue
        message = fit(as_type(entry.value, ModelResponse).message)
        if number > after and step_of(entry.path, escaped(agent))[2].partition("#")[0] == "model":
            await speech.repeat(message, entry.path)
        await calls.say(parent_of(entry.path), message, speech)


class _Calls:
    """The tool calls of a record, by their steps and their numbers there."""

    def __init__(self, entries: Sequence[JournalEntry]) -> None:
        self._results: dict[tuple[str, int], ToolResult] = {}
        self._paths: dict[tuple[str, int], str] = {}  # of those that began
        self._changed: dict[str, str] = {}  # the arguments of those that a person changed
        self._of_client: set[str] = set()
        for entry in entries:
            self._add(entry)

    def _add(self, entry: JournalEntry) -> None:
        if isinstance(entry, Result) and is_tool_call(entry.path) and (place := tool_place(entry.path)):
            self._results[place], self._paths[place] = as_type(entry.value, ToolResult), entry.path
        elif isinstance(entry, Decided) and isinstance(change := decision_of(entry.decision), Modify):
            self._changed[entry.path] = change.text
        elif isinstance(entry, Pending):
            above = parent_of(entry.path)
            if is_of_client(entry):
                self._of_client.add(above)
            self._paths.update({place: path for path in upwards(above) if (place := tool_place(path))})

    async def say(self, step: str, message: Message, speech: Speech) -> None:
        """Say the calls of a message of a step, if they have begun and are the server's."""
        for number, call in enumerate(message.tool_calls, 1):
            path = self._paths.get((step, number))
            if path is not None and path not in self._of_client:
                arguments = self._changed.get(path, call.arguments)
                changed = ToolCall(call.id, call.name, arguments)
                await speech.call(path, changed, self._results.get((step, number)))
