"""Check decisions about pending calls against the run and its tools, before any of them is recorded."""

__all__ = ["TOOLS", "decision_entries", "misfit"]

from collections.abc import Mapping

from ziggurat.core.codec import decode
from ziggurat.core.entries import Decided, Pending
from ziggurat.core.errors import ConfigurationError, InvalidArguments, JournalCorrupt
from ziggurat.core.facts import Fact, fact
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.path import is_tool_call
from ziggurat.messages.agent import Approve, Decision, Deny, DidNotHappen, Happened, Modify, PendingItem
from ziggurat.messages.approval import expired
from ziggurat.messages.canonical import canonical
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.toolbox import Entry, Toolbox

TOOLS: Fact[Toolbox | None] = Fact("tools", None)
"""The tools of an agent, reachable through its layers."""


def misfit(agent: object, path: str, name: str, arguments: object) -> str | None:
    """Return why a call cannot be made with these arguments, or None if it can.

    A tool that belongs to an agent called inside a function cannot be found from the root: only the form of its
    arguments is checked.

    Args:
        agent: The root agent of the run.
        path: The path of the call.
        name: The name of the tool or model.
        arguments: The arguments, a JSON object as text.
    """
    if not isinstance(arguments, str):
        return f"the arguments of {name} are a JSON object as text, got {arguments!r}"
    try:
        canonical(arguments, name)
        if not is_tool_call(path):
            decode(arguments, ModelRequest)
            return None
        entry = _found(agent, path)
        if entry is not None:
            entry.normalize(ToolCall("", name, arguments))
    except InvalidArguments as error:
        return str(error)
    except JournalCorrupt as error:
        return f"that is not a request to {name}: {error}"
    return None


def _found(agent: object, path: str) -> Entry | None:
    """Return the tool called at a path, or None if it cannot be found from the root agent."""
    service, entry = agent, None
    for name in path.split("/"):
        called = name.partition(":")[2]
        if not called:
            continue
        box = fact(service, TOOLS)
        entry = None if box is None else box.find(called)
        if entry is None:
            return None
        service = entry.service
    return entry


_DECISION = "a decision is Approve(), Deny(reason) or Modify(arguments)"
_UNSETTLED = (
    "the call was interrupted, and it is asked whether it took effect: decide Happened(result), DidNotHappen() to run "
    "it, or Deny(reason) to leave it at that"
)


def decision_entries(
    journal: MemoryJournal, decisions: Mapping[str, Decision], now: float, agent: object
) -> list[Decided]:
    """Return the entries that record decisions. An item that has expired is denied, whatever the decision says.

    Args:
        journal: The record of the run.
        decisions: The decisions, by the ids of pending items.
        now: The time, in POSIX seconds of the run's clock.
        agent: The root agent of the run; its tools check changed arguments.

    Raises:
        ConfigurationError: something is not a decision, does not fit, or names no pending item (they are listed).
    """
    if not isinstance(decisions, Mapping):
        raise ConfigurationError(
            "decisions maps the ids of pending items to Approve(), Deny(reason) or Modify(arguments): "
            f"resume(id, {{item.id: Approve() for item in run.pending}}); got {decisions!r:.200}"
        )
    pending = {item.id: item for item in journal.pending()}
    entries: list[Decided] = []
    for item_id, decision in decisions.items():
        if isinstance(item_id, PendingItem):
            raise ConfigurationError(
                f"a call that waits is named by its id: give item.id ({item_id.id!r}), not the item"
            )
        if item_id not in pending:
            waiting = ", ".join(pending) or "nothing"
            raise ConfigurationError(f"no call with the id {item_id!r} waits for a decision (waiting: {waiting})")
        item = pending[item_id]
        record = journal.find(item.path)
        begun = record is not None and record.intent is not None
        if not isinstance(decision, (Happened, DidNotHappen, Deny) if begun else (Approve, Deny, Modify)):
            raise ConfigurationError(_UNSETTLED if begun else f"{_DECISION}; got {decision!r}")
        late = expired(item, now)
        if late is None:
            _check_fits(item, decision, agent)
        entries.append(Decided(item.path, item.id, late or decision))
    return entries


def _check_fits(item: Pending, decision: Decision, agent: object) -> None:
    """Refuse a decision that would fail only after it was recorded, when it can no longer be changed."""
    wrong: str | None = None
    if isinstance(decision, Modify):
        wrong = misfit(agent, item.path, item.name, decision.arguments)
    elif isinstance(decision, Deny) and not isinstance(decision.reason, str):
        wrong = f"the reason of a denial is text, got {decision.reason!r}"
    elif isinstance(decision, Happened) and not isinstance(decision.result, str):
        wrong = f"what came of a call is text, got {decision.result!r}"
    if wrong is not None:
        raise ConfigurationError(f"{item.name} cannot be decided so: {wrong}; nothing was decided, it waits still")
