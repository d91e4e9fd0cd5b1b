"""The runs that answer requests of user interfaces: started, continued with answers, and told as streams of events."""

import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from typing import Any

from msgspec.structs import replace
from starlette.requests import Request

from ziggurat.agents.runnable import Runnable
from ziggurat.core import errors
from ziggurat.core.codec import encode
from ziggurat.core.path import next_id, parent_of
from ziggurat.journal.entries import Decided, Ended, JournalEntry
from ziggurat.messages.agent import Decision, PendingItem
from ziggurat.messages.model import ModelRequest
from ziggurat.runs.runs import runs_of
from ziggurat.serve import narration
from ziggurat.serve.decisions import asked_items, decision_of_answer
from ziggurat.serve.openai.client_request import with_client
from ziggurat.serve.requests import check_id
from ziggurat.serve.served import ServedAgents


async def start_run(
    agents: ServedAgents, name: str, content: ModelRequest, run_id: str, labels: Mapping[str, object]
) -> narration.ToldRun:
    """Start a run that answers a conversation; if the same one is in progress or has ended, return that."""
    agents.admit()
    agent = with_client(agents.agent(name), content)
    if not content.messages:
        raise errors.ConfigurationError("messages: there is no message to answer")
    with suppress(*errors.IN_PROGRESS):  # the run is followed
        run = partial(agent.run, history=content.messages, run_id=check_id(run_id), labels=labels)
        await agents.drive(agent, run_id, run)
    return narration.ToldRun(run_id, agent, failures=agents.failures)


async def continue_run(
    agents: ServedAgents, name: str, run_id: str, answers: Mapping[str, Any], content: ModelRequest | None = None
) -> narration.ToldRun:
    """Go on with a run by answers to what waits, or to the calls around it; the same request again has no effect."""
    agents.admit()
    agent, info = await agents.agent_of(check_id(run_id))
    if info.agent != name:
        raise errors.RunNotFound(f"there is no run {run_id!r} of the agent {name!r:.100}")
    before = 0
    for part, entries in await records_of(agent, run_id):
        decisions = _decisions(part, asked_items(entries), answers)
        if decisions:
            break
        before += len(entries)
    else:
        raise errors.ConfigurationError(f"the run {run_id} has nothing that waits and is answered here")
    decided = {entry.id: number for number, entry in enumerate(entries, 1) if isinstance(entry, Decided)}
    last = max(decided.get(each, len(entries)) for each in decisions)
    client = agent if content is None else with_client(agent, replace(content, instructions=None))
    with suppress(*errors.IN_PROGRESS):  # the run is followed
        await agents.drive(client, part, partial(client.run, run_id=part, decisions=decisions))
    return narration.ToldRun(run_id, agent, before + _suspended(entries[:last]), failures=agents.failures)


def _decisions(run_id: str, items: Mapping[str, PendingItem], answers: Mapping[str, Any]) -> dict[str, Decision]:
    decisions: dict[str, Decision] = {}
    for item in items.values():
        about = (item.id, narration.call_id(run_id, item.path), narration.call_id(run_id, parent_of(item.path)))
        key = next((each for each in about if each in answers), None)
        if key is not None:
            decisions[item.id] = decision_of_answer(item, answers[key])
    return decisions


async def records_of(agent: Runnable[Any], run_id: str) -> list[tuple[str, Sequence[JournalEntry]]]:
    """Return the record of a run, and those of the runs as which it has continued as new, with their ids."""
    records: list[tuple[str, Sequence[JournalEntry]]] = []
    newest = await runs_of(agent.store).newest(run_id)
    while not records or (newest is not None and records[-1][0] != newest.id):
        each = next_id(records[-1][0]) if records else run_id
        records.append((each, (await runs_of(agent.store).read(each)).entries))
    return records


async def whole_run(agent: Runnable[Any], run_id: str, failures: dict[str, str]) -> narration.ToldRun:
    """Return a run, to be told from its beginning to the next end or wait."""
    entries = [entry for _, each in await records_of(agent, run_id) for entry in each]
    return narration.ToldRun(run_id, agent, 0, _suspended(entries[:-1]), failures=failures)


def _suspended(entries: Sequence[JournalEntry]) -> int:
    ends = (number for number, entry in enumerate(entries, 1) if isinstance(entry, Ended) and entry.stop == "Suspended")
    return max(ends, default=0)


_PLACE = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")

Place = tuple[int, int, int]
"""Where an event stands: the entry of the record before it, what was told since, and its index in that."""

Encode = Callable[[narration.Tale], Iterable[object]]  # returns what is told as the events of a protocol


async def frames(
    run: narration.ToldRun, encode_tale: Encode, after: Place | None, start: Iterable[object] = (), end: bytes = b""
) -> AsyncGenerator[bytes, None]:
    if after is None:
        for event in start:
            yield _frame((run.after, 0, 0), event)
    async with aclosing(run.told()) as told:
        async for each in told:
            what = each.what
            if after is not None and isinstance(what, narration.Piece) and each.number == after[0]:
                known = after[1] - (each.units - len(what.text))
                what = replace(what, text=what.text[known:]) if 0 < known < len(what.text) else what
            for index, event in enumerate(encode_tale(what)):
                place = (each.number, each.units, index)
                if after is None or place > after:
                    yield _frame(place, event)
    if end:
        yield end


def _frame(place: Place, event: object) -> bytes:
    return b"id: %d.%d.%d\ndata: %b\n\n" % (*place, encode(event))


def read_place(request: Request) -> Place | None:
    text = request.headers.get("last-event-id") or request.query_params.get("after")
    if text is None:
        return None
    match = _PLACE.fullmatch(text)
    if match is None:
        raise errors.ConfigurationError(f"the id of an event here is such as 3.14.0, got {text!r:.50}")
    return int(match[1]), int(match[2]), int(match[3])
