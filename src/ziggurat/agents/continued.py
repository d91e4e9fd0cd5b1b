"""An agent that goes on with the conversation that it had when its caller called it as a tool before."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from ziggurat.agents.tool_input import ToolInput
from ziggurat.calls.enter import AgentService, recorded_answer
from ziggurat.core.codec import as_type
from ziggurat.core.context import Context
from ziggurat.core.errors import InvalidArguments
from ziggurat.core.path import step_of
from ziggurat.core.service import Layered
from ziggurat.journal.journal import journal_of
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message, ToolCall, assistant, taint_of, user


def continued(agent: AgentService, name: str, read: ToolInput, ctx: Context) -> AgentService:
    # Only calls of earlier steps count: so a resumed run finds the same, and calls of one reply do not see each other.
    caller, step, _ = step_of(ctx.path)
    if not step:
        return agent  # called outside of an agent
    place = ctx.path[len(f"{caller}/step-{step}/") :].partition(":")[2]
    earlier = (*_of_earlier_runs(caller, name, read, ctx), *_of_this_run(agent, caller, step, place, ctx))
    return Layered(partial(_answer_after, earlier), "continued", agent) if earlier else agent


def _of_earlier_runs(caller: str, name: str, read: ToolInput, ctx: Context) -> Iterator[Message]:
    record = journal_of(ctx).find(caller)
    entered = None if record is None else record.entered
    calls: dict[str, ToolCall] = {}
    for message in () if entered is None else as_type(entered.request, AgentRequest).messages:
        calls |= {call.id: call for call in message.tool_calls if call.name == name}
        for result in message.tool_results:
            call = calls.pop(result.id, None)
            if call is not None and result.error is None:
                with suppress(InvalidArguments):  # its input was changed, or another tool had this name
                    yield user(read.prompt(read.normal(call.arguments)))
                    yield replace(assistant(result.text), taint=taint_of((message,)))


def _of_this_run(agent: AgentService, caller: str, step: int, place: str, ctx: Context) -> Iterator[Message]:
    journal = journal_of(ctx)
    pattern = re.compile(rf"{re.escape(caller)}/step-(\d+)/tool-(\d+):{re.escape(place)}")
    calls = [(int(found[1]), int(found[2]), found[0]) for found in map(pattern.fullmatch, journal.paths()) if found]
    for number, _, path in sorted(calls):
        run = recorded_answer(agent, journal.find(path)) if number < step else None
        if run is not None:
            yield from run.messages


async def _answer_after(
    earlier: tuple[Message, ...], request: AgentRequest, ctx: Context, inner: AgentService
) -> AgentRun:
    """Answer after earlier messages; the run has its own ones only, so that no message is recorded twice."""
    run = await inner(AgentRequest((*earlier, *request.messages)), ctx)
    own = Transcript.of(*run.history[len(earlier) :])
    return replace(run, messages=own, start=max(0, run.start - len(earlier)), past=None)
