"""The agent: a model, tools and instructions in a loop."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any, Unpack, overload

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.agents.inherited import InheritedArguments, agent_parts
from ziggurat.agents.loop import AgentLoop
from ziggurat.agents.loop_settings import Instructions, LoopSettings, check_tool_names
from ziggurat.agents.output import AnswerReader, Output
from ziggurat.agents.reply import OutputValidator, final_answer_in
from ziggurat.agents.runnable import Runnable
from ziggurat.agents.steering import STEERABLE, Steerable
from ziggurat.agents.stop import StopPolicy, any_of, steps_allowed
from ziggurat.agents.values import OutputForm
from ziggurat.calls.enter import AGENT
from ziggurat.core.codec import digest
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import EFFECT, Service, name_of
from ziggurat.core.settings import PositiveInt, Seconds, checked
from ziggurat.journal.store import Store
from ziggurat.messages.agent import Out
from ziggurat.messages.middleware import AnyMiddleware
from ziggurat.messages.model import (
    FINAL_ANSWER,
    NO_SETTINGS,
    Model,
    ModelRequest,
    ModelResponse,
    ModelSettings,
    ToolSpec,
)
from ziggurat.messages.usage import Budget
from ziggurat.models.resolving import resolve
from ziggurat.tools.approval import Approvals
from ziggurat.tools.entry import Tool
from ziggurat.tools.permissions import Permissions, known
from ziggurat.tools.toolbox import TOOLS, Toolbox

if TYPE_CHECKING:
    from typing_extensions import TypeForm


class AgentArguments(InheritedArguments, total=False):
    tools: Iterable[Tool | Runnable] | Toolbox
    instructions: Instructions
    name: str
    description: str
    settings: ModelSettings | None
    max_steps: int | None
    stop: StopPolicy | None
    timeout: float | None
    store: str | Store | None


class Agent(Runnable[Out]):
    """Calls a model, runs the tools it asks for, and repeats until the model answers.

    ::

        agent = Agent("demo", tools=[weather], instructions="You are brief.")
        run = agent.run_sync("Rain in Paris tomorrow?")
        print(run.text)

    Args:
        model: A name such as ``"demo"`` or ``"openai:gpt-5-mini"``, or any model service, with or without layers.
        tools: Typed functions, tools, agents, or a `Toolbox`.
        instructions: What the agent should do and be: a string, or a function of the context that returns one.
        name: Its name in paths, and as a tool.
        description: When to call it, for models that have it as a tool.
        output: The type of its answer; a string by default. Several types, ``A | B`` or ``[A, B]``, mean one of them.
            An `Output` has the type with settings.
        output_validator: Called with each final answer, a value of the type of `output`, and the context; sync or
            async. It returns the value to use, or None to use this one, or raises `ModelRetry` to have the model try
            again. It is not inherited by the agents below.
        settings: How the model generates.
        max_steps: The largest number of steps; the tools of the last one still run. By default 25, or what `max_steps`
            in `stop` allows if that is more.
        stop: Further stop policies, such as ``until_tool_called("submit")``.
        timeout: Seconds a run may take; time spent waiting for people does not count.
        budget: What it and all agents below it may spend.
        approvals: Which tool and model calls a person must approve.
        grants: The permissions of its tools; by default exactly those they declare.
        middleware: Middleware for all calls of this agent and of all agents below it.
        store: Where runs are kept, such as ``"memory:"`` or ``"sqlite:///agents.db"``, so that they survive a crash.
        debug: Raise unexpected errors of tools, hooks and models at once, also of agents below, rather than pass them
            to the model or return a failed run. By default whether the environment variable ``ZIGGURAT_DEBUG`` is set.

    Raises:
        ConfigurationError: an argument cannot work; the message says which, why, and what would.
    """

    __slots__ = ("settings",)

    @overload
    def __init__(
        self,
        model: str | Model,
        *,
        output: "Output[Out] | Sequence[type[Out]]",
        output_validator: Callable[[Out, Context], Any] | None = None,
        **arguments: Unpack[AgentArguments],
    ) -> None: ...
    @overload
    def __init__(
        self,
        model: str | Model,
        *,
        output: "TypeForm[Out]",
        output_validator: Callable[[Out, Context], Any] | None = None,
        **arguments: Unpack[AgentArguments],
    ) -> None: ...
    @overload
    def __init__(
        self: "Agent[str]",
        model: str | Model,
        *,
        output: None = None,
        output_validator: Callable[[str, Context], Any] | None = None,
        **arguments: Unpack[AgentArguments],
    ) -> None: ...
    @checked
    def __init__(
        self,
        model: str | Service[ModelRequest, ModelResponse],
        *,
        tools: Annotated[Iterable[Tool | Runnable] | Toolbox, Meta(title="list of functions, tools and agents")] = (),
        instructions: Instructions = None,
        name: str = "agent",
        description: str = "",
        output: Any = None,
        output_validator: OutputValidator | None = None,
        settings: ModelSettings | None = None,
        max_steps: PositiveInt | None = None,
        stop: StopPolicy | None = None,
        timeout: Seconds | None = None,
        budget: Budget | None = None,
        approvals: Approvals | None = None,
        grants: Permissions | None = None,
        middleware: Sequence[AnyMiddleware] = (),
        store: str | Store | None = None,
        debug: bool | None = None,
    ) -> None:
        service = resolve(model)
        box = tools if isinstance(tools, Toolbox) else Toolbox(tools)
        answer = None if output is None else AnswerReader.of(output, service)
        specs = _specs(box, answer)
        (settings or NO_SETTINGS).check_choice([spec.name for spec in specs])
        checks_names = partial(check_tool_names, name, approvals=approvals, budget=budget, stop=stop)
        if not box.sources:  # else in each run, when their tools are known
            checks_names({spec.name for spec in specs}, box)
        self.settings: LoopSettings = LoopSettings(
            name,
            service,
            name_of(service),
            box,
            specs,
            instructions,
            settings or NO_SETTINGS,
            answer,
            None if stop is None else any_of(stop),
            steps_allowed(stop) if max_steps is None else max_steps,
            timeout,
            output_validator,
            checks_names=checks_names,
        )
        needs = frozenset(permission for spec in box.specs for permission in spec.permissions)
        form = None if answer is None else OutputForm(answer.parameter)
        parts = agent_parts(
            name,
            {"budget": budget, "approvals": approvals, "grants": grants, "middleware": middleware, "debug": debug},
            setup=cache(self._setup),
            description=description,
            permissions=needs,
            read=None if form is None else form.read,
            keep=None if form is None else form.keep,
        )
        own = known(needs if grants is None else grants)
        parts = replace(parts, grants=own, parse=partial(final_answer_in, output=answer))
        permitted = Steerable.among(middleware)
        loop = AgentLoop(self.settings, {AGENT: parts, STEERABLE: permitted, TOOLS: box, EFFECT: box.effect})
        super().__init__(loop, name=name, store=store)

    @property
    def model(self) -> Service[ModelRequest, ModelResponse]:
        """The model, with its layers."""
        return self.settings.model

    @property
    def tools(self) -> Toolbox:
        """The tools, with their statistics."""
        return self.settings.tools

    def _setup(self) -> dict[str, str]:
        settings = self.settings
        instructions = settings.instructions
        return {
            "model": settings.model_name,
            "instructions": name_of(instructions) if callable(instructions) else instructions or "",
            "tools": ", ".join(
                [*(f"{spec.name}:{digest(spec)[:8]}" for spec in settings.specs), *map(repr, settings.tools.sources)]
            ),
            "settings": digest(settings.settings),
            "output": "text" if settings.output is None else digest(settings.output.schema),
        }

    def __repr__(self) -> str:
        tools = f", tools=[{', '.join([*self.tools, *map(repr, self.tools.sources)])}]" if self.tools else ""
        return f"Agent({self.model!r}{tools})"


def _specs(box: Toolbox, answer: AnswerReader | None) -> tuple[ToolSpec, ...]:
    final = None if answer is None else answer.tool()
    if final is None:
        return box.specs
    if FINAL_ANSWER in box:
        raise ConfigurationError(f"the name {FINAL_ANSWER!r} is taken by the output; give your tool another one")
    return (*box.specs, final)
