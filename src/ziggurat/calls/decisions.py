"""Decisions about what waits: checked against the run and its tools, posted to its inbox, and held for its record."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from ziggurat.calls.check import Normalize, expired, kept_form, misfit, recorded_form
from ziggurat.calls.inbox import Inbox
from ziggurat.calls.model_call import normalize_request
from ziggurat.core.errors import AlreadyDecided, ConfigurationError, InvalidArguments, ZigguratError
from ziggurat.core.log import logger
from ziggurat.core.path import escaped, is_tool_call
from ziggurat.core.service import Fact, fact
from ziggurat.journal.entries import Decided
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import Answer, Decision, Modify, PendingItem, decision_of
from ziggurat.messages.canonical import canonical
from ziggurat.messages.pending import recorded_items
from ziggurat.tools.toolbox import Toolbox

TOOLS: Fact[Toolbox | None] = Fact("tools", None)
"""The tools of an agent, reachable through its layers."""

MEMBERS: Fact[Mapping[str, object]] = Fact("members", {})
"""The agents of a team by their names, reachable through its layers."""

LENT_TOOLS: Fact[Mapping[str, Toolbox]] = Fact("lent tools", {})
"""The tools that a team gives its agents besides their own, such as those of handing over, by the agents' names."""


def misfit_of(agent: object, item: PendingItem, decision: Decision) -> str | None:
    """Return why a decision on what waits in a run of an agent cannot be carried out, or None if it can."""
    # A tool that belongs to an agent called inside a function cannot be found from the root: only the form of its
    # arguments is checked; the gate checks them when the call is made.
    return misfit(item, decision, _normalize_at(agent, item.path))


def _normalize_at(agent: object, path: str) -> Normalize | None:
    """Return how arguments of the call at a path are normalized; None if its tool cannot be found from the agent."""
    if not is_tool_call(path):
        return normalize_request
    service, lent, normalize = agent, None, None
    names = path.split("/")
    at = 1
    while at < len(names):
        if members := fact(service, MEMBERS):
            at, member = _member_at(names, at, members)
            if member is None:
                return None
            service, lent = members[member], fact(service, LENT_TOOLS).get(member)
        elif called := names[at].partition(":")[2]:
            box = fact(service, TOOLS)
            entry = (None if box is None else box.find(called)) or (None if lent is None else lent.find(called))
            if entry is None:
                return None
            service, lent, normalize = entry.service, None, entry.normalize
        at += 1
    return normalize


def _member_at(names: Sequence[str], at: int, members: Mapping[str, object]) -> tuple[int, str | None]:
    """Return where a path goes on with a member, as in team/ann#2 or team/round-1/settled/1/ann, and which it is."""
    segments = {escaped(name): name for name in members}
    for place in (at, at + 3, at + 4):  # the place of a round has one name or two
        name = segments.get(names[place].partition("#")[0]) if place < len(names) else None
        if name is not None and (place == at or names[place - 2] == "settled"):
            return place, name
    return at, None


def _check_decided(item_id: str, before: Decision, decision: Decision) -> None:
    """Check that a call that was decided before is decided again in the same way."""
    same = False
    with suppress(InvalidArguments):
        if isinstance(before, Modify) and isinstance(decision, Modify):
            same = canonical(before.text) == canonical(decision.text)
        else:
            same = before == recorded_form(decision)
    if not same:
        raise AlreadyDecided(f"the call {item_id!r} was decided already: {before!r}; that decision stands")


def _was_decided(journal: LocalJournal, item_id: str, decision: Decision) -> bool:
    for entry in journal.entries:
        if isinstance(entry, Decided) and entry.id == item_id:
            if not isinstance(decision, Modify):  # of which nothing is masked on record
                decision = decision_of(kept_form(replace(entry, decision=recorded_form(decision)), journal).decision)
            _check_decided(item_id, decision_of(entry.decision), decision)
            return True
    return False


def decision_entries(
    journal: LocalJournal, decisions: Mapping[str, Decision], now: float, agent: object, *, in_time: bool = False
) -> list[Decided]:
    """Return the entries that record decisions; one that is late is a denial, or with `in_time` is refused."""
    pending = {item.id: item for item in recorded_items(journal)}
    entries: list[Decided] = []
    for item_id, decision in decisions.items():
        item = pending.get(item_id)
        if item is None and _was_decided(journal, item_id, decision):
            continue
        if item is None:
            waiting = ", ".join(f"{each.id} for {each.call.name}" for each in pending.values()) or "nothing"
            raise ConfigurationError(
                f"no call with the id {item_id!r} waits for a decision (waiting: {waiting}); the ids are those of "
                "run.pending: {item.id: Approve() for item in run.pending}"
            )
        if not item.needs_decision:
            raise ConfigurationError(
                f"{item.path} waits by itself ({item.reason}): there is nothing to decide; an event is sent with send()"
            )
        late = expired(item, now)
        if in_time and late is not None:
            raise AlreadyDecided(f"the decision on {item.path} comes too late to count: {late!r} stands")
        wrong = None if late is not None else misfit_of(agent, item, decision)
        if wrong is not None:  # it would fail only after it was recorded, when it can no longer be changed
            what = f"the answer to {item.reason!r}" if item.stage == "question" else f"the decision on {item.call.name}"
            waits = "question" if item.stage == "question" else "call"
            raise ConfigurationError(f"{what} does not fit: {wrong}; nothing was recorded, and the {waits} still waits")
        decision = late or recorded_form(decision)
        entry = kept_form(Decided(item.path, item_id, decision), journal)
        if isinstance(decision, (Modify, Answer)) and decision_of(entry.decision) != decision:
            raise ConfigurationError(
                f"the decision on {item.call.name} cannot be carried out: a middleware masks its values on record; "
                "nothing was recorded, and the call still waits: decide without them, or let an approver in the "
                "process of the run decide"
            )
        entries.append(entry)
    return entries


async def post_decided(inbox: Inbox, decided: Sequence[Decided], now: float) -> list[Decided]:
    """Post decisions to the inbox of a run, which keeps the first one on each wait; if one is refused, none stands."""
    posted: list[Decided] = []
    try:
        for entry in decided:
            decision = decision_of(entry.decision)
            stands, number = await inbox.post_decision(entry.id, decision, now)
            _check_decided(entry.id, stands, decision)
            posted.append(replace(entry, posted=number))
    except ZigguratError:
        await inbox.withdraw()
        raise
    return posted


async def hold_posted(journal: LocalJournal, inbox: Inbox, now: float, agent: object) -> None:
    """Take in what was posted to a run that is continued; decisions are recorded together with what follows."""
    await inbox.read()
    for number, posted in inbox.take_decisions().items():
        try:
            for entry in decision_entries(journal, posted.decisions, posted.at or now, agent, in_time=True):
                journal.hold(replace(entry, posted=number))
        except ZigguratError as error:  # it fitted when it was sent
            inbox.spoil(number)
            logger.warning("the decisions that were posted as number %d are not used: %s", number, error)
