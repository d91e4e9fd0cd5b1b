"""The inbox of a run as its driver sees it, in order, each item to be taken once; and decisions, checked and posted."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.decisions import Normalize, expired, fitting, normalize_request
from ziggurat.core.codec import as_type, decode, digest, encode, plain
from ziggurat.core.context import Context, Key
from ziggurat.core.errors import AlreadyDecided, ConfigurationError, InvalidArguments, JournalCorrupt, ZigguratError
from ziggurat.core.log import logger
from ziggurat.core.path import escaped, is_tool_call, parent_of, upwards
from ziggurat.core.service import Fact, fact
from ziggurat.journal.entries import Decided, Ended, Pending, Result
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.journal.store import InboxItem
from ziggurat.messages.agent import Answer, Decision, Modify, decision_of, recorded_item
from ziggurat.messages.arguments import canonical
from ziggurat.messages.conversation import Steer, Verb
from ziggurat.messages.message import Message
from ziggurat.tools.toolbox import Toolbox


class PostedEvent(Struct, frozen=True, tag="event", tag_field="type"):
    """An event that a flow waits for, or will wait for."""

    name: str
    value: Any = None
    at: float = 0.0
    """When it was sent, in POSIX seconds; 0 if that is unknown."""

    @staticmethod
    def key(name: str, key: str) -> str:
        """Return the key under which an event is posted: every store can take it, whatever its sender has chosen."""
        return f"event {digest((name, key))}"


class PostedCancel(Struct, frozen=True, tag="cancel", tag_field="type"):
    """A request to stop the run; without effect once the run has ended, so that it does not stop a later resume."""

    entries: int
    after_step: bool = False


class PostedMessages(Struct, frozen=True, tag="messages", tag_field="type"):
    verb: Verb
    messages: tuple[Message, ...]


class PostedDecisions(Struct, frozen=True, tag="decisions", tag_field="type"):
    """Decisions on calls that wait while others of the run go on; they are used when the run is continued."""

    decisions: dict[str, Decision]
    at: float = 0.0
    """When it was posted, in POSIX seconds; 0 if that is unknown."""


class PostedWithdrawal(Struct, frozen=True, tag="withdrawal", tag_field="type"):
    """That the decisions in the item with a key do not count, because the run did not go on with them."""

    key: str


PostedSteering = PostedCancel | PostedMessages
"""What cancels or steers the run."""

Posted = PostedEvent | PostedSteering | PostedDecisions | PostedWithdrawal
"""The content of an item in the inbox of a run."""


def read_posted(data: bytes) -> Posted | None:
    """Return the content of an item, None if it is damaged."""
    try:
        return cast("Posted", decode(data, Posted))
    except JournalCorrupt:
        return None


class Inboxes(Protocol):
    """The inboxes of the runs of a store."""

    async def inbox(self, run_id: str, after: int = 0) -> Sequence[InboxItem]:
        """Return the items of a run's inbox numbered higher than `after`, in order."""

    async def put_item(self, run_id: str, key: str, data: bytes) -> bool:
        """Post an item to the inbox of a run; return whether its key is new."""


Receive = Callable[[int, PostedSteering, int], bool]
"""Cancels or steers the run as an item with this number asks for, unless it has ended since, with the entry of the last
number; returns whether it waits for the run to take it."""


GROUPS = frozenset({"first", "quorum", "settled"})
"""The names of groups that may not need all of their parts."""


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

    def untaken(self, numbers: set[int]) -> Iterator[Sent]:
        """Yield the events whose numbers are not among those that were taken; more may be taken meanwhile."""
        while self.first < len(self.sent) and self.sent[self.first].number in numbers:
            self.first += 1
        for place in range(self.first, len(self.sent)):
            if self.sent[place].number not in numbers:
                yield self.sent[place]


