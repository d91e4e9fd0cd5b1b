"""The entries of a session's log, and the state that results from them."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import takewhile

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ziggurat.core import codec
from ziggurat.core.codec import encode
from ziggurat.journal.rows import DigestChain
from ziggurat.journal.store import Row
from ziggurat.messages.conversation import Conversation, Transcript, add_without_repeats, without_repeats
from ziggurat.messages.items import RunItem, handoff_in, items_to_messages, messages_to_items
from ziggurat.messages.message import Message, Text, ToolCall, ToolResult, tool_message


class _Entry(Struct, frozen=True, gc=False, tag=True, tag_field="entry", omit_defaults=True):
    at: float  # POSIX seconds


class MessagesAdded(_Entry, frozen=True, gc=False, tag="Said"):
    """Messages of a run, from number `start` on; they replace any that were recorded there before."""

    run: str
    start: int
    messages: tuple[Message, ...]
    waiting: tuple[str, ...] = ()


class ConversationReplaced(_Entry, frozen=True, gc=False, tag="Shortened"):
    """A run has shortened its conversation: these messages are what it continues with."""

    run: str
    after: int
    count: int
    number: int
    messages: tuple[Message, ...]


class RunConditions(Struct, frozen=True, omit_defaults=True):
    """The grants of a run, and the first messages of its session with which its request begins, in its record."""

    grants: tuple[str, ...] | None = None
    session: str = ""
    elsewhere: bool = False
    loaded: int = 0
    rows: int = 0
    limit: int | None = None
    digest: str = ""


class AddedItem(Struct, frozen=True, gc=False, omit_defaults=True):
    message: Message | None = None
    item: RunItem | None = None


class ItemsAdded(_Entry, frozen=True, gc=False, tag="Added", rename={"items": "kept"}):
    items: tuple[AddedItem, ...]


class ItemRemoved(_Entry, frozen=True, gc=False, tag="Popped"):
    """The newest item was removed."""


class SessionCleared(_Entry, frozen=True, gc=False, tag="Cleared"):
    """Everything was removed."""


class RowsLost(_Entry, frozen=True, gc=False, tag="Lost"):
    """Rows that had been acknowledged, from this row's number to `until`, were missing; the session was continued."""

    until: int


SessionEntry = MessagesAdded | ConversationReplaced | ItemsAdded | ItemRemoved | SessionCleared | RowsLost

_decoder: "msgspec.json.Decoder[SessionEntry]" = codec.decoder(SessionEntry)


def read_session_entry(data: bytes) -> SessionEntry | None:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Value(Struct):
    value: Message | RunItem
    row: int
    at: float
    run: str = ""
    index: int = 0
    covered: bool = False  # whether the shortened form replaces it


