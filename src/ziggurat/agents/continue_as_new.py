"""Continue as new: a flow that goes on for ever ends its record, and the next run begins with an input."""

from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

from msgspec.structs import replace

from ziggurat.calls.agent_call import INBOX, Places, inbox_of, place_of
from ziggurat.core.codec import SHAPE_VERSION, digest
from ziggurat.core.context import AMBIENT, JOURNAL, Context
from ziggurat.core.errors import ConfigurationError, RunExists
from ziggurat.core.log import logger
from ziggurat.core.path import check_new_id, next_id
from ziggurat.journal.entries import Opened
from ziggurat.journal.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.message import Message
from ziggurat.messages.posted import PostedEvent, read_posted
from ziggurat.messages.prompts import request_of
from ziggurat.runs.runs import Runs, conditions_of


class ContinueAsNew(BaseException):
    def __init__(self, value: object) -> None:
        super().__init__("the flow continues as new")
        self.value = value

    async def begin(self, ctx: Context, prompt: Callable[[object], str | Message | None]) -> stops.Continued:
        if INBOX in ctx.scope:  # else this is a replay
            await _begin(request_of(prompt(self.value)), ctx)
        return stops.Continued(next_id(ctx.run_id))


def continue_as_new(value: Any = None) -> Coroutine[Any, Any, NoReturn]:
    """End this run of a flow, and begin its next one with another input: a record that grows for weeks becomes slow.

    ::

        for _ in range(1000):
            state = await handle(state, await event("reading", Reading))
        await continue_as_new(state)

    The next run has the same labels and grants, and the id of this one with a number, such as ``watch-7~2``. Events
    that nothing has taken are its first ones, and `send` to this run sends to it from now on; decisions that nothing
    has taken are dropped, with a warning. It is due at once: the handle of `start` drives it, a worker or
    `recover`, or ``resume(run.stop.run_id)``. This run stops with `Continued`, and its handles go on with the next one.
    If its process is lost here, it does all this once.

    Raises:
        ConfigurationError: this is not the function of a run's outermost flow, the run is part of a session, or the
            input is not of the flow's type.
    """
    ambient = AMBIENT.get()
    if ambient is None or JOURNAL not in ambient.scope or "/" in ambient.path or ambient.charges is not None:
        at = "here is none" if ambient is None else f"this is {ambient.path}"
        raise ConfigurationError(f"continue_as_new() belongs into the function of a run's outermost flow; {at}")
    place_of(ambient, "continue_as_new")  # not in a task of its own, nor after a call that was given up
    places = ambient.state(Places, Places)
    # Raised at once, so that it does the same where it is not awaited; a function that catches it cannot go on.
    places.left = ContinueAsNew(value)
    raise places.left


async def _begin(request: AgentRequest, ctx: Context) -> None:
    """Begin the run that continues this one, unless it has begun, and pass on to it what nothing has taken."""
    journal, inbox = journal_of(ctx), inbox_of(ctx)
    opened, runs = journal.entries[0], inbox.runs
    conditions = conditions_of(opened)
    assert isinstance(opened, Opened)
    assert isinstance(runs, Runs)
    if conditions.session:
        raise ConfigurationError(f"the run {ctx.run_id} is part of a session, so it cannot continue as new")
    run_id, terms = next_id(ctx.run_id), None if conditions.grants is None else conditions
    check_new_id(run_id, "the id of the next run")
    begun = journal.screened(
        replace(
            opened, run_id=run_id, version=SHAPE_VERSION, at=ctx.clock.now(), request=request, forked=None, terms=terms
        )
    )
    # Once there is a next run, a sender reads here what this one has taken.
    if (settled := journal.settled(flush=True)) is not None:
        await settled
    try:
        await runs.plant(run_id, opened.agent, [begun], fingerprint=digest(request), due=0.0)
    except RunExists:
        info = await runs.find(run_id)
        if info is None or (info.agent, info.request) != (opened.agent, digest(request)):
            raise
    for item in await inbox.untaken():
        posted = read_posted(item.data)
        if isinstance(posted, PostedEvent):
            await runs.post(run_id, item.key, item.data)
        else:
            logger.warning("%s that was posted to the run %s is dropped", type(posted).__name__, ctx.run_id)
