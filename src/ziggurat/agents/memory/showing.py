"""Showing memories to a model: each with its date, where it comes from, and whether it may be about something else."""

from datetime import UTC, datetime

from ziggurat.memory.calibrating import Bounds
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.search import Recalled


def one_line(text: str) -> str:
    """Return a text without line breaks, so that it cannot look like another memory."""
    return " ".join(text.split())


def doubtful(recalled: Recalled, bounds: Bounds) -> bool:
    """Return whether a recalled memory may be about something else; False if only words were compared."""
    return recalled.relevance is not None and recalled.relevance < bounds.certain


def notes_on(record: MemoryRecord, *, doubt: bool = False) -> str:
    """Return when a memory was stored, in UTC, the tools it comes from, and a doubt, separated by commas.

    >>> notes_on(MemoryRecord(id="1", owner="ann", content="It rains.", created=86_400.0, taint=("web",)))
    '1970-01-02, from the tool web'
    """
    tools = f"from the tool {', '.join(record.taint)}" if record.taint else ""
    return ", ".join(filter(None, (_date(record.created), tools, "perhaps about something else" if doubt else "")))


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):  # an imported memory may have any number
        return "no date"
