"""Drive a run if a gate admits it, such as that of a Runtime; otherwise nothing is opened or written."""

from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from ziggurat.calls.enter import AgentService
from ziggurat.core.context import Context
from ziggurat.core.errors import LimitExceeded
from ziggurat.core.failures import Cause
from ziggurat.core.stopwatch import Stopwatch
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, empty_run
from ziggurat.runs.opener import Opener
from ziggurat.runs.options import RunOptions, root_context


async def drive_gated(
    gate: Callable[[AgentService], AgentService],
    driving: Coroutine[Any, Any, AgentRun],
    opener: Opener,
    request: AgentRequest | None,
    options: RunOptions,
    *,
    raises: bool,
) -> AgentRun:
    """Drive a run inside its gate, or return it as refused; one that has ended is answered without asking.

    The gate comes before the session and the store: a run that waited for either would not be refused at once.
    """
    if await opener.has_ended(options.run_id):
        return await driving
    began = False

    async def inside(request: AgentRequest, ctx: Context) -> AgentRun:
        nonlocal began
        began = True
        return await driving

    request = request or AgentRequest(())
    try:
        ctx = root_context(opener.path, options.scope(), options, Stopwatch(options.clock))
        return await gate(inside)(request, ctx)
    except LimitExceeded as refusal:
        if began or raises:
            raise
        control = options.control
        run_id = options.run_id or (options.environment.ids() if control is None else control.run_id)
        session = "" if options.session is None else options.session.id
        run = empty_run(opener.name, request, stops.stop_of(refusal), run_id)
        return replace(run, session=session, cause=Cause.of(refusal))
    finally:
        driving.close()  # Python would warn of a coroutine that was never awaited