class SessionState:
    def __init__(self, log: str, chain: DigestChain) -> None:
        self.log = log
        self.chain = chain
        self.rows = 0
        self.digest = ""
        self.counts: dict[str, int] = {}
        self.shortened: dict[str, int] = {}
        self.damaged: list[int] = []
        self.waiting: dict[str, tuple[str, ...]] = {}  # for each run, the calls that wait for a decision
        self.missing: range = range(0)
        self._values: list[_Value] = []
        self._by_run: dict[str, list[_Value]] = {}
        self._base: list[Message] | None = None
        self._current: list[Message] | None = None  # None where it is made anew when it is asked for
        self._begun = Conversation()  # what the next run begins with, made of the first current messages:
        self._taken = 0

    def rows_of(self, entries: Iterable[SessionEntry]) -> list[Row]:
        rows: list[Row] = []
        digest = self.digest
        for number, entry in enumerate(entries, self.rows + 1):
            data = encode(entry)
            digest = self.chain.link(self.log, digest, data)
            rows.append(Row(number, digest, data, "Idle"))
        return rows

    def take_in(self, number: int, entry: SessionEntry) -> None:
        if isinstance(entry, MessagesAdded):
            self._add(number, entry)
            return
        messages = [each.message for each in entry.items if each.message] if isinstance(entry, ItemsAdded) else []
        if self._current is not None and isinstance(entry, ItemsAdded) and len(messages) == len(entry.items):
            self._current += messages
        else:
            self._forget_current()
        if isinstance(entry, ConversationReplaced):
            self._shorten(entry)
        elif isinstance(entry, ItemsAdded):
            for index, added in enumerate(entry.items):
                value = added.item if added.message is None else added.message
                if value is not None:
                    self._values.append(_Value(value, number, entry.at, "", index))
        elif isinstance(entry, ItemRemoved):
            self._pop()
        elif isinstance(entry, RowsLost):
            self.damaged.extend(range(number, entry.until + 1))
            self.missing = range(0)
        else:
            self._values, self._by_run, self._base, self.waiting = [], {}, None, {}

    def _add(self, number: int, entry: MessagesAdded) -> None:
        own = self._by_run.setdefault(entry.run, [])
        if entry.start < self.counts.get(entry.run, 0):
            first = bisect_left(own, entry.start, key=_index)
            self._remove(own[first:])
            del own[first:]
        new = [
            _Value(message, number, entry.at, entry.run, index)
            for index, message in enumerate(entry.messages, entry.start)
        ]
        own += new
        self._values += new
        if self._current is not None:
            self._current += entry.messages
        self.counts[entry.run] = entry.start + len(entry.messages)
        self.waiting.pop(entry.run, None)
        if entry.waiting:
            self.waiting[entry.run] = entry.waiting

    def _remove(self, replaced: Sequence[_Value]) -> None:
        if any(each.covered for each in replaced):
            self._base = self._current = None
            for each in self._values:
                each.covered = False
        start = len(self._values) - len(replaced)
        if all(one is other for one, other in zip(self._values[start:], replaced, strict=True)):
            del self._values[start:]
            if self._current is not None:
                del self._current[len(self._current) - len(replaced) :]
        else:
            removed = set(map(id, replaced))
            self._values = [each for each in self._values if id(each) not in removed]
            self._current = None
        if self._current is None or len(self._current) < self._taken:
            self._forget_current()

    def _forget_current(self) -> None:
        self._current, self._begun, self._taken = None, Conversation(), 0

    def _shorten(self, entry: ConversationReplaced) -> None:
        self._base = list(entry.messages)
        self.shortened[entry.run] = entry.number
        for each in self._values:
            each.covered = each.index < entry.count if each.run == entry.run else each.row <= entry.after

    def _pop(self) -> None:
        if not self._values:
            return
        last = self._values[-1]
        rest = _without_last(last.value)
        if last.covered and self._base and self._base[-1] == last.value:
            self._base[-1:] = [] if rest is None else [rest]
        if rest is None:
            self._values.pop()
            if last.run:
                self._by_run[last.run].pop()
        else:
            last.value = rest

    def items(self, limit: int | None = None) -> list[RunItem]:
        items: list[RunItem] = []
        for each in reversed(self._values):
            if limit is not None and len(items) >= limit:
                break
            items.extend(reversed(_items_of(each)))
        items.reverse()
        return items if limit is None else items[len(items) - min(limit, len(items)) :]

    def all_messages(self) -> list[Message]:
        return _messages(each.value for each in self._values)

    def current(self) -> list[Message]:
        if self._current is None:
            self._current = [*(self._base or ()), *_messages(each.value for each in self._values if not each.covered)]
        return self._current

    def beginning(self, limit: int | None = None, run: str = "") -> Transcript:
        """Return the messages with which a new run begins, or a run has begun, made only of what is new."""
        current = self.current()
        own = self._by_run.get(run)
        if own:
            after = takewhile(lambda each: each is not own[0], reversed(self._values))
            current = current[: len(current) - len(_messages(each.value for each in after)) - 1]
        if limit is not None:
            return Transcript.of(*without_repeats(whole(latest_from_question(current, limit))))
        new = current[self._taken :]
        added = whole(new)
        if added and added[-1] is not new[-1]:  # a result is missing, and may still be added
            return Transcript.of(*without_repeats([*self._begun.log, *added]))
        add_without_repeats(added, self._begun)
        self._taken = max(self._taken, len(current))
        return self._begun.view()

    def of_run(self, run: str) -> dict[int, Message]:
        return {each.index: each.value for each in self._by_run.get(run, ()) if isinstance(each.value, Message)}


