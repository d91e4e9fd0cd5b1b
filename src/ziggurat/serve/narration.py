"""Narration: what an agent says and does in a run, as clients get it by any protocol.

It is made of the record of the run, and of pieces of replies as they come. Each thing that is told has a place, the
same whether it was heard live or read later, and in whatever process; so a stream goes on where it was cut.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from itertools import groupby
from typing import Any

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.core import codec, event, tasks
from ziggurat.core.path import escaped, is_beneath, is_question, is_tool_call, next_id, parent_of, step_of
from ziggurat.journal import entries
from ziggurat.messages import events, message as delta
from ziggurat.messages.agent import AgentRun, Deny, Modify, PendingItem
from ziggurat.runs.control import SubscribedItem
from ziggurat.runs.runs import runs_of


class Begin(Struct, frozen=True):
    id: str
    step: int
    thinking: bool


class Piece(Struct, frozen=True):
    id: str
    thinking: bool
    text: str


class End(Struct, frozen=True):
    id: str
    thinking: bool


class Called(Struct, frozen=True):
    """The agent calls a tool; the same call again if a person has changed its arguments."""

    id: str
    step: int
    call: delta.ToolCall
    path: str
    changed: bool = False


class Gave(Struct, frozen=True):
    id: str
    result: delta.ToolResult
    denied: bool = False


class Waits(Struct, frozen=True):
    """The run waits for decisions, each with the id of the call that it is about."""

    items: tuple[tuple[str, PendingItem], ...]


class Over(Struct, frozen=True):
    """The run has ended, and is None if it cannot be read; or a mistake has interrupted it, for a reason."""

    run: AgentRun | None
    reason: str = ""


Tale = Begin | Piece | End | Called | Gave | Waits | Over


class Told(Struct, frozen=True):
    """Something that is told, and its place: the entry before it, and the characters and other things since."""

    number: int
    units: int
    what: Tale


def call_id(run_id: str, path: str) -> str:
    """Return the id of a call for clients: it names the run, so that a result of the client finds it."""
    return f"call_{run_id}_{codec.digest(path)[:16]}"


def output_text(run: AgentRun | None) -> str:
    output = None if run is None else run._output
    return output if isinstance(output, str) else "" if output is None else codec.encode(output).decode()


def error_of(run: AgentRun | None, reason: str = "") -> str:
    """Return why a run has ended without being done, without the place in the code of the server."""
    if run is None:
        return reason or "the run cannot be read"
    place = "" if run.cause is None or not run.cause.place else f" (at {run.cause.place})"
    return (run.error or "").replace(place, "")


Texts = Sequence[tuple[bool, str]]  # texts and thoughts in turn: whether it is a thought, and the text


class ToldReply:
    def __init__(self) -> None:
        self.place: str = ""
        self.step: int = 0
        self.tries: int = 0  # replies that were abandoned here, of which the record has nothing
        self.gap: bool = False  # whether pieces are missing, so that the rest waits for the record
        self.path: str = ""
        self._texts: list[tuple[bool, str]] = []

    @property
    def begun(self) -> bool:
        return bool(self._texts)

    def hear(self, piece: delta.TextDelta | delta.ThinkingDelta, path: str, step: int) -> Iterator[Tale]:
        """Yield a piece of the reply at a path; of another one than before, that was abandoned."""
        if path != self.path:
            yield from self.abandon()
            self.path, self.step = path, step
        yield from self._add(isinstance(piece, delta.ThinkingDelta), piece.text)

    def abandon(self) -> Iterator[Tale]:
        if self._texts:
            yield from self._close()
            self.tries += 1
        self._forget()

    def finish(self, texts: Texts, step: int) -> Iterator[Tale]:
        if not _continues(texts, self._texts):
            yield from self.abandon()
        self.step, told = step, list(self._texts)
        for index in range(max(0, len(told) - 1), len(texts)):
            thinking, text = texts[index]
            rest = text[len(told[index][1]) :] if index < len(told) else text
            yield from self._add(thinking, rest) if rest else ()
        yield from self._close()
        self._forget()

    def _add(self, thinking: bool, text: str) -> Iterator[Tale]:
        if not self._texts or self._texts[-1][0] != thinking:
            yield from self._close()
            self._texts.append((thinking, ""))
            yield Begin(self._id(), self.step, thinking)
        self._texts[-1] = thinking, self._texts[-1][1] + text
        yield Piece(self._id(), thinking, text)

    def _close(self) -> Iterator[Tale]:
        if self._texts:
            yield End(self._id(), self._texts[-1][0])

    def _forget(self) -> None:
        self._texts, self.path, self.gap = [], "", False

    def _id(self) -> str:
        return f"{self.place}-{self.tries}-{len(self._texts)}"


def _continues(whole: Texts, told: Texts) -> bool:
    if len(told) > len(whole):
        return False
    pairs = list(zip(whole, told, strict=False))
    fits = all(one[0] == other[0] and one[1].startswith(other[1]) for one, other in pairs)
    return fits and all(one == other for one, other in pairs[:-1])


def texts_of(message: delta.Message) -> Texts:
    """Return the texts and thoughts of a message, those beside each other as one."""
    parts = [
        (isinstance(part, delta.Thinking), part.text)
        for part in message.parts
        if isinstance(part, (delta.Text, delta.Thinking))
    ]
    joined = groupby((part for part in parts if part[1]), key=lambda part: part[0])
    return [(thinking, "".join(text for _, text in group)) for thinking, group in joined]


class Narrator:
    """Tells what happens to one agent, item by item; with `members`, also what those below it call."""

    def __init__(self, run_id: str, agent: str, *, members: bool = False) -> None:
        self.run_id: str = run_id
        self.number: int = 0
        self._before = 0  # entries of the runs that have continued as this one
        self._members = members
        self._agent = escaped(agent)
        self._number = self._units = 0
        self._reply = ToldReply()
        self._answered = 0  # the last step whose reply is on record: a run that goes on repeats those
        self._said = ""  # in the last reply
        self._waiting: dict[int, PendingItem] = {}
        self._denied: set[str] = set()
        self._calls: dict[str, delta.ToolCall] = {}
        self._run: AgentRun | None = None

    def tell(self, item: SubscribedItem) -> Iterator[Told]:
        if isinstance(item.what, entries.Opened) and item.what.run_id == next_id(self.run_id):
            self._before, self.run_id = self.number, item.what.run_id
            self._waiting, self._answered = {}, 0
        self.number = self._before + item.number
        self._reply.place = f"{self.run_id}-{self._number}"
        if item.index:
            yield from map(self._placed, self._hear(item.what))
            return
        told = list(map(self._placed, self._read(item.number, item.what)))
        yield from told
        if told or isinstance(item.what, _BREAKS):
            self._number, self._units, self._reply.tries = self.number, 0, 0

    def _placed(self, what: Tale) -> Told:
        if self._reply.tries:  # the record has nothing of the pieces before
            return Told(self._number, 0, what)
        self._units += len(what.text) if isinstance(what, Piece) else 1
        return Told(self._number, self._units, what)

    def _hear(self, what: entries.JournalEntry | event.Event) -> Iterator[Tale]:
        """Yield what is not on record: pieces of a reply of the agent itself."""
        match what:
            case event.Skipped():
                self._reply.gap = True
            case event.Dropped(path) | event.Retrying(path) if self._reply.begun and is_beneath(self._reply.path, path):
                yield from self._reply.abandon()
            case events.Delta(path, delta.TextDelta() | delta.ThinkingDelta() as piece) if piece.text:
                _, step, _ = step_of(path, self._agent)
                if self.is_own(path) and step > self._answered and not self._reply.gap:
                    yield from self._reply.hear(piece, path, step)

    def _read(self, number: int, entry: entries.JournalEntry | event.Event) -> Iterator[Tale]:
        _, step, _ = step_of(entry.path, self._agent)
        match entry:
            case events.ModelEnded(path, response) if self.is_own(path) or (self._members and "/tool-" not in path):
                message = delta.fit(response.message)
                if self.is_own(path):
                    yield from self._reply.finish(texts_of(message), step)
                    self._said, self._answered = message.text, step
                for index, call in enumerate(message.tool_calls, 1):
                    tool = f"{parent_of(path)}/tool-{index}:{escaped(call.name)}"
                    self._calls[tool] = call
                    yield Called(call_id(self.run_id, tool), step, call, tool)
            case events.ToolEnded(path, _, result) if path in self._calls:
                yield Gave(call_id(self.run_id, path), result, path in self._denied)
            case events.ApprovalRequested(_, item):
                self._waiting[number] = item
            case events.ApprovalDecided(path, _, _, Deny()):
                self._denied.add(path)
            case events.ApprovalDecided(path, _, call, Modify() as change) if path in self._calls:
                changed = self._calls[path] = delta.ToolCall(call.id, call.name, change.text)
                yield Called(call_id(self.run_id, path), step, changed, path, changed=True)
            case events.AgentEnded(path, run) if path == self._agent:
                self._run = run
            case entries.Ended():
                yield from self._end(entry)
            case entries.Opened():
                yield from self._reply.abandon()
            case entries.Failure() | entries.Unanswered() if self.is_own(entry.path):
                yield from self._reply.abandon()

    def _end(self, entry: entries.Ended) -> Iterator[Tale]:
        if entry.interrupted:
            yield from self._reply.abandon()
            return
        if entry.stop == "Suspended":
            known = [self._waiting[number] for number in entry.waits or () if number in self._waiting]
            items = [item for item in known if item.needs_decision]
            yield from [Waits(tuple((self._call_of(item), item) for item in items))] if items else []
            return
        if entry.stop == "Continued":  # the next run is told as this one
            return
        run = entry.run if isinstance(entry.run, AgentRun) else self._run
        text = output_text(run)
        if text and (self._reply.begun or self._said.strip() != text.strip()):
            yield from self._reply.finish([(False, text)], self._reply.step + 1)
        yield from self._reply.abandon()
        yield Over(run)

    def is_own(self, path: str) -> bool:
        return is_question(path) and step_of(path)[0] == self._agent

    def _call_of(self, item: PendingItem) -> str:
        """Return the id of the call that an item is about: for a question of a tool, that of the tool."""
        path = item.path if is_tool_call(item.path) else parent_of(item.path)
        return call_id(self.run_id, path if path in self._calls else item.path)


_BREAKS = (entries.Opened, entries.Failure, entries.Unanswered, entries.Ended)
"""What may abandon a reply, of which there is nothing on record."""


_LOOK = 0.5  # seconds between looks at a run of which nothing comes, for a mistake that has interrupted it


class ToldRun(Struct, frozen=True):
    """A run that answers a request, and what of it is told."""

    id: str
    agent: Runnable[Any]
    after: int = 0  # what comes after this entry is told
    through: int = 0  # up to this entry, it has gone on from all that waited
    waits: bool = False
    failures: dict[str, str] = {}  # the mistakes that have interrupted runs, by their ids

    async def told(self) -> AsyncGenerator[Told, None]:
        """Yield what is told, until the run has ended, was interrupted, or waits for decisions, unless `waits`."""
        narrator = Narrator(self.id, self.agent.name)
        async with aclosing(followed(self.agent, narrator, lambda: False)) as items:
            while (item := await self._awaited(anext(items, None))) is not None:
                told = list(narrator.tell(item))
                number = narrator.number
                is_later = number > self.after or (item.index > 0 and number == self.after)
                for each in told:
                    ended = isinstance(each.what, Over) or (isinstance(each.what, Waits) and not self.waits)
                    if is_later and not (ended and number <= self.through):
                        yield each
                        if ended:
                            return
        if self.id in self.failures:
            yield Told(narrator.number, 0, Over(None, self.failures[self.id]))

    async def _awaited(self, work: Awaitable[SubscribedItem | None]) -> SubscribedItem | None:
        """Return the item that is awaited; None if a mistake interrupts the run meanwhile."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([task], timeout=_LOOK))[0]:
                if self.id in self.failures:
                    return None
            return task.result()
        finally:
            await tasks.end_all([task])


async def followed(
    agent: Runnable[Any], narrator: Narrator, is_over: Callable[[], bool]
) -> AsyncGenerator[SubscribedItem, None]:
    """Yield the items of a run, and go on after each wait, and with the run as which it continues, until it is over."""
    read, goes_on = 0, True
    while goes_on:
        async with aclosing(agent.attach(narrator.run_id).events(after=read)) as items:
            async for item in items:
                read = item.number
                yield item
        goes_on = not is_over() and await runs_of(agent.store).continued(narrator.run_id, read)
