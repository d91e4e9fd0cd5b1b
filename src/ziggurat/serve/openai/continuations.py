"""Which run a request of a client goes on with: one that waits for results of the client's tools, or for approvals."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import AlreadyDecided, ConfigurationError, RunNotFound
from ziggurat.journal.entries import Decided
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import run_log
from ziggurat.messages.agent import Answer, Approve, Decision, Deny, recorded_items
from ziggurat.messages.message import Message, ToolResult
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.usage import Usage, tally_of
from ziggurat.runs.runs import runs_of
from ziggurat.serve.openai.answers import NotAnswered, call_id, is_approvable, run_of_call
from ziggurat.serve.openai.client_request import client_calls
from ziggurat.wires.types import ApprovalResponse


class Continuation(Struct, frozen=True):
    run_id: str
    after: int
    before: Usage
    decisions: Mapping[str, Decision]
    messages: tuple[Message, ...] = ()


async def find_continuation(
    agent: Runnable[Any], content: ModelRequest, previous: str | None, approvals: Sequence[ApprovalResponse]
) -> Continuation | None:
    results = {result.id: result.text for result in _results(content.messages, everywhere=previous is not None)}
    others = () if previous is None else tuple(each for each in content.messages if each.role != "tool")
    if approvals:
        if previous is None:
            raise ConfigurationError("an mcp_approval_response needs previous_response_id, or the items before it")
        run_id, journal = previous, await _record_of(agent, previous)
        decisions = {**_answers(run_id, results, journal), **_decisions(approvals, journal)}
    else:
        run_ids = {run_of_call(each) or "" for each in results}
        run_id = run_ids.pop() if len(run_ids) == 1 else ""
        if not run_id or not await _waits(agent, run_id):
            return None
        journal = await runs_of(agent.store).read(run_id)
        decisions = _answers(run_id, results, journal)
        if not decisions:
            return None
    return Continuation(run_id, len(journal.entries), tally_of(journal).usage, decisions, others)


async def _waits(agent: Runnable[Any], run_id: str) -> bool:
    info = await agent.store.find(run_log(run_id))
    return info is not None and (info.agent, info.status) == (agent.name, "Suspended")


async def _record_of(agent: Runnable[Any], run_id: str) -> LocalJournal:
    info = await agent.store.find(run_log(run_id))
    if info is None:
        raise RunNotFound(f"there is no response of the run {run_id!r:.150}")
    if info.agent != agent.name:
        raise ConfigurationError(f"the run {run_id} is of the agent {info.agent}: name it as the model")
    return await runs_of(agent.store).read(run_id)


def _answers(run_id: str, results: Mapping[str, str], journal: LocalJournal) -> dict[str, Decision]:
    names = {call_id(run_id, item): item for item in client_calls(recorded_items(journal))}
    return {names[name]: Answer(text) for name, text in results.items() if name in names}


def _decisions(approvals: Sequence[ApprovalResponse], journal: LocalJournal) -> dict[str, Decision]:
    decisions: dict[str, Decision] = {}
    for each in approvals:
        _check_waits(each.id, journal)
        if each.id in decisions:
            raise ConfigurationError(f"approval_request_id: {each.id!r:.150} is there twice")
        decisions[each.id] = Approve() if each.approve else Deny(each.reason or "denied")
    return decisions


def _check_waits(item_id: str, journal: LocalJournal) -> None:
    if any(isinstance(entry, Decided) and entry.id == item_id for entry in journal.entries):
        raise AlreadyDecided(f"approval_request_id: {item_id!r:.150} was decided already; that decision stands")
    items = {item.id: item for item in recorded_items(journal)}
    if item_id not in items:
        waiting = ", ".join(name for name, item in items.items() if is_approvable(item)) or "none"
        raise ConfigurationError(f"approval_request_id: no request {item_id!r:.150} waits (that do: {waiting})")
    if journal.ended is not None and journal.ended.stop != "Suspended":
        raise NotAnswered(409, f"the run has ended ({journal.ended.stop}), and waits for no approval any more")
    if not is_approvable(items[item_id]):
        raise ConfigurationError(f"approval_request_id: {item_id!r:.150} is no call to approve; decide on the page")


def _results(messages: Sequence[Message], *, everywhere: bool) -> Iterator[ToolResult]:
    for message in reversed(messages):
        if message.role != "tool" and not everywhere:
            break
        yield from message.tool_results
