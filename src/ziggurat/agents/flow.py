"""Flow: a typed async function as a durable run; the steps, agents and questions in it are recorded."""

import inspect
import typing
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from ziggurat.agents.flow_program import FlowArguments, flow_program
from ziggurat.agents.queue import SubmitArguments
from ziggurat.agents.runnable import Runnable
from ziggurat.agents.values import FlowInput
from ziggurat.calls.enter import AgentService
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import stack
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.journal.store import Store
from ziggurat.messages.agent import AgentRun, Out
from ziggurat.messages.prompts import Prompt
from ziggurat.runs import options
from ziggurat.tools.fork_effects import Effects

if TYPE_CHECKING:
    from ziggurat.agents.handle import RunHandle
    from ziggurat.core.stream import EventStream

In = TypeVar("In")
R = TypeVar("R")


class Flow(Runnable[Out], Generic[In, Out]):
    """An async function whose runs are recorded, made by `flow`; it has all verbs of `Runnable`.

    Its input and output are values of the types that the function is annotated with. Where `Runnable` takes a prompt,
    a flow takes its input, or the input's JSON as text; ``run.output`` is its result.
    """

    __slots__ = ("_takes",)

    def __init__(self, service: AgentService, takes: FlowInput, *, name: str, store: str | Store | None) -> None:
        super().__init__(service, name=name, store=store)
        self._takes = takes

    def run(
        self, prompt: In | Prompt | None = None, **arguments: Unpack[options.RunArguments]
    ) -> Coroutine[Any, Any, AgentRun[Out]]:
        """Run to the end and return the run; an input that is not of the flow's type is a ConfigurationError."""
        return super().run(self._takes.prompt(prompt, arguments), **arguments)

    def run_sync(self, prompt: In | Prompt | None = None, **arguments: Unpack[options.RunArguments]) -> AgentRun[Out]:
        return super().run_sync(self._takes.prompt(prompt, arguments), **arguments)

    def stream(
        self, prompt: In | Prompt | None = None, *, buffer: PositiveInt = 64, **arguments: Unpack[options.RunArguments]
    ) -> "AbstractAsyncContextManager[EventStream[AgentRun[Out]]]":
        return super().stream(self._takes.prompt(prompt, arguments), buffer=buffer, **arguments)

    def start(self, prompt: In | Prompt | None = None, **arguments: Unpack[options.RunArguments]) -> "RunHandle[Out]":
        return super().start(self._takes.prompt(prompt, arguments), **arguments)

    def submit(
        self, prompt: In | Prompt | None = None, **arguments: Unpack[SubmitArguments]
    ) -> Coroutine[Any, Any, "RunHandle[Out]"]:
        return super().submit(self._takes.prompt(prompt, {}), **arguments)

    def fork(
        self,
        run_id: options.RunId,
        at: PositiveInt,
        prompt: In | Prompt | None = None,
        *,
        effects: Effects = "refuse",
        new_id: str | None = None,
        **arguments: Unpack[options.ForkArguments],
    ) -> Coroutine[Any, Any, AgentRun[Out]]:
        given = None if prompt is None else self._takes.prompt(prompt, {})
        return super().fork(run_id, at, given, effects=effects, new_id=new_id, **arguments)

    def layered(self, *layers: Callable[[AgentService], AgentService]) -> "Flow[In, Out]":
        return Flow(stack(self, *layers), self._takes, name=self.name, store=self.store)

    def with_store(self, store: str | Store) -> "Flow[In, Out]":
        return Flow(self, self._takes, name=self.name, store=store)


class _Decorator(typing.Protocol):
    @overload
    def __call__(self, function: Callable[[], Coroutine[Any, Any, R]], /) -> Flow[None, R]: ...
    @overload
    def __call__(self, function: Callable[[In], Coroutine[Any, Any, R]], /) -> Flow[In, R]: ...
    @overload
    def __call__(self, function: Callable[[Context, In], Coroutine[Any, Any, R]], /) -> Flow[In, R]: ...


if TYPE_CHECKING:

    @overload
    def flow(function: Callable[[], Coroutine[Any, Any, R]], /) -> Flow[None, R]: ...
    @overload
    def flow(function: Callable[[In], Coroutine[Any, Any, R]], /) -> Flow[In, R]: ...
    @overload
    def flow(function: Callable[[Context, In], Coroutine[Any, Any, R]], /) -> Flow[In, R]: ...
    @overload
    def flow(
        *,
        name: str | None = None,
        store: str | Store | None = None,
        **arguments: Unpack[FlowArguments],
    ) -> _Decorator: ...


@checked
def flow(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    store: str | Store | None = None,
    **arguments: Unpack[FlowArguments],
) -> Any:
    """Make a durable flow of an async function, which is run, resumed, replayed, forked and streamed as an agent is.

    ::

        @flow(store="sqlite:///orders.db")
        async def order(order: Order) -> Receipt:
            payment = await charge(order.customer, order.total)     # a step
            return await ship(order.items, payment)                 # another

        run = await order.run(Order(...), run_id="order-17")
        run.output                                                  # a Receipt

    When it is resumed, the function runs again from its start, and what is recorded is answered without being called:
    steps, models, tools, agents, `gather`, `ask`. What the function does besides must therefore be the same each time:
    no clock, no chance, no input or output outside of steps.

    Args:
        function: The async function. It has one parameter for its input, or none, and perhaps ``ctx: Context`` before
            it. All are annotated, and so is its result; both types have a JSON form.
        name: Its name in paths and in the store, and as a tool; that of the function by default.
        store: Where its runs are kept.
        arguments: `description`, when to call it as a tool, by default its docstring; and `budget`, `approvals`,
            `grants`, `middleware` and `debug`, as for an `Agent`.

    Raises:
        ConfigurationError: the function cannot be a flow; the message says why.
    """

    def make(function: Callable[..., Any]) -> Flow[Any, Any]:
        title = name or str(getattr(function, "__name__", ""))
        program, takes = flow_program(function, _hints(function, title), title, {}, arguments)
        return Flow(program, takes, name=title, store=store)

    return make if function is None else make(function)


def _hints(function: Callable[..., Any], title: str) -> dict[str, Any]:
    if not inspect.iscoroutinefunction(function):
        raise ConfigurationError(f"a flow is an async function: write async def {title}(...); got {function!r:.200}")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ConfigurationError(f"the annotations of the flow {title} cannot be read: {error}") from error
    if "return" not in hints:
        raise ConfigurationError(f"the flow {title} needs a return annotation, such as -> Receipt or -> None")
    return hints
