"""The agent that reads a context: its steps within a session, and its answer."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from ziggurat.agents.agent import Agent
from ziggurat.agents.output import AnswerReader
from ziggurat.agents.runnable import Runnable
from ziggurat.agents.stop import BasePolicy, Progress
from ziggurat.calls.enter import AgentService, enter
from ziggurat.code.session import SESSION, Sessions, SessionTool, answer_in
from ziggurat.core.context import Context
from ziggurat.core.service import Layered
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.message import user
from ziggurat.messages.model import Model
from ziggurat.models.resolving import resolve
from ziggurat.sandbox.sandbox import Sandbox
from ziggurat.tools.toolbox import Toolbox

_INSTRUCTIONS = """\
Answer the question of the user about a context that is too long to be read at once. It is a variable of a Python
session, to which you have access by the tool run_code. Work in small steps: look at the beginning and the structure
first, search and split it by code, and pass parts of it to llm_query where their meaning matters, many of them with
llm_query_batched. Print only what you need to see. Keep results in variables rather than to copy them. When you have
checked the answer, give it, or pass it to submit(answer) in the program if it is long or exact."""

_WITHOUT = """\
Do the task of the user by programs in a Python session, to which you have access by the tool run_code. Print only what
you need to see, keep results in variables, and pass texts to llm_query where their meaning matters. When you have the
answer, give it, or pass it to submit(answer) in the program."""

_EXTRACT = "There is no time left for another program. Give the answer now, from what you have seen."


def reading(
    model: str | Model,
    box: Toolbox,
    variables: Mapping[str, Any],
    sandbox: Sandbox,
    max_steps: int,
    output: Any,
    arguments: Mapping[str, Any],
) -> Runnable[Any]:
    """Return the agent whose programs run in a sandbox with tools and variables; `arguments` are those of an agent."""
    service = resolve(model)
    answers = None if output is None else AnswerReader.of(output, service)
    programs = SessionTool(box, variables, sandbox, answers)
    named = {"name": "reader", "instructions": _INSTRUCTIONS if variables else _WITHOUT, **arguments}
    agent = Agent(
        service, tools=[programs], output=output, stop=_Submitted(programs.name), max_steps=max_steps, **named
    )
    extractor = Agent(service, name="extract", output=output, settings=arguments.get("settings"))
    return agent.layered(lambda inner: Layered(partial(_run, programs, extractor), "recursive", inner))


async def _run(
    programs: SessionTool, extractor: AgentService, request: AgentRequest, ctx: Context, inner: AgentService
) -> AgentRun:
    """Run the agent with a session of its own, and take its answer."""
    session = Sessions(programs, ctx)
    try:
        run = await inner(request, ctx.within(SESSION, session))
    finally:
        await session.close()
    if isinstance(run.stop, stops.ToolCalled) and run.stop.name == programs.name:
        given = next(filter(None, map(answer_in, run.history[-1].tool_results)), "null")
        answer = programs.read(given)
        return replace(run, output=answer.value, _accepted=answer.accepted)
    if not isinstance(run.stop, stops.MaxSteps):
        return run
    question = AgentRequest((*run.messages, user(_EXTRACT)))
    last = await enter(extractor, question, ctx.under("extract"))
    stop = stops.StopCondition(f"the answer was asked for after {run.stop.limit} steps")
    return replace(run, output=last._output, messages=last.messages, stop=stop, _accepted=last._accepted)


class _Submitted(BasePolicy):
    """Stops after a program that has given the answer."""

    def __init__(self, name: str) -> None:
        self.tools = (name,)

    def on_step(self, progress: Progress) -> stops.Stop | None:
        name = self.tools[0]
        given = any(each.name == name and answer_in(each) is not None for each in progress.results)
        return stops.ToolCalled(name) if given else None
