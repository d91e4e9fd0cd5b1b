"""What waits in a run for clients, and what they decide, by any protocol."""

from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

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
from ziggurat.serve.rows import time_of
from ziggurat.tools.decisions import awaited_in, question_of


class PendingRow(Struct, frozen=True):
    """What waits for a person; see `PendingItem`. A question has the JSON Schema of its answer."""

    id: str
    kind: str
    path: str
    tool: str
    arguments: Any
    text: str
    answer: dict[str, Any] | None
    expires: str | None

    @classmethod
    def of(cls, item: PendingItem) -> "PendingRow":
        expires = None if item.until is None else time_of(item.until)
        asks = item.stage == "question"
        kind = "question" if asks else "outcome" if item.interrupted else "approval"
        answer = question_of(item.call).answer if asks else None
        return cls(item.id, kind, item.path, item.call.name, item.call.parsed(), item.reason, answer, expires)


class WaitRow(Struct, frozen=True):
    """What a run waits for that needs no person: an event, with the JSON Schema of its value, or a time."""

    event: str | None
    value: dict[str, Any] | None
    until: str | None

    @classmethod
    def of(cls, item: PendingItem) -> "WaitRow":
        until = None if item.until is None else time_of(item.until)
        if item.stage != "event":
            return cls(None, None, until)
        awaited = awaited_in(item.call)
        return cls(awaited.event, awaited.value, until)


_ACTIONS: dict[str, tuple[Callable[..., Decision], str, bool]] = {
    "approve": (Approve, "", False),
    "deny": (Deny, "reason", False),
    "modify": (Modify, "arguments", True),
    "answer": (Answer, "answer", True),
    "happened": (lambda result="": Happened(result), "result", False),
    "did_not_happen": (DidNotHappen, "", False),
}
"""What each action makes of the field that it takes, and whether it must have it."""


class _StatedDecision(Struct, forbid_unknown_fields=True):
    id: str
    action: Literal["approve", "deny", "modify", "answer", "happened", "did_not_happen"]
    reason: str | UnsetType = UNSET
    arguments: dict[str, Any] | UnsetType = UNSET
    answer: Any = UNSET
    result: str | UnsetType = UNSET

    def decision(self) -> Decision:
        made, takes, must = _ACTIONS[self.action]
        fields = {"reason": self.reason, "arguments": self.arguments, "answer": self.answer, "result": self.result}
        given = {name: value for name, value in fields.items() if value is not UNSET}
        if given.keys() - {takes} or (must and not given):
            raise ConfigurationError(f"{self.action} takes {takes or 'nothing'}, got {', '.join(given) or 'nothing'}")
        return made(*given.values())


class Decisions(Struct, forbid_unknown_fields=True):
    decisions: list[_StatedDecision]

    def by_id(self) -> dict[str, Decision]:
        decided: dict[str, Decision] = {}
        for each in self.decisions:
            if decided.setdefault(each.id, decision := each.decision()) != decision:
                raise ConfigurationError(f"there are two decisions on {each.id!r:.100}; give one")
        return decided


class Resumption(Decisions, forbid_unknown_fields=True):
    decisions: list[_StatedDecision] = []


def asked_items(entries: Sequence[JournalEntry]) -> dict[str, PendingItem]:
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
