"""Records whose entries are written without the messages that earlier ones have."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.samples import SEED, amount
from ziggurat import AgentRequest, AgentRun, Message, user
from ziggurat.core.codec import Raw, as_type, encode
from ziggurat.errors import JournalCorrupt
from ziggurat.journal.entries import (
    ConversationReader,
    ConversationWriter,
    Ended,
    Entered,
    Failure,
    JournalEntry,
    Opened,
    PlainResult,
    Result,
    read_entries,
    read_entry,
    write_entry,
)
from ziggurat.messages import Transcript, assistant, stops
from ziggurat.messages.conversation import OriginalMessages

COMPLETED = stops.Completed()


def run_of(messages: Sequence[Message], start: int, past: OriginalMessages | None = None) -> AgentRun:
    return AgentRun(Transcript.of(*messages), COMPLETED, "x", start=start, past=past)


def drawn(draw: random.Random) -> tuple[list[Message], list[JournalEntry]]:
    """Draw a session and a record: agents that are asked about parts of one conversation, and add to it."""

    def word() -> Message:
        return user(draw.choice("abc") * draw.randrange(1, 9))

    session = [word() for _ in range(draw.randrange(4))]
    conversation = [*session, word()]
    entries: list[JournalEntry] = [Opened("", "r", 1, 0.0, AgentRequest(tuple(conversation)))]
    for number in range(draw.randrange(1, 8)):
        name, path = draw.choice("xyz"), f"team/turn-{number}"
        if draw.random() < 0.2:
            entries.append(Entered(path, "rewrite", None))
            continue
        cut = draw.randrange(len(conversation) + 1)
        asked = [*conversation[:cut], word()] if draw.random() < 0.3 else [*conversation]
        request = AgentRequest(tuple(map(copied, asked)) if draw.random() < 0.3 else tuple(asked))
        said = [assistant(draw.choice(["ok", "no"])) for _ in range(draw.randrange(3))]
        entries.append(Entered(path, name, request, {"model": "m"}))
        entries.append(PlainResult(f"{path}/step-1/model", "m", "0" * 32, {"messages": ["not of a run"]}))
        past = OriginalMessages((*asked, *said), 1, ()) if draw.random() < 0.2 else None
        run = run_of([*asked, *said] if past is None else [word()], draw.choice([0, len(asked)]), past)
        outcomes = [Result(path, name, request, run), Failure(path, name, request, ValueError("x"))]
        entries.append(draw.choice(outcomes))
        conversation += [draw.choice([*said, word()])]
    entries.append(Ended("", "Completed", 0.0, run_of(conversation, len(session) + 1) if draw.random() < 0.5 else None))
    return session, entries


def copied(message: Message) -> Message:
    return replace(message)


def readable(entry: JournalEntry) -> tuple[object, ...]:
    """Return what a reader of an entry gets."""
    kinds: dict[str, Any] = {"request": AgentRequest, "value": AgentRun, "run": AgentRun}
    values: list[object] = [entry.kind, entry.path]
    for field, kind in kinds.items():
        value = getattr(entry, field, None)
        conversation = isinstance(value, Raw) and bytes(value).startswith(b'{"messages":[{')
        if not isinstance(entry, (Result, Failure)) or field != "request":
            values.append(encode(as_type(value, kind) if conversation else value))
    return tuple(values)


@pytest.mark.parametrize("seed", range(amount(60, 2_000)))
def test_every_entry_is_read_whole(seed: int) -> None:
    session, entries = drawn(random.Random(f"{SEED} {seed}"))
    kept: list[JournalEntry] = []
    writer = ConversationWriter(kept)
    writer.begun = session
    reader = ConversationReader(AgentRequest, session)
    resumed = random.Random(seed).randrange(len(entries) + 1)
    for number, entry in enumerate(entries):
        if number == resumed:  # in another process
            kept = read_entries(map(write_entry, kept), ConversationReader(AgentRequest).entry)
            writer = ConversationWriter(kept)
        line = writer.line(entry)
        kept.append(entry)
        assert readable(reader.entry(line)) == readable(read_entry(write_entry(entry)))


def test_equal_messages_are_written_once() -> None:
    words = [user(f"word {number}") for number in range(100)]
    request = AgentRequest(tuple(words))
    entries: list[JournalEntry] = [
        Opened("", "r", 1, 0.0, request),
        Entered("a", "a", request),
        Entered("a/turn", "b", AgentRequest((*map(copied, words), user("more")))),
        Result("a/turn", "b", request, run_of([*words, user("more"), assistant("said")], 101)),
        Ended("", "Completed", 0.0, run_of([*words, assistant("done")], 100)),
    ]
    kept: list[JournalEntry] = []
    writer = ConversationWriter(kept)
    written = b""
    for entry in entries:
        written += writer.line(entry)
        kept.append(entry)
    assert [written.count(text) for text in (b'"word 7"', b'"more"', b'"said"', b'"done"')] == [1, 1, 1, 1]


@pytest.mark.parametrize("lost", [lambda line: b"", lambda line: line.replace(b'"length":2', b'"length":3')])
def test_a_reference_to_what_is_not_there_is_refused(lost: Callable[[bytes], bytes]) -> None:
    request = AgentRequest((user("a"), user("b")))
    first = Opened("", "r", 1, 0.0, request)
    writer = ConversationWriter([first])
    second = lost(writer.line(Entered("a", "a", request))) or writer.line(Entered("a", "a", request))
    reader = ConversationReader(AgentRequest)
    if b'"length":3' in second:
        reader.entry(write_entry(first))
    with pytest.raises(JournalCorrupt):
        reader.entry(second)
