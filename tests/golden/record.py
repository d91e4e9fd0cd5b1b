"""Record the golden runs anew: only when what is recorded has changed on purpose. Older versions stay as they are.

python -m tests.golden.record
"""

import asyncio
from pathlib import Path

from tests.golden.agents import GOLDEN, Golden
from ziggurat.core.clock import CLOCK, IDS, RANDOM
from ziggurat.core.codec import SHAPE_VERSION
from ziggurat.stores.memory import MemoryStore
from ziggurat.testing.clock import HandClock

FOLDER = Path(__file__).parent
PROMPT = "Do what you do."


async def recorded(golden: Golden) -> bytes:
    """Run an agent where neither time nor chance differ, and return its record."""
    store = MemoryStore()
    agent = golden.make(store)
    deps = {CLOCK: HandClock(auto=True), IDS: iter("0123456789").__next__, RANDOM: lambda: 0.5}
    if golden.streamed:
        async with agent.stream(PROMPT, run_id="r", deps=deps) as events:
            async for _ in events:
                pass
    else:
        await agent.run(PROMPT, run_id="r", deps=deps)
    return store.dump("r")


def main() -> None:
    """Write each recording into the folder of the version that is written now."""
    folder = FOLDER / f"version-{SHAPE_VERSION}"
    folder.mkdir(exist_ok=True)
    for name, golden in GOLDEN.items():
        (folder / f"{name}.jsonl").write_bytes(asyncio.run(recorded(golden)))


if __name__ == "__main__":
    main()