class Inbox:
    """What others have posted to a run."""

    def __init__(self, inboxes: Inboxes, run_id: str, journal: LocalJournal, receive: Receive) -> None:
        self.runs: Inboxes = inboxes
        self._run_id = run_id
        self._journal = journal
        self._receive = receive
        self._last = 0  # the number of the last item that was read
        self._keys: dict[str, int] = {}  # the numbers of the items that were read
        self._own: dict[int, str] = {}  # the keys of the decisions that were posted here
        self._spoilt: set[str] = set()  # the keys of items that could not be read, or were withdrawn
        self._events: defaultdict[str, _Events] = defaultdict(_Events)
        self._decisions: dict[int, PostedDecisions] = {}  # by the numbers of the items
        self._taken: set[int] = set()
        self._waiting: set[int] = set()  # the events and messages that were read, and that nothing has taken
        self._takers: dict[str, list[Decided]] = {}  # of what has taken an event, by each path above
        self._entries = 0  # how many entries of the record were searched for what was taken
        self._end = 0  # the number of the last of them with which the run has ended
        self._looked: dict[str, int] = {}  # by the path of each wait, the last item that it knows

    async def read(self) -> None:
        items = await self.runs.inbox(self._run_id, self._last)
        self.find_taken()  # after the wait, in which more may have been taken; there is none until the caller goes on
        for item in items:
            if item.number > self._last:  # otherwise another call has read it meanwhile
                self._last = item.number
                self._sort(item)
        self._note()

    def _sort(self, item: InboxItem) -> None:
        content = read_posted(item.data)
        if content is None or item.key in self._keys:  # of which a store keeps one
            why = "it was not signed with the key of the journal, or is damaged" if content is None else "it is a copy"
            logger.error("what was posted to %s as number %d is passed over: %s", self._run_id, item.number, why)
            if content is None:
                self._spoilt.add(item.key)
            return
        self._keys[item.key] = item.number
        waits = item.number not in self._taken
        if isinstance(content, PostedEvent):
            self._events[content.name].sent.append(Sent(item.number, content.value, content.at))
        elif isinstance(content, PostedDecisions):
            if waits:  # otherwise it was used, and a call that waits once more needs another one
                self._decisions[item.number] = content
            waits = False
        elif isinstance(content, PostedWithdrawal):
            self._decisions.pop(self._keys.get(content.key, 0), None)
            self._spoilt.add(content.key)
            waits = False
        else:
            waits = waits and self._receive(item.number, content, self._end)
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
        for number, entry in enumerate(self._journal.entries[self._entries :], self._entries + 1):
            if isinstance(entry, Ended) and entry.stop != "Suspended":
                self._end = number
            elif isinstance(entry, Result) and entry.name == "steering":
                self._mark_taken(as_type(entry.value, Steer).posted)
            elif isinstance(entry, Decided) and entry.posted:
                self._mark_taken(entry.posted)
                for path in upwards(parent_of(entry.path)):
                    self._takers.setdefault(path, []).append(entry)
            elif isinstance(entry, Result) and entry.name in GROUPS and entry.path in self._takers:
                for taker in self._takers.pop(entry.path):
                    part = taker.path.removeprefix(f"{entry.path}/").partition("/")[0]
                    # Below a flow that has the name of a group there are no numbers.
                    if part.isdigit() and int(part) - 1 not in as_type(entry.value, Winners).parts:
                        self._give_back(taker.posted)
        self._entries = len(self._journal.entries)

    def _mark_taken(self, number: int) -> None:
        self._taken.add(number)
        self._waiting.discard(number)

    def _give_back(self, number: int) -> None:
        """Leave an event to later waits: the part of a group that has taken it was not the one that counts."""
        self._taken.discard(number)
        self._waiting.add(number)
        for events in self._events.values():
            events.first = min(events.first, bisect_left(events.sent, number, key=lambda sent: sent.number))
        # Those that wait already look again, in a run that is due at once.
        self._looked = {path: min(last, number - 1) for path, last in self._looked.items()}
        self._note()

    async def untaken(self) -> Sequence[InboxItem]:
        """Return what was posted and nothing has taken, without what the run takes whenever it comes."""
        items = await self.runs.inbox(self._run_id)
        await self.read()
        return [each for each in items if each.number not in self._taken]

    def take(self, sent: Sent, path: str) -> None:
        self._mark_taken(sent.number)
        self._looked.pop(path, None)
        self._note()

    async def decide(
        self, decisions: Mapping[str, Decision], now: float, agent: object, *, in_time: bool = False
    ) -> list[Decided]:
        """Hold the decisions that were posted, and post others; return the entries that record those.

        They are recorded together with what follows. If one is refused, none of the others stands.
        """
        await self.read()
        held, self._decisions = self._decisions, {}
        for number, posted in held.items():
            try:
                for entry in decision_entries(self._journal, posted.decisions, posted.at or now, agent, in_time=True):
                    self._journal.append(replace(entry, posted=number), hold=True)
            except ZigguratError as error:  # it fitted when it was sent
                self._spoilt.update(key for key, each in self._keys.items() if each == number)
                logger.warning("the decisions that were posted as number %d are not used: %s", number, error)
        self._note()
        entries = decision_entries(self._journal, decisions, now, agent, in_time=in_time)
        try:
            for place, entry in enumerate(entries):
                decision = decision_of(entry.decision)
                stands, number = await self.post_decision(entry.id, decision, now)
                if stands != decision:
                    _check_decided(entry.id, stands, decision)
                entries[place] = replace(entry, posted=number)
        except ZigguratError:
            await self.withdraw()
            raise
        return entries

    async def take_decision(self, item_id: str) -> tuple[Decision, int] | None:
        """Return the first decision that was posted on an item that waits, and the number with which it was."""
        await self.read()
        for number, posted in self._decisions.items():
            if item_id in posted.decisions:
                del self._decisions[number]
                self._note()
                return posted.decisions[item_id], number
        return None

    async def post_decision(self, item_id: str, decision: Decision, at: float = 0.0) -> tuple[Decision, int]:
        """Post a decision on an item that waits, and return the one that stands, with its number."""
        # So it cannot happen that another one, which somebody posts before this one is on record, has no effect
        # although it was accepted.
        waits = enumerate(reversed(self._journal.entries))
        behind = next(place for place, each in waits if isinstance(each, Pending) and each.id == item_id)
        key = f"decide {len(self._journal.entries) - behind} {item_id}"  # of several on one wait, the first is kept
        content = PostedDecisions({item_id: decision}, at)
        new = await self.runs.put_item(self._run_id, key, encode(content))
        while (stands := await self.take_decision(item_id)) is None and key in self._spoilt:
            key += "+"  # the place where everybody looks next
            new = await self.runs.put_item(self._run_id, key, encode(content))
        if new:
            self._own[self._keys[key]] = key
        return stands or (decision, 0)  # what is posted may have been taken before

    async def withdraw(self) -> None:
        """Withdraw the decisions that were posted here and did not come on record: it is as if they were never made."""
        for entry in self._journal.entries if self._own else ():
            if isinstance(entry, Decided) and not self._journal.withdraws(entry.id):
                self._own.pop(entry.posted, None)
        while self._own:
            _, key = self._own.popitem()
            await self.runs.put_item(self._run_id, f"withdraw {key}", encode(PostedWithdrawal(key)))

    def _note(self) -> None:
        """Note which items are known here: if the run is suspended and has others by then, it is due at once."""
        unused = next(iter(self._decisions), self._last + 1)
        self._journal.inbox_read = min((*self._looked.values(), unused - 1))
        self._journal.inbox_taken = self._last - len(self._waiting) - len(self._decisions)


