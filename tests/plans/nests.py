"""Graphs and plans within teams, tools and flows, and these within graphs and plans, around a clerk.

The clerk pays, once and after an approval, asks a question, and answers. Each graph and plan around it does something
before it, beside it and after it. All models answer by the conversation alone, so any process can continue.
"""

__all__ = ["Nest", "answers"]

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import Struct

from ziggurat import Agent, AgentRun, Approve, Context, ModelRequest, ModelResponse, Runnable, ToolCall, Usage, tool
from ziggurat.agents import Answer, Decision
from ziggurat.core.codec import canonical
from ziggurat.flows import ask, flow, step
from ziggurat.messages import assistant
from ziggurat.plans import Graph, Parallel, Task, append, workflow
from ziggurat.teams import majority


class Trail(Struct):
    input: str = ""
    notes: Annotated[list[str], append] = []


class Turns:
    """A model that makes one call per turn, and then answers with all results."""

    def __init__(self, name: str, *calls: str) -> None:
        self.__name__ = name
        self._calls = calls

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        """Answer the turn that the conversation has come to."""
        turn = sum(message.role == "assistant" for message in request.messages)
        usage = Usage(10, 1, requests=1)
        if turn < len(self._calls):
            call = ToolCall(f"call-{turn}", self._calls[turn], '{"input": "go"}')
            return ModelResponse(assistant(call), "tool_calls", usage)
        results = [part.text for message in request.messages for part in message.tool_results]
        return ModelResponse(assistant(f"{self.__name__}({', '.join(results)})"), "stop", usage)


class Nest:
    """Makes the clerk within some shapes, the first innermost; `done` has the paths of all that was really done."""

    def __init__(self, shapes: Sequence[str], **options: Any) -> None:
        self.done: list[str] = []
        made: Runnable[Any] = self._clerk()
        for number, shape in enumerate(shapes):
            last = number == len(shapes) - 1
            made = SHAPES[shape](self, made, f"{shape}{number}", options if last else {})
        self.outermost: Any = made
        self.input: Any = Trail("go") if shapes[-1] == "graph" else "go"

    def _clerk(self) -> Runnable[Any]:
        @tool(effect="once", approval=True)
        async def pay(input: str, ctx: Context) -> str:  # noqa: A002 - the name of all inputs
            """Pay."""
            self.done.append(ctx.path)
            return "paid"

        @tool(effect="none")
        async def consult(input: str, ctx: Context) -> str:  # noqa: A002 - the name of all inputs
            """Ask a person."""
            return await ask("Which?")

        return Agent(Turns("clerk_model", "pay", "consult"), name="clerk", tools=[pay, consult])

    async def _do(self, what: str) -> str:
        """Do something in a step, after some turns of the event loop."""

        @step(name=what, context=True)
        async def act(ctx: Context) -> str:
            await asyncio.sleep(0)
            self.done.append(ctx.path)
            return what

        return await act()

    def in_graph(self, inner: Runnable[Any], name: str, options: dict[str, Any]) -> Runnable[Any]:
        """Return a graph with the inner one between nodes."""
        graph = Graph(Trail)

        def add(what: str) -> None:
            async def node(state: Trail) -> list[str]:
                return [f"{await self._do(what)} {len(state.notes)}"]

            graph.node(node, name=what, writes="notes")

        for what in ("before", "beside", "after"):
            add(what)
        takes: Callable[[Trail], Any] = lambda state: Trail("go") if inner.name.startswith("graph") else "go"  # noqa: E731
        graph.node(inner, name="inner", writes="notes", takes=takes, gives=lambda output: [text_of(output)])
        graph.edge("before", ("inner", "beside"), "after")
        return graph.build(name, **options)

    def in_plan(self, inner: Runnable[Any], name: str, options: dict[str, Any]) -> Runnable[Any]:
        """Return a plan with the inner one between tasks."""

        async def before() -> str:
            return await self._do("look")

        async def after(inner: Any, beside: str) -> str:
            return f"{text_of(inner)} {beside} {await self._do('look')}"

        given: Any = {"input": "go"} if inner.name.startswith("graph") else "go"
        both = Parallel([Task("inner", agent=inner, prompt=given), Task("beside", function=before)])
        return workflow(Task("before", function=before), both, Task("after", function=after), name=name, **options)

    def in_team(self, inner: Runnable[Any], name: str, options: dict[str, Any]) -> Runnable[Any]:
        """Return a team of a clerk in a flow, as members take text, and another agent."""
        member = self.in_flow(inner, f"{name}_first", {})
        return majority(member, Agent(Turns("other_model"), name=f"{name}_second"), name=name, **options)

    def in_tool(self, inner: Runnable[Any], name: str, options: dict[str, Any]) -> Runnable[Any]:
        """Return an agent that has the inner one as its tool."""
        return Agent(Turns(f"{name}_model", inner.name), name=name, tools=[inner], **options)

    def in_flow(self, inner: Runnable[Any], name: str, options: dict[str, Any]) -> Runnable[Any]:
        """Return a flow that runs the inner one."""

        @flow(name=name, **options)
        async def around(input: str) -> str:  # noqa: A002 - the name of all inputs
            given: Any = Trail("go") if inner.name.startswith("graph") else input
            run = await inner.run(given)
            run.raise_for_stop()
            return f"{await self._do('look')} {text_of(run.output)}"

        return around


SHAPES: dict[str, Callable[[Nest, Runnable[Any], str, dict[str, Any]], Runnable[Any]]] = {
    "graph": Nest.in_graph,
    "plan": Nest.in_plan,
    "team": Nest.in_team,
    "tool": Nest.in_tool,
    "flow": Nest.in_flow,
}


def text_of(output: Any) -> str:
    """Return what anything nested has given as a text."""
    return output if isinstance(output, str) else canonical(output).decode()


def answers(run: AgentRun[Any]) -> dict[str, Decision]:
    """Return a decision on all that a run waits for."""
    return {item.id: Answer("this") if item.stage == "question" else Approve() for item in run.pending}
