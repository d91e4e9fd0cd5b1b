"""Recursive language models: an agent that reads a context of any length by programs, which ask models about its parts.

Zhang, Kraska and Khattab, "Recursive Language Models" (2025).
"""

import typing
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Annotated, Any, Unpack

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.agents.agent import Agent
from ziggurat.agents.as_tool import AgentTool
from ziggurat.agents.inherited import InheritedArguments
from ziggurat.agents.output import AnswerReader
from ziggurat.agents.runnable import Runnable
from ziggurat.agents.stop import BasePolicy, Progress
from ziggurat.calls.enter import AgentService, enter
from ziggurat.code import session
from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.core.service import Layered
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.journal.store import Store
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, Out
from ziggurat.messages.message import user
from ziggurat.messages.model import Model, ModelSettings
from ziggurat.messages.usage import Budget
from ziggurat.models.resolving import resolve
from ziggurat.sandbox.sandbox import Sandbox
from ziggurat.tools.entry import Tool
from ziggurat.tools.function import tool
from ziggurat.tools.toolbox import Toolbox

if typing.TYPE_CHECKING:
    from ziggurat.agents.output import OutputOf

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

_ASKED = "Answer a question about a text, both in one text."


class ReaderArguments(InheritedArguments, total=False):
    """The arguments of `recursive_agent` that are those of an `Agent`."""

    name: str
    description: str
    settings: ModelSettings | None
    timeout: float | None
    store: str | Store | None


@typing.overload
def recursive_agent(
    model: str | Model,
    context: str | Mapping[str, Any],
    *,
    output: "OutputOf[Out]",
    sub_model: str | Model | None = None,
    tools: Iterable[Tool] = (),
    depth: int = 1,
    queries: int = 50,
    sandbox: Sandbox | None = None,
    max_steps: int = 20,
    **arguments: Unpack[ReaderArguments],
) -> Runnable[Out]: ...
@typing.overload
def recursive_agent(
    model: str | Model,
    context: str | Mapping[str, Any],
    *,
    output: None = None,
    sub_model: str | Model | None = None,
    tools: Iterable[Tool] = (),
    depth: int = 1,
    queries: int = 50,
    sandbox: Sandbox | None = None,
    max_steps: int = 20,
    **arguments: Unpack[ReaderArguments],
) -> Runnable[Any]: ...
@checked
def recursive_agent(
    model: str | Model,
    context: str | Mapping[str, Any],
    *,
    sub_model: str | Model | None = None,
    tools: Annotated[Iterable[Tool], Meta(title="list of functions, tools and agents")] = (),
    depth: PositiveInt = 1,
    queries: PositiveInt = 50,
    sandbox: Sandbox | None = None,
    max_steps: PositiveInt = 20,
    output: Any = None,
    **arguments: Unpack[ReaderArguments],
) -> Runnable[Any]:
    """Return an agent that answers questions about a context of any length: a recursive language model.

    ::

        reader = recursive_agent("openai:gpt-5", Path("book.txt").read_text(), sub_model="openai:gpt-5-mini")
        run = await reader.run("How often does the narrator change his mind?")

    The context is a variable in a sandbox; requests have its length and beginning only. The model writes programs that
    look at it. They may call ``llm_query(text)``, ``llm_query_batched([text, ...])`` with up to eight at a time, whose
    failures are texts that begin with ``[ERROR]``, and the tools. Variables are kept from one program to the next. The
    answer, in ``run.output``, is a text of the model, or what a program passes to ``submit``: text or plain data, or a
    value of the type `output`. One that does not fit is an error of the program, or the model is asked again as by any
    agent. When the steps are used up, the model is asked for the answer once more.

    Each call is recorded. A run that is continued in another process runs its programs again, and their calls are
    answered from the record.

    Args:
        model: Writes the programs.
        context: The text, as the variable `context`, or several variables by name: text, numbers, lists, dicts. With
            none, ``{}``, it is an agent that does a task by programs alone.
        sub_model: Answers `llm_query`; `model` by default.
        tools: What programs may call besides, such as other agents.
        depth: How deep such agents may be nested: from 2 on, programs have ``rlm_query(question, context)``, which
            starts one for a part of the context.
        queries: How many calls of `llm_query`, and as many of `rlm_query`, all programs may make together.
        sandbox: Where programs run; by default with 10,000 characters of output, and memory for the context.
        max_steps: How many programs may be written.
        output: The type of the answer, as for `Agent`.
        arguments: As for an `Agent`, such as `budget` for the cost of all together, `approvals`, and `store`.
    """
    variables = {"context": context} if isinstance(context, str) else dict(context)
    if not all(name.isidentifier() for name in variables):
        raise ConfigurationError("a context is a text, or variables by names such as {'book': text}")
    limited = ("llm_query",) if depth == 1 else ("llm_query", "rlm_query")
    limits, budget = dict.fromkeys(limited, queries), arguments.get("budget")
    arguments["budget"] = Budget(tools=limits) if budget is None else replace(budget, tools={**limits, **budget.tools})
    given = tuple(tools)

    def at_depth(
        depth: int, variables: Mapping[str, Any], arguments: ReaderArguments, output: Any = None
    ) -> Runnable[Any]:
        """Return the agent whose programs may start others as deep; the limits of the first hold for all of these."""
        asked = Agent(model if sub_model is None else sub_model, name="sub_model", description=_ASKED)
        functions: list[Tool] = [AgentTool(asked, name="llm_query"), *given]
        if depth > 1:

            @tool
            async def rlm_query(question: str, context: str) -> str:
                """Have a question answered about a part of the context that is too long for llm_query."""
                run = await at_depth(depth - 1, {"context": context}, {}).run(question)
                if not run.is_reusable:
                    raise ToolError(f"it stopped before it had an answer ({stops.status_of(run.stop)})")
                return run.output if isinstance(run.output, str) else encode(run.output).decode()

            functions.append(rlm_query)
        box = Toolbox(functions, concurrency=8)
        return _reading(model, box, variables, sandbox or _sandbox_for(variables), max_steps, output, arguments)

    return at_depth(depth, variables, arguments, output)


def _sandbox_for(variables: Mapping[str, Any]) -> Sandbox:
    size = sum(len(value) if isinstance(value, str) else 10**6 for value in variables.values())
    return Sandbox(seconds=30, output=10_000, memory=64 * 2**20 + 8 * size)


def _reading(
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
    programs = session.SessionTool(box, variables, sandbox, answers)
    named = {"name": "reader", "instructions": _INSTRUCTIONS if variables else _WITHOUT, **arguments}
    agent = Agent(
        service, tools=[programs], output=output, stop=_Submitted(programs.name), max_steps=max_steps, **named
    )
    extractor = Agent(service, name="extract", output=output, settings=arguments.get("settings"))
    return agent.layered(lambda inner: Layered(partial(_run, programs, extractor), "recursive", inner))


async def _run(
    programs: session.SessionTool, extractor: AgentService, request: AgentRequest, ctx: Context, inner: AgentService
) -> AgentRun:
    sessions = session.Sessions(programs, ctx)
    try:
        run = await inner(request, ctx.within(session.SESSION, sessions))
    finally:
        await sessions.close()
    if isinstance(run.stop, stops.ToolCalled) and run.stop.name == programs.name:
        given = next(filter(None, map(session.answer_in, run.history[-1].tool_results)), "null")
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
        given = any(each.name == name and session.answer_in(each) is not None for each in progress.results)
        return stops.ToolCalled(name) if given else None