INBOX: Key[Callable[[str, LocalJournal], Inbox]] = Key("inbox")
"""Returns the inbox of the run of an id with a record."""


def inbox_of(ctx: Context) -> Inbox:
    run = ctx.scope[AGENT_CALL].outermost
    if run.inbox is None:
        run.inbox = ctx.scope[INBOX](ctx.run_id, journal_of(ctx))
    return run.inbox


def give_back_events(ctx: Context) -> None:
    """Leave the events to later waits that the other parts of a group have taken, once it is on record which won."""
    call = ctx.scope.get(AGENT_CALL)
    if call is not None and call.outermost.inbox is not None:
        call.outermost.inbox.find_taken()


# -- decisions -------------------------------------------------------------------------------------------------------


TOOLS: Fact[Toolbox | None] = Fact("tools", None)
"""The tools of an agent, reachable through its layers."""

MEMBERS: Fact[Mapping[str, object]] = Fact("members", {})
"""The agents of a team by their names, reachable through its layers."""

LENT_TOOLS: Fact[Mapping[str, Toolbox]] = Fact("lent tools", {})
"""The tools that a team gives its agents besides their own, such as those of handing over, by the agents' names."""


def normalize_at(agent: object, path: str) -> Normalize | None:
    """Return how arguments of the call at a path are normalized; None if its tool cannot be found from the agent."""
    # As that of an agent called inside a function: the gate checks the arguments when the call is made.
    if not is_tool_call(path):
        return normalize_request
    service, lent, normalize = agent, None, None
    names = path.split("/")
    at = 1
    while at < len(names):
        if members := fact(service, MEMBERS):
            at, member = _member_at(names, at, members)
            if member is None:
                return None
            service, lent = members[member], fact(service, LENT_TOOLS).get(member)
        elif called := names[at].partition(":")[2]:
            box = fact(service, TOOLS)
            entries = (each.entries.get(called) for each in (box, lent) if each is not None)
            entry = next(filter(None, entries), None)
            if entry is None:
                return None
            service, lent, normalize = entry.service, None, entry.normalize
        at += 1
    return normalize


