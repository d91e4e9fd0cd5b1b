"""The way of a recording into a store, as if it had been made there."""

import msgspec

from tests.golden.record import FOLDER, PROMPT
from ziggurat.core.codec import digest
from ziggurat.core.entries import Ended
from ziggurat.core.lines import read_entry
from ziggurat.core.store import LogInfo, Row, Store, chained, run_log
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.message import user

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


def shape(line: bytes) -> object:
    """Return what is said in an entry without what it says: kind, path, and the names within, however deep."""
    fields = msgspec.json.decode(line)
    return fields["entry"], fields["path"], _names(fields)


def _names(value: object) -> object:
    if isinstance(value, dict):
        return {name: _names(each) for name, each in sorted(value.items())}
    if isinstance(value, list):
        return [_names(each) for each in value]
    return None
