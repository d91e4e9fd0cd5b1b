"""The way of a recording into a store, as if it had been made there."""

from pathlib import Path

from tests.golden.agents import PROMPT
from ziggurat import AgentRequest, user
from ziggurat.core.codec import digest
from ziggurat.journal import LogInfo, Row, Store
from ziggurat.journal.entries import Ended, read_entry
from ziggurat.journal.store import chained, run_log, session_log

FOLDER = Path(__file__).parent

RECORDINGS = {f"{path.parent.name}/{path.stem}": path.read_bytes() for path in sorted(FOLDER.glob("version-*/*.jsonl"))}
"""What was recorded, by the version of the format and the name of the agent."""


def lines(recording: bytes) -> list[bytes]:
    """Return the entries of a recording."""
    return recording.splitlines()


async def put(store: Store, agent: str, recording: bytes) -> None:
    """Put a recording into a store as the run ``r`` of an agent."""
    rows: list[Row] = []
    before, status = "", "running"
    for number, line in enumerate(lines(recording), 1):
        before = chained(before, line)
        entry = read_entry(line)
        status = entry.stop if isinstance(entry, Ended) else "running"
        rows.append(Row(number, before, line, status))
    info = LogInfo(run_log("r"), agent, digest(AgentRequest((user(PROMPT),))))
    epoch = await store.create(info, rows)
    await store.release(run_log("r"), epoch)


async def put_session(store: Store, recording: bytes) -> None:
    """Put a recorded session into a store as the session ``alice``."""
    rows: list[Row] = []
    for number, line in enumerate(lines(recording), 1):
        rows.append(Row(number, chained(rows[-1].digest if rows else "", line), line, "Idle"))
    log = session_log("alice")
    await store.release(log, await store.create(LogInfo(log), rows))


def misses(now: object, kept: object, at: str = "") -> list[str]:
    """Return what is said in a kept entry by a name that one of now does not have; names may come, and none may go."""
    if isinstance(kept, dict):
        if not isinstance(now, dict):
            return [f"{at} has no names any more"]
        gone = [f"{at}.{name}" for name in kept if name not in now]
        return gone + [each for name in kept if name in now for each in misses(now[name], kept[name], f"{at}.{name}")]
    if isinstance(kept, list):
        if not isinstance(now, list) or len(now) != len(kept):
            return [f"{at} has another length"]
        pairs = enumerate(zip(now, kept, strict=True))
        return [each for number, pair in pairs for each in misses(*pair, f"{at}[{number}]")]
    return [] if type(now) is type(kept) else [f"{at} is of another type"]
