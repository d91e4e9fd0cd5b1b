"""Generated plans: random trees of all kinds of nodes, with a small sequential model of what they give."""

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from ziggurat import Agent, Context, ModelRequest, ModelResponse, ToolError, Usage, tool
from ziggurat.core.context import AMBIENT
from ziggurat.flows import Flow
from ziggurat.messages import assistant
from ziggurat.plans import Branch, Loop, Map, Parallel, PlanResult, Sequence, Task, workflow
from ziggurat.plans.nodes import Node
from ziggurat.plans.variables import fill, text_of_value

WORK = ("function", "once", "tool", "agent", "fail")
GROUPS = ("sequence", "branch", "parallel", "map", "loop", "handled", "instead")


class Failed(Exception):
    """The model's own failure of a task."""


class Forest:
    """Makes random plans whose tasks let others run some turns; `done` has the paths of their calls."""

    def __init__(self, seed: int, order: int = 0, *, failures: bool = True) -> None:
        self._shape = random.Random(seed)
        self._order = random.Random(f"{seed} {order}")
        self._numbers = 0
        self._work = WORK if failures else WORK[:-1]
        self._groups = GROUPS if failures else GROUPS[:-2]
        self.done: list[str] = []

        @tool
        async def act(text: str) -> str:
            """Act."""
            return await self._do(text)

        self._act = act
        self.nodes = tuple(self._node(3) for _ in range(3))

    def plan(self, store: Any = None) -> Flow[Any, PlanResult]:
        return workflow(
            *self.nodes, name="trial", input=dict[str, Any], variables={"a": "1", "items": [1, 2]}, store=store
        )

    async def _do(self, text: str, ctx: Context | None = None) -> str:
        for _ in range(self._order.randint(0, 5)):
            await asyncio.sleep(0)
        ctx = ctx or AMBIENT.get()
        assert ctx is not None
        self.done.append(ctx.path)
        return f"<{text}>"

    def _node(self, depth: int) -> Node:
        self._numbers += 1
        name, kind = f"n{self._numbers}", self._shape.choice(self._groups if depth else self._work)
        if kind in WORK:
            renames = kind != "fail" and not self._shape.randint(0, 4)
            return Sequence([self._task(kind, "a")]) if renames else self._task(kind, name)
        parts = [self._node(depth - 1) for _ in range(self._shape.randint(1, 3))]
        named = self._shape.choice((name, None))
        sequence = Sequence(parts, named)
        if kind == "branch":
            return Branch(f"a:{self._shape.choice('12n')}", sequence, self._shape.choice((None, self._node(0))), named)
        if kind == "parallel":
            return Parallel(parts, self._shape.choice((None, 1, 2)), named)
        if kind == "map":
            return Map(name, "items", sequence, limit=self._shape.choice((None, 1)))
        if kind == "loop":
            return Loop(sequence, self._shape.randint(1, 3), self._shape.choice((None, "a:n", "a:3")), named)
        if kind == "handled":
            return Sequence(parts, named, on_failure="continue")
        return Sequence(parts, named, on_failure=self._node(0)) if kind == "instead" else sequence

    def _task(self, kind: str, name: str) -> Task:
        self._numbers += 1
        text = f"{kind} {self._numbers} {{a}}"
        if kind == "tool":
            return Task(name, tool=self._act, arguments={"text": text})
        if kind == "agent":
            return Task(name, agent=Agent(self._model, name="helper"), prompt=text)

        async def work(text: str) -> str:
            said = await self._do(text)
            if text.startswith("fail"):
                raise ToolError(said)
            return said

        return Task(name, function=work, arguments={"text": text}, effect="once" if kind == "once" else "repeatable")

    async def _model(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        return ModelResponse(assistant(await self._do(request.messages[-1].text, ctx)), "stop", Usage(1, 1, requests=1))


def expected(nodes: tuple[Node, ...]) -> tuple[Any, dict[str, Any]] | str:
    """Return the output and the variables that a plan gives, or the text of its failure, by running it in one line."""
    values: dict[str, Any] = {"a": "1", "items": [1, 2]}
    try:
        output = _in_turn(nodes, values)
    except Failed as error:
        return str(error)
    return output, values


def _in_turn(nodes: Any, values: dict[str, Any]) -> Any:
    output = None
    for each in nodes:
        output = _give(each, values)
    return output


def _give(node: Any, values: dict[str, Any]) -> Any:
    try:
        output = _kinds(node, values)
    except Failed as error:
        if node.on_failure == "raise":
            raise
        values |= {"error": str(error)} if node.on_failure != "continue" else {}
        output = None if node.on_failure == "continue" else _give(node.on_failure, values)
    if node.name is not None:
        values[node.name] = output
    return output


def _kinds(node: Any, values: dict[str, Any]) -> Any:
    if isinstance(node, Task):
        said = f"<{_text(node, values)}>"
        if said.startswith("<fail"):
            raise Failed(said)
        return said
    if isinstance(node, Sequence):
        return _in_turn(node.nodes, values)
    if isinstance(node, Branch):
        holds = str(node.condition)[2:] in text_of_value(values["a"])
        chosen = node.if_true if holds else node.if_false
        return None if chosen is None else _give(chosen, values)
    if isinstance(node, Parallel):
        return _at_once([(each, dict(values)) for each in node.nodes], values)
    if isinstance(node, Map):
        return _at_once([(node.node, {**values, "item": item}) for item in values["items"]], {})
    for _ in range(node.max_rounds):
        output = _give(node.node, values)
        if node.until is not None and node.until[2:] in text_of_value(values["a"]):
            return output
    if node.until is not None:
        raise Failed("rounds")
    return output


def _at_once(parts: list[tuple[Node, dict[str, Any]]], values: dict[str, Any]) -> list[Any]:
    before, outputs, failures = dict(values), [], []
    for node, own in parts:
        try:
            outputs.append(_give(node, own))
        except Failed as error:
            failures.append(error)
    if failures:
        raise failures[0]
    for _, own in parts:
        values.update({name: each for name, each in own.items() if before.get(name, before) is not each})
    return outputs


def _text(task: Task, values: Mapping[str, Any]) -> str:
    template = task.prompt if task.arguments is None else task.arguments["text"]
    return text_of_value(fill(template, values, "model"))
