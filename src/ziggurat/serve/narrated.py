"""The parts of a run that clients get, in the words of no protocol."""

from typing import TypeAlias

from msgspec import Struct

from ziggurat.core.codec import digest, encode
from ziggurat.messages.agent import AgentRun, PendingItem
from ziggurat.messages.message import ToolCall, ToolResult


class Begin(Struct, frozen=True):
    """A text, or a thought, begins."""

    id: str
    step: int
    thinking: bool


class Piece(Struct, frozen=True):
    """The next piece of a text or a thought."""

    id: str
    thinking: bool
    text: str


class End(Struct, frozen=True):
    """A text, or a thought, has ended."""

    id: str
    thinking: bool


class Called(Struct, frozen=True):
    """The agent calls a tool; the same call again if a person has changed its arguments."""

    id: str
    step: int
    call: ToolCall
    path: str
    changed: bool = False


class Gave(Struct, frozen=True):
    """A tool has returned a result."""

    id: str
    result: ToolResult
    denied: bool = False


class Waits(Struct, frozen=True):
    """The run waits for decisions, each with the id of the call that it is about."""

    items: tuple[tuple[str, PendingItem], ...]


class Over(Struct, frozen=True):
    """The run has ended; it is None if it cannot be read."""

    run: AgentRun | None


Tale: TypeAlias = Begin | Piece | End | Called | Gave | Waits | Over


class Told(Struct, frozen=True):
    """Something that is told, and its place: the entry before it, and the characters and other things since."""

    number: int
    units: int
    what: Tale


def call_id(run_id: str, path: str) -> str:
    """Return the id of a call for clients: it names the run, so that a result of the client finds it."""
    return f"call_{run_id}_{digest(path)[:16]}"


def output_text(run: AgentRun | None) -> str:
    """Return the output of a run as text; empty if there is none."""
    output = None if run is None else run._output
    return output if isinstance(output, str) else "" if output is None else encode(output).decode()


def error_of(run: AgentRun | None) -> str:
    """Return why a run has ended without being done."""
    return "the run cannot be read" if run is None else run.error or ""
