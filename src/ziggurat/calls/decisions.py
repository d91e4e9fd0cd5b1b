"""Check decisions about pending calls against the run and its tools, before any of them is recorded."""

__all__ = ["TOOLS", "decision_entries", "misfit_of"]

from collections.abc import Mapping

from ziggurat.calls.call_decision import Normalize, expired, misfit, recorded_form
from ziggurat.calls.model_call import normalize_request
from ziggurat.core.entries import Decided
from ziggurat.core.errors import AlreadyDecided, ConfigurationError, InvalidArguments
from ziggurat.core.facts import Fact, fact
from ziggurat.core.journal import LocalJournal
from ziggurat.core.path import is_tool_call
from ziggurat.messages.agent import Decision, Modify, PendingItem, decision_of
from ziggurat.messages.canonical import canonical
from ziggurat.messages.pending import recorded_items
from ziggurat.tools.toolbox import Toolbox

TOOLS: Fact[Toolbox | None] = Fact("tools", None)
"""The tools of an agent, reachable through its layers."""


def misfit_of(agent: object, item: PendingItem, decision: Decision) -> str | None:
    """Return why a decision on what waits in a run of an agent cannot be carried out, or None if it can.

    A tool that belongs to an agent called inside a function cannot be found from the root: only the form of its
    arguments is checked.
    """
    return misfit(item, decision, _normalize_at(agent, item.path))


def _normalize_at(agent: object, path: str) -> Normalize | None:
    """Return how arguments of the call at a path are normalized; None if its tool cannot be found from the agent."""
    if not is_tool_call(path):
        return normalize_request
    service, normalize = agent, None
    for name in path.split("/"):
        called = name.partition(":")[2]
        if not called:
            continue
        box = fact(service, TOOLS)
        entry = None if box is None else box.find(called)
        if entry is None:
            return None
        service, normalize = entry.service, entry.normalize
    return normalize


def _is_same(before: Decision, decision: Decision) -> bool:
    if not (isinstance(before, Modify) and isinstance(decision, Modify)):
        return before == decision
    try:
        return canonical(before.text) == canonical(decision.text)
    except InvalidArguments:
        return False


def _was_decided(journal: LocalJournal, item_id: str, decision: Decision) -> bool:
    """Return whether a call was decided in this way before."""
    for entry in journal.entries:
        if isinstance(entry, Decided) and entry.id == item_id:
            before = decision_of(entry.decision)
            if _is_same(before, decision):
                return True
            raise AlreadyDecided(f"the call {item_id!r} was decided already: {before!r}; that decision stands")
    return False


def decision_entries(
    journal: LocalJournal, decisions: Mapping[str, Decision], now: float, agent: object
) -> list[Decided]:
    """Return the entries that record decisions. An item that has expired is denied, whatever the decision says.

    Raises:
        ConfigurationError: something is not a decision, does not fit, or names no pending item (they are listed).
        AlreadyDecided: a call was decided in another way before; deciding again in the same way has no effect.
    """
    pending = {item.id: item for item in recorded_items(journal)}
    entries: list[Decided] = []
    for item_id, decision in decisions.items():
        item = pending.get(item_id)
        if item is None and _was_decided(journal, item_id, decision):
            continue
        if item is None:
            waiting = ", ".join(pending) or "nothing"
            raise ConfigurationError(f"no call with the id {item_id!r} waits for a decision (waiting: {waiting})")
        if not item.needs_decision:
            raise ConfigurationError(
                f"{item.path} waits by itself ({item.reason}): there is nothing to decide; an event is sent with send()"
            )
        late = expired(item, now)
        wrong = None if late is not None else misfit_of(agent, item, decision)
        if wrong is not None:  # it would fail only after it was recorded, when it can no longer be changed
            what = f"the answer to {item.reason!r}" if item.stage == "question" else f"the decision on {item.call.name}"
            waits = "question" if item.stage == "question" else "call"
            raise ConfigurationError(f"{what} does not fit: {wrong}; nothing was recorded, and the {waits} still waits")
        entries.append(Decided(item.path, item_id, late or recorded_form(decision)))
    return entries
