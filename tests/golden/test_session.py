"""A session that was recorded once is read and gone on with at every commit, on every store."""

from pathlib import Path

import msgspec
import pytest

from tests.golden.agents import talker
from tests.golden.convert import SESSION, session
from tests.golden.stores import FOLDER, lines, misses, put_session
from tests.stores.places import PLACES
from ziggurat.journal.store import session_log

KEPT = (FOLDER / f"{SESSION}.jsonl").read_bytes()


@pytest.mark.parametrize("kind", PLACES)
async def test_a_recorded_session_goes_on(kind: str, tmp_path: Path) -> None:
    store = PLACES[kind](tmp_path)()
    await put_session(store, KEPT)
    run = await talker(store).run("And now?", run_id="r-2", session="alice")
    said = ["I am Ada.", "Hello Ada.", "Who am I?", "You are Ada.", "And now?", "Still Ada."]
    assert [message.text for message in run.messages] == said
    assert len(await store.read(session_log("alice"))) == len(lines(KEPT)) + 1
    await store.close()


async def test_what_is_kept_of_a_session_has_the_form_it_had() -> None:
    now = [msgspec.json.decode(line) for line in lines(await session())]
    assert not misses(now, [msgspec.json.decode(line) for line in lines(KEPT)])
