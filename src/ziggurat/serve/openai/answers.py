"""How the run of an answer has ended: with the answer, waiting for something, or without any."""

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, RunNotFound
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun, PendingItem
from ziggurat.messages.message import ToolCallDelta
from ziggurat.messages.model import FinishReason
from ziggurat.messages.usage import Usage, tally_of
from ziggurat.serve.narration import error_of
from ziggurat.serve.openai.client_request import client_calls
from ziggurat.serve.openai.speech import Say, Speech
from ziggurat.serve.requests import check_id
from ziggurat.wires.types import ApprovalRequest

_PREFIX = "resp_"

_ITEM = re.compile(r"(?:msg|rs|fc|mcp)_(.+)_\d+")


class ResponseId(Struct, frozen=True):
    run_id: str
    after: int = 0

    @classmethod
    def read(cls, text: str) -> "ResponseId":
        run_id, mark, after = text.removeprefix(_PREFIX).partition("~")
        check_id(run_id)
        if mark and not (after.isascii() and after.isdigit() and len(after) < 10):
            raise ConfigurationError(f"the id of a response is {_PREFIX} and the id of a run, got {text!r:.150}")
        return cls(run_id, int(after or 0))

    @classmethod
    def of_item(cls, item_id: str) -> "ResponseId | None":
        match = _ITEM.fullmatch(item_id)
        try:
            return None if match is None else cls.read(match[1])
        except ConfigurationError:
            return None

    @property
    def suffix(self) -> str:
        return f"{self.run_id}~{self.after}" if self.after else self.run_id

    def __str__(self) -> str:
        return _PREFIX + self.suffix


_FIGURES = ("input", "output", "cache_read", "cache_write", "reasoning")


def used_since(usage: Usage, before: Usage) -> Usage:
    known = {name: figure for name in _FIGURES if (figure := getattr(usage, name)) is not None}
    more = {name: figure - (getattr(before, name) or 0) for name, figure in known.items()}
    return replace(usage, **more, requests=usage.requests - before.requests, model="")


_CALL_ID = re.compile(r"call_(.+)_([0-9a-f]{16})")

_REFUSED: dict[type[stops.Stop], int] = {
    stops.Failed: 500,
    stops.TimedOut: 504,
    stops.BudgetExceeded: 403,
    stops.ModelCallDenied: 403,
    stops.Cancelled: 409,
}


class Answered(Struct, frozen=True):
    """How an answer has ended, of which all pieces were said."""

    run_id: str
    finish: FinishReason
    usage: Usage


class NotAnswered(Exception):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status: int = status


async def answer_recorded(agent: Runnable[Any], response_id: ResponseId, say: Say, page: str) -> Answered:
    """Say a response whose run is on record, and has ended or waits, as it was said when it was given."""
    run_id, after = response_id.run_id, response_id.after
    lines = (await agent.record(run_id)).splitlines(keepends=True)
    if after > len(lines):
        raise RunNotFound(f"there is no response {response_id}")
    speech = Speech(say, after)
    await speech.follow(agent, run_id)
    answered = await conclude(await agent.attach(run_id).result(), speech, page)
    before = tally_of(LocalJournal.load(b"".join(lines[:after]))).usage
    return replace(answered, usage=used_since(answered.usage, before))


async def conclude(run: AgentRun, speech: Speech, page: str) -> Answered:
    """Return how a run has ended, of which all was said; of one that waits, say for what."""
    if run.pending:
        return await _wait(run, speech, page)
    status = _REFUSED.get(type(run.stop))
    if status is not None:
        raise NotAnswered(status, error_of(run) or f"the run ended: {stops.status_of(run.stop)}")
    return Answered(run.id, _finish(run.stop), run.usage)


async def _wait(run: AgentRun, speech: Speech, page: str) -> Answered:
    calls = client_calls(run.pending)
    for index, (item_id, call) in enumerate(calls.items()):
        text = encode(call.arguments).decode()
        await speech.say(ToolCallDelta(index, text, call_id(run.id, item_id), call.call))
    if not calls:
        where = f" at {page}#/runs/{run.id}" if page else f"; its id is {run.id}"
        await speech.end(f"The run waits for a decision on {waits_of(run.pending)}{where}")
    for item in run.pending:
        if is_approvable(item):
            await speech.say(ApprovalRequest(item.id, item.call.name, item.call.arguments, run.agent))
    return Answered(run.id, "tool_calls" if calls else "stop", run.usage)


def waits_of(pending: Iterable[PendingItem]) -> str:
    return ", ".join(item.call.name if item.stage == "tool" else item.reason or item.stage for item in pending)


def is_approvable(item: PendingItem) -> bool:
    return item.stage in ("tool", "model") and not item.interrupted


def _finish(stop: stops.Stop) -> FinishReason:
    match stop:
        case stops.Incomplete("length" | "content_filter" | "refusal" as finish):
            return finish
        case stops.MaxSteps():
            return "length"
    return "stop"


def call_id(run_id: str, item_id: str) -> str:
    return f"call_{run_id}_{item_id[:16]}"


def run_of_call(call_id: str) -> str | None:
    """Return the run that waits for the result of a call with this id; None if it is of no such form."""
    match = _CALL_ID.fullmatch(call_id)
    return match[1] if match else None
