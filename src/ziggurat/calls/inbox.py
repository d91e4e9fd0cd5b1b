"""The inbox of a run as its driver sees it, in order, each item to be taken once; decisions are posted to it."""

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.decisions import check_decided, decision_entries
from ziggurat.core import codec
from ziggurat.core.errors import ZigguratError
from ziggurat.core.log import logger
from ziggurat.core.path import is_alternative, upwards
from ziggurat.core.tasks import ring
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import InboxItem
from ziggurat.messages import posted
from ziggurat.messages.agent import Decision, decision_of
from ziggurat.messages.conversation import Steer

Receive = Callable[[int, posted.PostedSteering, int], bool]
"""Cancels or steers the run as an item with this number asks for, unless it has ended since, with the entry of the last
number; returns whether it waits for the run to take it."""


GROUPS = frozenset({"first", "quorum", "settled"})  # the names of groups that may not need all of their parts


class Winners(Struct, frozen=True):
    """The recorded decision of a group: the positions of the parts whose results were used."""

    parts: tuple[int, ...]


class Sent(Struct, frozen=True):
    """An event that was sent to the run and that nothing has taken yet."""

    number: int
    value: Any
    at: float


class _Events:
    """The events of one name, in order, of which those before `first` were taken."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.first: int = 0

    def untaken(self, numbers: Container[int]) -> Iterator[Sent]:
        """Yield the events whose numbers are not among those that were taken; more may be taken meanwhile."""
        while self.first < len(self.sent) and self.sent[self.first].number in numbers:
            self.first += 1
        for place in range(self.first, len(self.sent)):
            if self.sent[place].number not in numbers:
                yield self.sent[place]


class Inbox:
    """What others have posted to a run."""

    def __init__(
        self, inboxes: posted.Inboxes, run_id: str, journal: LocalJournal, receive: Receive | None = None
    ) -> None:
        self.runs: posted.Inboxes = inboxes
        self._run_id = run_id
        self.journal: LocalJournal = journal
        self._receive = receive  # None for those that are only read, or cannot be steered
        self._last = 0  # the number of the last item that was read
        self._keys: dict[str, int] = {}  # the numbers of the items that were read
        self._own: dict[int, str] = {}  # the keys of the decisions that were posted here
        self._spoilt: set[str] = set()  # the keys of items that could not be read, or were withdrawn
        self._events: defaultdict[str, _Events] = defaultdict(_Events)
        self._decisions: dict[int, posted.PostedDecisions] = {}  # by the numbers of the items
        self._taken: dict[int, str] = {}  # the numbers of items, with the path of the wait that has taken each
        self.redirects: set[int] = set()  # the numbers of those that nothing has taken
        self._waiting: set[int] = set()  # the events and messages that were read, and that nothing has taken
        self._takers: dict[str, list[entries.Decided]] = {}  # of what has taken an event, by each path above
        self._entries = 0  # how many entries of the record were searched for what was taken
        self._end = 0  # the number of the last of them with which the run has ended
        self._looked: dict[str, int] = {}  # by the path of each wait, the last item that it knows
        self._readers: dict[asyncio.Future[None], str] = {}

    async def read(self) -> None:
        items = await self.runs.inbox(self._run_id, self._last)
        self.find_taken()  # after the wait, in which more may have been taken; there is none until the caller goes on
        for item in items:
            if item.number > self._last:  # otherwise another call has read it meanwhile
                self._last = item.number
                self._sort(item)
        self._note()

    @contextmanager
    def news(self, of: str, path: str) -> "Iterator[asyncio.Future[None]]":
        """Yield what is done once an event of a name, or a decision on the item of an id, may be there for a wait."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers[waiting] = of
        try:
            yield waiting
        finally:
            del self._readers[waiting]
            if path in self._looked and not waiting.done():
                self._looked[path] = self._last  # what was read meanwhile does not concern it
                self._note()

    def _wake(self, of: str | None = None) -> None:
        for waiting, name in self._readers.items():
            if of is None or of == name:  # not all that wait: there may be many, and each looks into the store
                ring(waiting)

    def _sort(self, item: InboxItem) -> None:
        content = posted.read_posted(item.data)
        if content is None or item.key in self._keys:  # of which a store keeps one
            why = "it was not signed with the key of the journal, or is damaged" if content is None else "it is a copy"
            logger.error("what was posted to %s as number %d is passed over: %s", self._run_id, item.number, why)
            if content is None:
                self._spoilt.add(item.key)
            return
        self._keys[item.key] = item.number
        waits = item.number not in self._taken
        if isinstance(content, posted.PostedEvent):
            self._events[content.name].sent.append(Sent(item.number, content.value, content.at))
            self._wake(content.name)
        elif isinstance(content, posted.PostedDecisions):
            if waits:  # otherwise it was used, and a call that waits once more needs another one
                self._decisions[item.number] = content
                for item_id in content.decisions:
                    self._wake(item_id)
            waits = False
        elif isinstance(content, posted.PostedWithdrawal):
            self._decisions.pop(self._keys.get(content.key, 0), None)
            self._spoilt.add(content.key)
            waits = False
        else:
            if waits and isinstance(content, posted.PostedMessages) and content.verb == "redirect":
                self.redirects.add(item.number)
            waits = waits and self._receive is not None and self._receive(item.number, content, self._end)
        if waits:
            self._waiting.add(item.number)

    async def events(self, name: str, path: str) -> Iterator[Sent]:
        """Return the events of a name that nothing has taken yet, in order, for the wait at a path."""
        await self.read()
        self._looked[path] = self._last
        self._note()
        return self._events[name].untaken(self._taken)

    def find_taken(self) -> None:
        """Search the entries of the record since the last search for what was taken, or given back."""
        for number, entry in enumerate(self.journal.entries[self._entries :], self._entries + 1):
            if isinstance(entry, entries.Ended) and entry.stop != "Suspended":
                self._end = number
            elif isinstance(entry, entries.Result) and entry.name == "steering":
                self._mark_taken(codec.as_type(entry.value, Steer).posted)
            elif isinstance(entry, entries.Decided) and entry.posted:
                self._mark_taken(entry.posted, entry.path)
                for path in upwards(entry.path):
                    self._takers.setdefault(path, []).append(entry)
            elif isinstance(entry, entries.Result) and entry.path in self._takers:
                for taker in self._takers.pop(entry.path):
                    if self._taken.get(taker.posted) == taker.path and self._has_lost(taker.path, entry):
                        self._give_back(taker.posted)
        self._entries = len(self.journal.entries)

    def _has_lost(self, path: str, result: entries.Result) -> bool:
        """Return whether a wait was in a part of a group, or in an alternative, that is not the one that counts."""
        part = path.removeprefix(f"{result.path}/").partition("/")[0]
        if result.name in GROUPS and part.isdigit():  # below a flow that has the name of a group there are no numbers
            return int(part) - 1 not in codec.as_type(result.value, Winners).parts
        record = self.journal.find(f"{result.path}/{part}")
        return is_alternative(part) and (record is None or record.result is None)

    def _mark_taken(self, number: int, path: str = "") -> None:
        self._taken[number] = path
        self._waiting.discard(number)
        self.redirects.discard(number)

    def _give_back(self, number: int) -> None:
        """Leave an event to later waits: what has taken it was not the part, or alternative, that counts."""
        self._taken.pop(number, None)
        self._waiting.add(number)
        for events in self._events.values():
            events.first = min(events.first, bisect_left(events.sent, number, key=lambda sent: sent.number))
        # Those that wait already look again, in a run that is due at once.
        self._looked = {path: min(last, number - 1) for path, last in self._looked.items()}
        self._note()
        self._wake()

    async def untaken(self) -> list[InboxItem]:
        """Return what was posted and nothing has taken, without what the run takes whenever it comes."""
        items = await self.runs.inbox(self._run_id)
        await self.read()
        return [each for each in items if each.number not in self._taken]

    def take(self, sent: Sent, path: str) -> None:
        self._mark_taken(sent.number, path)
        self._looked.pop(path, None)
        self._note()

    async def decide(
        self, decisions: Mapping[str, Decision], now: float, agent: object, *, in_time: bool = False
    ) -> list[entries.Decided]:
        """Hold the decisions that were posted, and post others; return the entries that record those."""
        # They are recorded together with what follows. If one is refused, none of the others stands.
        await self.read()
        held, self._decisions = self._decisions, {}
        for number, content in held.items():
            try:
                for entry in decision_entries(self.journal, content.decisions, content.at or now, agent, in_time=True):
                    self.journal.append(replace(entry, posted=number), hold=True)
            except ZigguratError as error:  # it fitted when it was sent
                [key] = (key for key, each in self._keys.items() if each == number)
                self._spoilt.add(key)
                if not in_time and self.journal.index.waits_of(content.decisions):
                    self._own[number] = key  # whoever drives the run withdraws them, so that the call is known to wait
                logger.warning("the decisions that were posted as number %d are not used: %s", number, error)
        self._note()
        made = decision_entries(self.journal, decisions, now, agent, in_time=in_time)
        try:
            for place, entry in enumerate(made):
                decision = decision_of(entry.decision)
                stands, number = await self.post_decision(entry.id, decision, now)
                if stands != decision:
                    check_decided(entry.id, stands, decision)
                made[place] = replace(entry, posted=number)
        except ZigguratError:
            await self.withdraw()
            raise
        return made

    async def take_decision(self, item_id: str) -> tuple[Decision, int] | None:
        """Return the first decision that was posted on an item that waits, and the number with which it was."""
        await self.read()
        for number, content in self._decisions.items():
            if item_id in content.decisions:
                del self._decisions[number]
                self._note()
                return content.decisions[item_id], number
        return None

    async def decided(self) -> set[str]:
        """Return the ids of what decisions were posted on that nothing has used."""
        await self.read()
        return {item_id for content in self._decisions.values() for item_id in content.decisions}

    async def post_decision(self, item_id: str, decision: Decision, at: float = 0.0) -> tuple[Decision, int]:
        """Post a decision on an item that waits, and return the one that stands, with its number."""
        # So it cannot happen that another one, which somebody posts before this one is on record, has no effect
        # although it was accepted.
        (number,) = self.journal.index.waits_of((item_id,))
        key = f"decide {number} {item_id}"  # of several on one wait, the first is kept
        content = posted.PostedDecisions({item_id: decision}, at)
        new = await self.runs.put_item(self._run_id, key, codec.encode(content))
        while (stands := await self.take_decision(item_id)) is None and key in self._spoilt:
            key += "+"  # the place where everybody looks next
            new = await self.runs.put_item(self._run_id, key, codec.encode(content))
        if new:
            self._own[self._keys[key]] = key
        return stands or (decision, 0)  # what is posted may have been taken before

    async def withdraw(self) -> None:
        """Withdraw the decisions that were posted here and did not come on record: it is as if they were never made."""
        for entry in self.journal.entries if self._own else ():
            if isinstance(entry, entries.Decided) and not self.journal.withdraws(entry.id):
                self._own.pop(entry.posted, None)
        while self._own:
            _, key = self._own.popitem()
            await self.runs.put_item(self._run_id, f"withdraw {key}", codec.encode(posted.PostedWithdrawal(key)))

    def _note(self) -> None:
        """Note which items are known here: if the run is suspended and has others by then, it is due at once."""
        unused = next(iter(self._decisions), self._last + 1)
        self.journal.inbox_read = min((*self._looked.values(), unused - 1))
        self.journal.inbox_taken = self._last - len(self._waiting) - len(self._decisions)
