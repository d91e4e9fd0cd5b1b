"""How the tasks of a plan are prepared when it is made, and done when it runs."""

from collections.abc import Callable, Coroutine, Mapping
from inspect import Parameter, signature
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.agent_call import program_at
from ziggurat.calls.step import Step, step
from ziggurat.calls.tool_call import call_tools
from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.service import stack
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.message import ToolCall
from ziggurat.plans.nodes import Place, PlanResult, Task
from ziggurat.plans.variables import Variables, fill
from ziggurat.tools.permissions import GRANTS
from ziggurat.tools.toolbox import Toolbox

Work = Callable[[Variables, Context], Coroutine[Any, Any, Any]]
"""Does a task for some variables and returns its output; the context is that of the plan or group around it."""


def work_of(place: Place, agent: Runnable[Any] | None) -> Work:
    task = place.node
    assert isinstance(task, Task)
    if task.function is not None:
        return _call_of_function(task, task.function, place.name)
    if task.tool is not None:
        return _call_of_tool(task, task.tool, place.name)
    asks = task.agent or agent
    if asks is None:
        raise ConfigurationError(
            f"the task {task.name!r} has a prompt, but no agent: pass agent= to it, or to the whole plan"
        )
    return _call_of_agent(task, asks.layered(*task.layers) if task.layers else asks, place.name)


def _call_of_function(task: Task, function: Any, name: str) -> Work:
    if isinstance(function, Step):
        if task.layers or task.effect != "repeatable":
            raise ConfigurationError(
                f"the function of the task {task.name!r} is a step: pass layers and effect to step"
            )
        called: Step[..., Any] = function.named(name)
    else:
        parameters = [*signature(function).parameters.values()]
        takes_context = bool(parameters) and parameters[0].annotation in (Context, "Context")
        called = step(name=task.name, effect=task.effect, layers=[*task.layers], context=takes_context)(function)  # type: ignore[call-overload]
        called = called if task.effect == "once" else called.as_composite()
        called = called if name == task.name else called.named(name)
    _ = called.returns  # an annotation that cannot be read is reported now
    read = _arguments_by_name(task, called) if task.arguments is None else None

    async def work(variables: Variables, ctx: Context) -> Any:
        arguments = fill(task.arguments, variables, task.name) if read is None else read(variables)
        return await called(**arguments)

    return work


def _arguments_by_name(task: Task, called: "Step[..., Any]") -> Callable[[Variables], Mapping[str, Any]]:
    parameters = called.signature.parameters.values()
    names = [each.name for each in parameters]
    required = [each.name for each in parameters if each.default is Parameter.empty]

    def read(variables: Variables) -> Mapping[str, Any]:
        try:
            for name in required:
                variables[name]
        except KeyError as error:
            raise InvalidArguments(
                f"{task.name} takes the variable {error}, which has no value there; there are: "
                f"{', '.join(variables) or 'none'}. Pass it in arguments= of the task or variables= of the plan"
            ) from None
        return {name: variables[name] for name in names if name in variables}

    return read


def _call_of_tool(task: Task, tool: Any, name: str) -> Work:
    box = Toolbox([stack(tool, *task.layers) if task.layers else tool], on_error="raise")
    (spec,) = box.specs
    permissions = frozenset(spec.permissions)

    async def work(variables: Variables, ctx: Context) -> str:
        arguments = encode(fill(dict(task.arguments or {}), variables, task.name)).decode()
        if permissions and ctx.scope.get(GRANTS) is None:  # as an agent without grants: exactly what it declares
            ctx = ctx.within(GRANTS, permissions)
        (result,) = await call_tools(box, (ToolCall(name, spec.name, arguments),), ctx, name)
        return result.text

    return work


def _call_of_agent(task: Task, agent: Runnable[Any], name: str) -> Work:
    async def work(variables: Variables, ctx: Context) -> Any:
        question = fill(task.prompt if task.prompt is not None else "", variables, task.name)
        with program_at(ctx.at(name)):
            run = await agent.run(question)
        return output_of(run)

    return work


def output_of(run: AgentRun) -> Any:
    if not run.is_reusable:
        raise stops.error_of(run.stop)
    answer = run._answer
    return answer.output if isinstance(answer, PlanResult) else answer
