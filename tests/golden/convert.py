"""Record the golden runs anew, and compare what the new and the committed recordings say when they are read.

    python -m tests.golden.convert [--write] [NAME ...]

The messages, the stop and the usage of each run must be equal, apart from estimates of usage that a model did not
state. Otherwise the differences are listed, and the exit status is 1. With ``--write`` the new recordings replace the
committed ones: only when the format has changed on purpose.
Recordings in older versions of the format are compared too, but never replaced.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

from tests.golden import teams
from tests.golden.agents import GOLDEN, PROMPT, Golden, talker
from tests.golden.stores import FOLDER, put, put_session
from tests.golden.teams import TEAMS
from tests.stores.records import dump_of
from tests.teams.patterns import PATTERNS
from ziggurat import AgentRun, Usage
from ziggurat.agents import Environment
from ziggurat.core.codec import SHAPE_VERSION
from ziggurat.errors import ZigguratError
from ziggurat.journal.store import session_log
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock

SESSION = "session-1"

NAMES = [*GOLDEN, SESSION, *PATTERNS]
"""All that is recorded: agents, a session, and teams in a session."""


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


async def record_into(folder: Path, names: Sequence[str]) -> None:
    """Write recordings by today's code into a folder."""
    version = folder / f"version-{SHAPE_VERSION}"
    version.mkdir()
    for name in names:
        if name in PATTERNS:
            (folder / TEAMS).mkdir(exist_ok=True)
            with TemporaryDirectory() as store:
                (folder / TEAMS / f"{name}.jsonl").write_bytes(await teams.recorded(name, Path(store)))
        elif name == SESSION:
            (folder / f"{name}.jsonl").write_bytes(await session())
        else:
            (version / f"{name}.jsonl").write_bytes(await recorded(GOLDEN[name]))


async def read(recording: Path) -> dict[str, Any]:
    """Return what a recording says: of a run when it is replayed, of a session when it goes on."""
    store, name = InMemoryStore(), recording.stem
    if name in PATTERNS:
        with TemporaryDirectory() as folder:
            return await teams.read(name, recording.read_bytes(), Path(folder))
    run: AgentRun
    if name == SESSION:
        await put_session(store, recording.read_bytes())
        run = await talker(store).run("And now?", run_id="r-2", session="alice")
    else:
        await put(store, name, recording.read_bytes())
        run = await GOLDEN[name].make(store).replay("r")
    return {"messages": [*run.messages], "stop": run.stop, "usage": run.usage, "usage by model": run.usage_by_model}


def _differ(was: Any, now: Any) -> bool:
    """Return whether two values differ; a usage that was unknown may be an estimate now, of as many requests."""
    if isinstance(now, dict):
        return was.keys() != now.keys() or any(_differ(was[each], now[each]) for each in now)
    if isinstance(now, Usage) and now.estimated and not was.estimated:
        return bool(was.requests != now.requests)
    return bool(was != now)


async def differences(kept: Path, new: Path) -> list[str]:
    """Return how the recordings in the folder `kept` differ from those of the same names in the folder `new`."""
    found = []
    for recording in sorted(new.glob("**/*.jsonl")):
        now = await read(recording)
        committed = [*kept.glob(f"**/{recording.name}")]
        if not committed:
            found.append(f"{recording.stem}: not recorded yet")
        for each in committed:
            name = each.relative_to(kept).with_suffix("")
            try:
                was = await read(each)
            except ZigguratError as error:
                found.append(f"{name}: it cannot be read: {type(error).__name__}: {error}")
            else:
                found += [f"{name}: {what}: {was[what]} > {now[what]}" for what in now if _differ(was[what], now[what])]
    return found


def main(arguments: Sequence[str], kept: Path = FOLDER) -> int:
    """Compare the recordings in a folder with new ones; return 1 if any differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)}; default: all")
    parser.add_argument("--write", action="store_true", help="replace the committed recordings")
    args = parser.parse_args(arguments)
    names = args.names or NAMES
    with TemporaryDirectory() as folder:
        asyncio.run(record_into(Path(folder), names))
        found = asyncio.run(differences(kept, Path(folder)))
        if args.write:
            copytree(folder, kept, dirs_exist_ok=True)
    print(*found, f"{len(names)} recordings, {len(found)} differences", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    logging.disable()  # some of the runs fail, as they are to
    sys.exit(main(sys.argv[1:]))
