"""Reading of records from a store, with the messages that the session of a run has."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from ziggurat.core.clock import SYSTEM_CLOCK, Clock
from ziggurat.core.codec import decode
from ziggurat.core.errors import JournalCorrupt, RunNotFound
from ziggurat.journal.entries import BEGINNING, ConversationReader, Earlier, JournalEntry, read_entries, read_entry
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.rows import chain_of, known_run, lines_of, read_rows
from ziggurat.journal.store import UNFINISHED, Row, Store, session_log
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.conversation import Transcript, made_of
from ziggurat.stores.session import state_of
from ziggurat.stores.session_log import RunConditions, SessionState, take_rows

_EVERY = 1_000_000_000


class _Opened(Struct):
    run_id: str = ""
    terms: RunConditions | None = None
    earlier: Earlier | None = None


async def unfinished_runs(store: Store, session: str) -> list[str]:
    runs: list[str] = []
    for status in sorted(UNFINISHED):
        for info in await store.logs("run:", status=status, limit=_EVERY):
            for line in await lines_of(store, info.log, await store.read(info.log, 0, 1)):
                terms = decode(line, _Opened).terms
                if terms is not None and terms.session == session and not terms.elsewhere:
                    runs.append(info.id)
    return runs


async def _beginning(store: Store, opened: _Opened, terms: RunConditions) -> Transcript | None:
    log, begun = session_log(terms.session), Transcript.of()
    with suppress(JournalCorrupt):  # what came later
        begun = (await state_of(store, log)).beginning(terms.limit, opened.run_id)
    if begun.first(terms.loaded).fingerprint() != terms.digest:  # others have changed the session since
        state = SessionState(log, chain_of(store))
        problem = take_rows(await store.read(log, 0, terms.rows), state)
        if problem:
            raise JournalCorrupt(f"{log}: {problem}")
        begun = state.beginning(terms.limit)
    begun = begun.first(terms.loaded)
    return begun if begun.fingerprint() == terms.digest else None


async def reader_of(store: Store, first: bytes) -> ConversationReader:
    opened = _Opened()
    with suppress(JournalCorrupt):  # whoever reads it as an entry reports that
        opened = decode(first, _Opened)
    if opened.earlier is None or opened.earlier.entry != BEGINNING:
        return ConversationReader(AgentRequest)
    terms = opened.terms or RunConditions()
    if await store.find(session_log(terms.session)) is None:
        raise RunNotFound(
            f"the run {opened.run_id!r} begins with {terms.loaded} messages of the session {terms.session!r}, which "
            "was deleted"
        )
    begun = await _beginning(store, opened, terms)
    if begun is None:
        raise JournalCorrupt(
            f"the run {opened.run_id!r} begins with {terms.loaded} messages of the session {terms.session!r}, which "
            "does not have them any more as they were"
        )
    return ConversationReader(AgentRequest, begun, made_of)


async def record_rows(store: Store, log: str) -> tuple[list[Row], list[JournalEntry], Sequence[object]]:
    """Return the rows of a run, their entries, each with its whole conversation, and the messages of its session."""
    rows = await read_rows(store, log)
    lines = await lines_of(store, log, rows)
    reader = await reader_of(store, lines[0] if lines else b"")
    return rows, read_entries(lines, reader.entry), reader.begun


async def entry_at(store: Store, log: str, number: int) -> JournalEntry | None:
    for line in await lines_of(store, log, await store.read(log, max(0, number - 1), 1)):
        return read_entry(line)
    return None


async def read_record(store: Store, run_id: str, clock: Clock = SYSTEM_CLOCK) -> LocalJournal:
    log = (await known_run(store, run_id)).log
    _, entries, _ = await record_rows(store, log)
    return LocalJournal(record=entries, clock=clock)
