"""Answers of clients to what a run waits for, by any protocol, as decisions."""

from collections.abc import Sequence
from types import NoneType
from typing import Any

from msgspec.structs import replace

from ziggurat.calls.wait import question_of
from ziggurat.core.errors import ConfigurationError
from ziggurat.journal.entries import Intent, JournalEntry, Pending
from ziggurat.messages.agent import (
    Answer,
    Approve,
    Decision,
    Deny,
    DidNotHappen,
    Happened,
    Modify,
    PendingItem,
    recorded_item,
)


def asked_items(entries: Sequence[JournalEntry]) -> dict[str, PendingItem]:
    """Return what waits, or has waited, for decisions in a record, by its ids."""
    items: dict[str, PendingItem] = {}
    begun: set[str] = set()
    for entry in entries:
        if isinstance(entry, Intent):
            begun.add(entry.path)
        elif isinstance(entry, Pending) and entry.asks:
            items[entry.id] = replace(recorded_item(entry, None), interrupted=entry.path in begun)
    return items


def decision_of_answer(item: PendingItem, answer: Any) -> Decision:
    """Return what somebody has answered as a decision; a denial is one already.

    A question takes any value. A call takes an object with ``approved``, and perhaps ``reason`` and changed
    ``arguments``; one of unknown outcome an object with ``happened``, and perhaps its ``result``.
    """
    if isinstance(answer, Deny):
        return answer
    if item.stage == "question":
        return Answer(answer)
    need = "happened" if item.interrupted else "approved"
    fields = answer if isinstance(answer, dict) else {}
    says, reason, result = fields.get(need), fields.get("reason", "denied"), fields.get("result", "")
    if not (isinstance(says, bool) and isinstance(reason, str) and isinstance(result, str)):
        raise ConfigurationError(f"the answer to {item.call.name} is an object with {need!r}, true or false")
    if item.interrupted:
        return Happened(result) if says else DidNotHappen()
    if not says:
        return Deny(reason or "denied")
    arguments = fields.get("arguments")
    if not isinstance(arguments, (dict, NoneType)):
        raise ConfigurationError(f"the arguments of {item.call.name} are an object, got {arguments!r:.100}")
    return Approve() if arguments is None else Modify(arguments)


def schema_of_answer(item: PendingItem) -> dict[str, Any]:
    text, truth = {"type": "string"}, {"type": "boolean"}
    if item.stage == "question":
        return question_of(item.call).answer
    if item.interrupted:
        return {"type": "object", "properties": {"happened": truth, "result": text}, "required": ["happened"]}
    properties = {"approved": truth, "reason": text, "arguments": {"type": "object"}}
    return {"type": "object", "properties": properties, "required": ["approved"]}
