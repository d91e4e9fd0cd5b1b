"""What users pass beside the question, checked where they pass it, before anything is written."""

__all__ = ["Deps", "RunOptions", "check_id", "check_options", "decided", "given", "guarded"]

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypedDict

from ziggurat.agents.modified import misfit
from ziggurat.core.context import Context
from ziggurat.core.entries import Decided, Pending
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Listener
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.scope import Key
from ziggurat.core.store import ID, is_id
from ziggurat.messages.agent import AgentRun, Approve, Decision, Deny, DidNotHappen, Happened, Modify, PendingItem
from ziggurat.messages.approval import expired
from ziggurat.messages.message import Message
from ziggurat.models.approval import gated
from ziggurat.stores.session import Session
from ziggurat.tools.approval import APPROVALS
from ziggurat.tools.held import HELD
from ziggurat.tools.permissions import AUDIT, DECLARED_ONLY, GRANTS, narrowed

Deps = Mapping[Key[Any], Any]
"""What tools may ask for through ``ctx.scope[KEY]``."""


class RunOptions(TypedDict, total=False):
    """What `run` takes beside the prompt."""

    history: Sequence[Message]
    deps: Deps | None
    listeners: Sequence[Listener]
    run_id: str | None
    session: str | Session | None
    detached: bool


def check_options(deps: Deps | None, listeners: Sequence[Listener], run_id: str | None = None) -> None:
    """Check what goes with a run.

    Raises:
        ConfigurationError: something is not what it should be; the text says how to give it.
    """
    if deps is not None:
        _check_deps(deps)
    if listeners != ():
        _check_listeners(listeners)
    if run_id is not None and (not isinstance(run_id, str) or not run_id or not is_id(run_id)):
        raise ConfigurationError(f"run_id must be {ID}, got {run_id!r:.200}")


def check_id(run_id: object) -> None:
    """Refuse what cannot be looked up where a run's id is wanted; that there is no such run is told by the look-up.

    Raises:
        ConfigurationError: it is a run, or a list or the like.
    """
    if isinstance(run_id, AgentRun):
        raise ConfigurationError(f"a run is named by its id: give run.id ({run_id.id!r}), not the run")
    if not isinstance(run_id, Hashable):
        raise ConfigurationError(f"a run is named by its id, a text such as run.id; got {run_id!r:.200}")


def _check_deps(deps: Deps) -> None:
    wrong = next((key for key in deps if not isinstance(key, Key)), None) if isinstance(deps, Mapping) else deps
    if wrong is not None:
        raise ConfigurationError(
            "deps maps keys to values: make one with DB = Key[Database]('database') and pass deps={DB: db}; "
            f"got {'the key ' if isinstance(deps, Mapping) else ''}{wrong!r}"
        )


def _check_listeners(listeners: Sequence[Listener]) -> None:
    if not isinstance(listeners, Sequence) or isinstance(listeners, str):
        raise ConfigurationError(f"listeners is a list of functions of an event: listeners=[f]; got {listeners!r}")
    for each in listeners:
        if not callable(each):
            raise ConfigurationError(f"listeners must be callable with an event, sync or async; got {each!r}")


def given(ctx: Context, deps: Deps | None) -> Context:
    """Return a context with these dependencies in its scope; inside a run they add to its approvals and narrow its
    grants."""
    if not deps:
        return ctx
    values = dict(deps)
    if GRANTS in values:
        values[GRANTS] = narrowed(ctx, values[GRANTS])
    if APPROVALS in values:
        values[APPROVALS] = (*(ctx.scope.get(APPROVALS) or ()), *values[APPROVALS])
    if ctx.scope.get(DECLARED_ONLY):
        values[DECLARED_ONLY] = True
    return guarded(ctx.scoped(ctx.scope.with_values(values)))


def guarded(ctx: Context) -> Context:
    """Return a context whose calls pass the gates that its dependencies have brought."""
    scope = ctx.scope
    if scope.get(APPROVALS) is None and (DECLARED_ONLY in scope or AUDIT in scope or HELD in scope):
        ctx = ctx.within(APPROVALS, ())  # so that calls of tools that declare nothing are checked too
    return gated(ctx)


_DECISION = "a decision is Approve(), Deny(reason) or Modify(arguments)"
_UNSETTLED = (
    "the call was interrupted, and it is asked whether it took effect: decide Happened(result), DidNotHappen() to run "
    "it, or Deny(reason) to leave it at that"
)


def decided(journal: MemoryJournal, decisions: Mapping[str, Decision], now: float, agent: object) -> list[Decided]:
    """Return decisions as the entries that record them; upon what has expired by now there is only one.

    Args:
        journal: The record of the run.
        decisions: By the ids of what waits.
        now: The time, in POSIX seconds of the run's clock.
        agent: Whose run it is; its tools say whether changed arguments fit.

    Raises:
        ConfigurationError: one is none, names nothing that waits (the text lists what does), or does not fit.
    """
    if not isinstance(decisions, Mapping):
        raise ConfigurationError(
            "decisions maps the ids of pending items to Approve(), Deny(reason) or Modify(arguments): "
            f"resume(id, {{item.id: Approve() for item in run.pending}}); got {decisions!r:.200}"
        )
    pending = {item.id: item for item in journal.pending()}
    upon: list[Decided] = []
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
        upon.append(Decided(item.path, item.id, late or decision))
    return upon


def _check_fits(item: Pending, decision: Decision, agent: object) -> None:
    """Refuse what could only fail once it was decided: then there is no way back."""
    wrong: str | None = None
    if isinstance(decision, Modify):
        wrong = misfit(agent, item.path, item.name, decision.arguments)
    elif isinstance(decision, Deny) and not isinstance(decision.reason, str):
        wrong = f"the reason of a denial is text, got {decision.reason!r}"
    elif isinstance(decision, Happened) and not isinstance(decision.result, str):
        wrong = f"what came of a call is text, got {decision.result!r}"
    if wrong is not None:
        raise ConfigurationError(f"{item.name} cannot be decided so: {wrong}; nothing was decided, it waits still")
