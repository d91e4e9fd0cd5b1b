"""Check decisions about pending calls against the run and its tools, before any of them is recorded."""

__all__ = ["TOOLS", "decision_entries", "misfit_of"]

from collections.abc import Mapping

from ziggurat.calls.gate import Normalize, expired, misfit, recorded_form
from ziggurat.calls.model_call import normalize_request
from ziggurat.calls.question import answer_in_time, misfit_of_answer, question_of
from ziggurat.core.entries import Decided, Pending
from ziggurat.core.errors import AlreadyDecided, ConfigurationError, InvalidArguments
from ziggurat.core.facts import Fact, fact
from ziggurat.core.journal import LocalJournal
from ziggurat.core.path import is_tool_call
from ziggurat.messages.agent import (
    Answer,
    Approve,
    Decision,
    Deny,
    DidNotHappen,
    Happened,
    Modify,
    decision_of,
    recorded_item,
    stage_of,
)
from ziggurat.messages.canonical import canonical
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.toolbox import Toolbox

TOOLS: Fact[Toolbox | None] = Fact("tools", None)
"""The tools of an agent, reachable through its layers."""


def misfit_of(agent: object, path: str, name: str, decision: Decision) -> str | None:
    """Return why a decision on the call at a path cannot be carried out, or None if it can.

    A tool that belongs to an agent called inside a function cannot be found from the root: only the form of its
    arguments is checked.
    """
    return misfit(decision, ToolCall("", name), _normalize_at(agent, path))


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


_DECISION = "a decision is Approve(), Deny(reason) or Modify(arguments)"
_UNSETTLED = (
    "the call was interrupted, and it is asked whether it took effect: decide Happened(result), DidNotHappen() to run "
    "it, or Deny(reason) to leave it at that"
)


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


def _answer_to(item: Pending, decision: Decision, now: float) -> Decision:
    """Return the answer to record for a question; its default, or a denial, if it has expired.

    Raises:
        ConfigurationError: the answer does not fit.
    """
    waiting = recorded_item(item, None)
    late = answer_in_time(waiting, now)
    if late is not None or isinstance(decision, Deny):
        return late or decision
    question = question_of(waiting.call)
    wrong = "" if isinstance(decision, Answer) else f"answer with Answer(value) or Deny(reason); got {decision!r:.200}"
    if isinstance(decision, Answer):
        wrong = misfit_of_answer(question, decision.value) or ""
    if wrong:
        raise ConfigurationError(
            f"the answer to {question.question!r} does not fit: {wrong}; nothing was recorded, and the question still "
            "waits"
        )
    return decision


def decision_entries(
    journal: LocalJournal, decisions: Mapping[str, Decision], now: float, agent: object
) -> list[Decided]:
    """Return the entries that record decisions. An item that has expired is denied, whatever the decision says.

    Raises:
        ConfigurationError: something is not a decision, does not fit, or names no pending item (they are listed).
        AlreadyDecided: a call was decided in another way before; deciding again in the same way has no effect.
    """
    pending = {item.id: item for item in journal.pending()}
    entries: list[Decided] = []
    for item_id, decision in decisions.items():
        if item_id not in pending and _was_decided(journal, item_id, decision):
            continue
        if item_id not in pending:
            waiting = ", ".join(pending) or "nothing"
            raise ConfigurationError(f"no call with the id {item_id!r} waits for a decision (waiting: {waiting})")
        item = pending[item_id]
        stage = stage_of(item.path)
        if stage in ("timer", "event"):
            raise ConfigurationError(
                f"{item.path} waits by itself ({item.reason}): there is nothing to decide; an event is sent with send()"
            )
        if stage == "question":
            entries.append(Decided(item.path, item.id, _answer_to(item, decision, now)))
            continue
        record = journal.find(item.path)
        begun = record is not None and record.intent is not None
        if not isinstance(decision, (Happened, DidNotHappen, Deny) if begun else (Approve, Deny, Modify)):
            raise ConfigurationError(_UNSETTLED if begun else f"{_DECISION}; got {decision!r}")
        late = expired(item, now)
        wrong = None if late is not None else misfit_of(agent, item.path, item.name, decision)
        if wrong is not None:  # it would fail only after it was recorded, when it can no longer be changed
            text = f"the decision on {item.name} does not fit: {wrong}; nothing was recorded, and the call still waits"
            raise ConfigurationError(text)
        entries.append(Decided(item.path, item.id, late or recorded_form(decision)))
    return entries
