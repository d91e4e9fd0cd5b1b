"""A session that was recorded once is read and gone on with at every commit, on every store."""

from pathlib import Path

import msgspec
import pytest

from tests.golden.record import FOLDER, session, talker
from tests.golden.stores import lines, misses
from tests.stores.places import PLACES
from ziggurat.journal import LogInfo, Row
from ziggurat.journal.store import chained, session_log

KEPT = lines((FOLDER / "session-1.jsonl").read_bytes())


@pytest.mark.parametrize("kind", PLACES)
async def test_a_recorded_session_goes_on(kind: str, tmp_path: Path) -> None:
    log = session_log("alice")
    rows: list[Row] = []
    for number, line in enumerate(KEPT, 1):
        rows.append(Row(number, chained(rows[-1].digest if rows else "", line), line, "Idle"))

    store = PLACES[kind](tmp_path)()
    await store.release(log, await store.create(LogInfo(log), rows))
    run = await talker(store).run("And now?", run_id="r-2", session="alice")
    said = ["I am Ada.", "Hello Ada.", "Who am I?", "You are Ada.", "And now?", "Still Ada."]
    assert [message.text for message in run.messages] == said
    assert len(await store.read(log)) == len(KEPT) + 1
    await store.close()


async def test_what_is_kept_of_a_session_has_the_form_it_had() -> None:
    now = [msgspec.json.decode(line) for line in lines(await session())]
    assert not misses(now, [msgspec.json.decode(line) for line in KEPT])
