"""Record the golden runs again: only when what is recorded has changed on purpose. Older versions stay as they are.

python -m tests.golden.record
"""

import asyncio
from pathlib import Path

from tests.golden.agents import GOLDEN, Golden
from tests.hard_cases.support import ByTurn
from tests.stores.records import dump_of
from ziggurat import Agent
from ziggurat.agents import Environment
from ziggurat.core.codec import SHAPE_VERSION
from ziggurat.journal import Store
from ziggurat.journal.store import session_log
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock

FOLDER = Path(__file__).parent
PROMPT = "Do what you do."


async def recorded(golden: Golden) -> bytes:
    """Run an agent where neither time nor chance differ, and return its record."""
    store = InMemoryStore()
    agent = golden.make(store)
    environment = Environment(clock=HandClock(auto=True), ids=iter("0123456789").__next__, random=lambda: 0.5)
    if golden.streamed:
        async with agent.stream(PROMPT, run_id="r", environment=environment) as events:
            async for _ in events:
                pass
    else:
        await agent.run(PROMPT, run_id="r", environment=environment)
    return dump_of(store, "r")


def talker(store: Store) -> Agent:
    """Return an agent that talks in sessions."""
    return Agent(ByTurn("Hello Ada.", "You are Ada.", "Still Ada."), name="talker", store=store)


async def session() -> bytes:
    """Talk twice in one session, and return what is kept of it."""
    store = InMemoryStore(clock=HandClock())
    for number, prompt in enumerate(("I am Ada.", "Who am I?")):
        await talker(store).run(
            prompt, run_id=f"r-{number}", session="alice", environment=Environment(clock=HandClock())
        )
    rows = await store.read(session_log("alice"))
    await store.close()
    return b"".join(row.data + b"\n" for row in rows)


def main() -> None:
    """Write each recording into the folder of the version that is written now."""
    folder = FOLDER / f"version-{SHAPE_VERSION}"
    folder.mkdir(exist_ok=True)
    for name, golden in GOLDEN.items():
        (folder / f"{name}.jsonl").write_bytes(asyncio.run(recorded(golden)))
    (FOLDER / "session-1.jsonl").write_bytes(asyncio.run(session()))


if __name__ == "__main__":
    main()
