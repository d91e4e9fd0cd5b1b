"""Calls that a client makes for an agent: each is a question of the run, which waits for the result."""

from typing import Any

from msgspec import Struct

from ziggurat.calls.check import question_of
from ziggurat.core.codec import decode
from ziggurat.core.errors import JournalCorrupt
from ziggurat.messages.agent import PendingItem


class ClientCall(Struct, frozen=True):
    """A call that a client makes: the question of a run that waits for its result."""

    call: str
    arguments: dict[str, Any]


def client_calls(pending: tuple[PendingItem, ...]) -> dict[str, ClientCall]:
    """Return the calls that wait for a client, by the id of the pending item."""
    calls: dict[str, ClientCall] = {}
    for item in pending:
        if item.stage == "question":
            try:
                calls[item.id] = decode(question_of(item.call).question, ClientCall)
            except JournalCorrupt:  # a question to a person
                continue
    return calls