def _member_at(names: Sequence[str], at: int, members: Mapping[str, object]) -> tuple[int, str | None]:
    """Return where a path goes on with a member, as in team/ann#2 or team/round-1/settled/1/ann, and which it is."""
    segments = {escaped(name): name for name in members}
    for place in (at, at + 3, at + 4):  # the place of a round has one name or two
        name = segments.get(names[place].partition("#")[0]) if place < len(names) else None
        if name is not None and (place == at or names[place - 2] == "settled"):
            return place, name
    return at, None


def _check_decided(item_id: str, before: Decision, decision: Decision) -> None:
    """Check that a call that was decided before is decided again in the same way; both are as they are recorded."""
    same = before == decision
    if isinstance(before, Modify) and isinstance(decision, Modify):
        with suppress(InvalidArguments):
            same = canonical(before.text) == canonical(decision.text)
    if not same:
        raise AlreadyDecided(f"the call {item_id!r} was decided already: {before!r}; that decision stands")


def _was_decided(journal: LocalJournal, item_id: str, decision: Decision) -> bool:
    for entry in journal.entries:
        if isinstance(entry, Decided) and entry.id == item_id:
            if isinstance(decision, Answer):
                decision = Answer(plain(decision.value))
            if not isinstance(decision, Modify):  # of which nothing is masked on record
                decision = decision_of(journal.screened(replace(entry, decision=decision)).decision)
            _check_decided(item_id, decision_of(entry.decision), decision)
            return True
    return False


def decision_entries(
    journal: LocalJournal, decisions: Mapping[str, Decision], now: float, agent: object, *, in_time: bool = False
) -> list[Decided]:
    """Return the entries that record decisions; one that is late is a denial, or with `in_time` is refused."""
    waits = {each.id: each for each in journal.index.waits_at()} if decisions else {}
    entries: list[Decided] = []
    for item_id, decision in decisions.items():
        pending = waits.get(item_id)
        if pending is None and _was_decided(journal, item_id, decision):
            continue
        if pending is None:
            waiting = ", ".join(f"{each.id} for {each.name}" for each in waits.values()) or "nothing"
            raise ConfigurationError(
                f"no call with the id {item_id!r} waits for a decision (waiting: {waiting}); the ids are those of "
                "run.pending: {item.id: Approve() for item in run.pending}"
            )
        if not pending.asks:
            raise ConfigurationError(
                f"{pending.path} waits by itself ({pending.reason}): there is nothing to decide; an event is sent with "
                "send()"
            )
        item = recorded_item(pending, journal.find(pending.path))
        late = expired(item, now)
        if in_time and late is not None:
            raise AlreadyDecided(f"the decision on {item.path} comes too late to count: {late!r} stands")
        try:  # it would fail only after it was recorded, when it can no longer be changed
            decision = late or fitting(item, decision, normalize_at(agent, item.path))
        except InvalidArguments as error:
            what = f"the answer to {item.reason!r}" if item.stage == "question" else f"the decision on {item.call.name}"
            kind = "question" if item.stage == "question" else "call"
            raise ConfigurationError(
                f"{what} does not fit: {error}; nothing was recorded, and the {kind} still waits"
            ) from error
        entry = journal.screened(Decided(item.path, item_id, decision))
        if isinstance(decision, (Modify, Answer)) and decision_of(entry.decision) != decision:
            raise ConfigurationError(
                f"the decision on {item.call.name} cannot be carried out: a middleware masks its values on record; "
                "nothing was recorded, and the call still waits: decide without them, or let an approver in the "
                "process of the run decide"
            )
        entries.append(entry)
    return entries
