"""Decisions: whether one fits what waits, the form in which it is recorded, and what follows if none came in time."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from ziggurat.core.codec import decode, encode
from ziggurat.core.errors import InvalidArguments, JournalCorrupt
from ziggurat.core.path import escaped, is_tool_call
from ziggurat.core.service import Fact, fact
from ziggurat.messages.agent import Answer, Approve, Decision, Deny, DidNotHappen, Happened, Modify, PendingItem
from ziggurat.messages.arguments import canonical
from ziggurat.messages.message import ToolCall
from ziggurat.messages.model import ModelRequest
from ziggurat.tools.toolbox import TOOLS, Toolbox
from ziggurat.tools.validator import misfit_of_schema

Normalize = Callable[[ToolCall], ToolCall]
"""Returns a call with the arguments that will be used, as canonical JSON; raises InvalidArguments."""


class Question(Struct, frozen=True, omit_defaults=True):
    question: str
    answer: dict[str, Any]
    default: tuple[Any, ...] = ()
    key: str = ""


def question_of(call: ToolCall) -> Question:
    return decode(call.arguments, Question)


class Awaited(Struct, frozen=True, omit_defaults=True):
    event: str
    value: dict[str, Any]
    default: tuple[Any, ...] = ()


def awaited_in(call: ToolCall) -> Awaited:
    return decode(call.arguments, Awaited)


def shown_time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def expired(item: PendingItem, now: float) -> Decision | None:
    """Return the decision on what has waited too long: the default of a question, or a denial; None if it may wait."""
    if item.until is None or now < item.until or item.stage == "event":
        return None
    if item.stage == "timer":
        return Answer(None)
    default = question_of(item.call).default if item.stage == "question" else ()
    return Answer(default[0]) if default else Deny(f"expired: nobody had decided by {shown_time(item.until)}")


def fitting(item: PendingItem, decision: Decision, normalize: Normalize | None) -> Decision:
    """Return a decision as it is recorded; raises InvalidArguments if it cannot be carried out."""
    wrong: str | None = None
    if isinstance(decision, Deny):
        if not isinstance(decision.reason, str):
            wrong = f"the reason of a denial is text, got {decision.reason!r:.200}"
    elif item.stage in ("question", "event"):
        return _fitting_answer(item, decision)
    elif item.interrupted:
        if not isinstance(decision, (Happened, DidNotHappen)):
            wrong = _UNSETTLED
        elif isinstance(decision, Happened) and not isinstance(decision.result, str):
            wrong = f"the result of a call is text, got {decision.result!r:.200}"
    elif isinstance(decision, Modify):
        decision = Modify(decision.text)
        canonical(decision.text, item.call.name)
        if normalize is not None:
            normalize(ToolCall(item.call.id, item.call.name, decision.text))
    elif not isinstance(decision, Approve):
        wrong = f"a decision is Approve(), Deny(reason) or Modify(arguments); got {decision!r:.200}"
    if wrong is not None:
        raise InvalidArguments(wrong)
    return decision


def as_recorded(answer: Answer) -> Answer:
    return Answer(decode(encode(answer.value), Any))  # with a list for a tuple, and texts as keys


def _fitting_answer(item: PendingItem, decision: Decision) -> Answer:
    if not isinstance(decision, Answer):
        raise InvalidArguments(f"answer with Answer(value) or Deny(reason); got {decision!r:.200}")
    schema = question_of(item.call).answer if item.stage == "question" else awaited_in(item.call).value
    try:
        answer = as_recorded(decision)
    except TypeError as error:
        raise InvalidArguments(f"an answer is plain JSON data: {error}") from error
    wrong = misfit_of_schema(schema, answer.value)
    if wrong is not None:
        raise InvalidArguments(wrong)
    return answer


_UNSETTLED = (
    "the call was interrupted, and it is asked whether it took effect: decide Happened(result), DidNotHappen() to run "
    "it, or Deny(reason) to leave it at that"
)


def normalize_request(call: ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, request_arguments(request_in(call), call.name))


def request_arguments(request: ModelRequest, name: str) -> str:
    return canonical(encode(request).decode(), name)


def request_in(call: ToolCall) -> ModelRequest:
    try:
        return decode(call.arguments, ModelRequest)
    except JournalCorrupt as error:
        raise InvalidArguments(f"that is not a request to {call.name}: {error}") from error


# -- the call at a path ------------------------------------------------------------------------------------------------


MEMBERS: Fact[Mapping[str, object]] = Fact("members", {})
"""The agents of a team by their names, reachable through its layers."""

LENT_TOOLS: Fact[Mapping[str, Toolbox]] = Fact("lent tools", {})
"""The tools that a team gives its agents besides their own, such as those of handing over, by the agents' names."""


def normalize_at(agent: object, path: str) -> Normalize | None:
    """Return how arguments of the call at a path are normalized; None if its tool cannot be found from the agent."""
    # As that of an agent called inside a function: the gate checks the arguments when the call is made.
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
            entry = None if box is None else box.entries.get(called)
            if entry is None and lent is not None:
                entry = lent.entries.get(called)
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