def _index(value: _Value) -> int:
    return value.index


def _messages(values: Iterable[Message | RunItem]) -> list[Message]:
    messages: list[Message] = []
    items: list[RunItem] = []
    for value in values:
        if not isinstance(value, Message):
            items.append(value)
            continue
        if items:
            messages += items_to_messages(items)
            items = []
        messages.append(value)
    return messages + items_to_messages(items) if items else messages


def _items_of(value: _Value) -> list[RunItem]:
    if not isinstance(value.value, Message):
        return [value.value]
    when = datetime.fromtimestamp(value.at, UTC)
    handoff = handoff_in(value.value, ids=lambda: "", at=when)
    items = messages_to_items([value.value], ids=lambda: "") if handoff is None else [handoff]
    return [
        replace(item, id=item.id or f"{value.row}.{value.index}.{number}", created_at=when)  # a stable id
        for number, item in enumerate(items, 1)
    ]


def _without_last(value: Message | RunItem) -> Message | None:
    if not isinstance(value, Message):
        return None
    last = next((part for part in reversed(value.parts) if isinstance(part, (ToolCall, ToolResult))), None)
    if last is None:
        return None
    rest = tuple(part for part in value.parts if part is not last)
    return replace(value, parts=rest) if any(isinstance(each, (Text, ToolCall, ToolResult)) for each in rest) else None


def latest(messages: Sequence[Message], limit: int | None) -> list[Message]:
    """Return the newest messages, at most `limit`, preferably from a user's on; never a result without its call."""
    if limit is None or len(messages) <= limit:
        return list(messages)
    start = len(messages) - limit
    users = (index for index in range(start, len(messages)) if messages[index].role == "user")
    first_question = next(users, None)
    while first_question is None and start < len(messages) and messages[start].role == "tool":
        start += 1
    return list(messages[start if first_question is None else first_question :])


def latest_from_question(messages: Sequence[Message], limit: int | None) -> list[Message]:
    """Return the newest messages, at most `limit`, beginning with a user's, as models require."""
    newest = latest(messages, limit)
    if limit is None or not newest or len(newest) == len(messages) or newest[0].role == "user":
        return newest
    question = next((message for message in reversed(messages) if message.role == "user"), None)
    return [] if question is None else [question, *latest(messages, limit - 1)]


def whole(messages: Iterable[Message]) -> list[Message]:
    """Return messages in which every call has its result and every result its call, whatever was added by hand."""
    complete: list[Message] = []
    awaited: dict[str, ToolCall] = {}
    for message in messages:
        if message.role != "tool":
            complete += map(_missing_result, awaited.values())
            awaited = {call.id: call for call in message.tool_calls}
        elif not all(result.id in awaited for result in message.tool_results):
            continue
        for result in message.tool_results:
            awaited.pop(result.id, None)
        complete.append(message)
    return [*complete, *map(_missing_result, awaited.values())]


def _missing_result(call: ToolCall) -> Message:
    text = "no result of this call is known"
    return tool_message(ToolResult(call.id, call.name, text, "interrupted", call.name))


def take_rows(rows: Sequence[Row], state: SessionState) -> str:
    """Apply rows in order; return a description of damage that cannot be skipped, empty if there is none."""
    suspect: Row | None = None
    for row in rows:
        entry = read_session_entry(row.data)
        state.rows += 1
        if row.number != state.rows:
            return f"entry {state.rows} was changed, lost or damaged after it was written"
        if entry is not None and state.chain.fits(state.log, state.digest, row):
            state.take_in(state.rows, entry)
            state.digest = row.digest
            suspect = None
            continue
        if suspect is not None and _follows(row, suspect, entry, state):
            return f"entry {state.rows - 1} was changed, lost or damaged after it was written"
        state.damaged.append(state.rows)
        suspect = row
    return ""


def _follows(row: Row, before: Row, entry: SessionEntry | None, state: SessionState) -> bool:
    """Return whether a row was written when the one before it was still intact."""
    return state.chain.fits(state.log, before.digest, row) or (
        not before.digest and row.digest != "" and entry is not None
    )
