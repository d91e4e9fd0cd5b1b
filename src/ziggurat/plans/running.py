"""How a plan runs: node after node, each with its result, in the run of the flow that the plan is."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from ziggurat.calls.agent_call import program_at
from ziggurat.calls.gather import settled
from ziggurat.core.codec import plain
from ziggurat.core.combinator import annotate
from ziggurat.core.context import AMBIENT, Context, running
from ziggurat.core.errors import ConfigurationError, LimitExceeded, described, text_of
from ziggurat.core.failures import ends_run
from ziggurat.messages.events import NodeChanged, NodeStatus
from ziggurat.plans.conditions import holds
from ziggurat.plans.nodes import Branch, Loop, Map, Node, Parallel, Place, Sequence
from ziggurat.plans.result import NodeResult
from ziggurat.plans.variables import items_of
from ziggurat.plans.working import Work

_Values = dict[str, Any]
_Results = list[NodeResult]


class Execution:
    def __init__(self, works: Mapping[Place, Work], ctx: Context) -> None:
        self._works = works
        self._emits = ctx.listens(NodeChanged)
        self._start = len(ctx.path) + 1

    async def run(self, place: Place, values: _Values, results: _Results) -> Any:
        """Run a node and return its output, which becomes its variable; the results are added in the plan's order."""
        ctx = AMBIENT.get()
        assert ctx is not None
        number = len(results)
        if self._emits:
            await self._tell(ctx, place, "running")
        try:
            work = self._works.get(place)
            if work is not None:
                output = await work(values, ctx)
            else:
                output = await _RUN[type(place.node)](self, place, values, results)
        except Exception as error:  # a task may raise anything; what follows is its policy
            if ends_run(error):
                raise
            output = await self._handle(error, place, values, results, number)
        else:
            results.insert(number, self._result(ctx, place, "completed", output))
            if self._emits:
                await self._tell(ctx, place, "completed")
        if place.variable is not None:
            values[place.variable] = output
        return output

    async def _handle(self, error: Exception, place: Place, values: _Values, results: _Results, number: int) -> Any:
        """Do what the policy of a node says after it has failed."""
        ctx = AMBIENT.get()
        assert ctx is not None
        results.insert(number, self._result(ctx, place, "failed", None, described(error)))
        await self._tell(ctx, place, "failed", described(error))
        if place.instead is not None:
            values["error"] = text_of(error)
            with _below(f"{place.name}/instead"):
                return await self.run(place.instead, values, results)
        if place.node.on_failure == "continue":
            return None
        annotate(error, [f"it was raised at {place.position} of the plan {ctx.path[: self._start - 1]}"])
        raise error

    def _result(
        self, ctx: Context, place: Place, status: NodeStatus, output: Any = None, error: str | None = None
    ) -> NodeResult:
        path = f"{ctx.path}/{place.name}"[self._start :]
        name = place.variable or place.name
        return NodeResult(
            place.position, path, name, type(place.node).__name__, status, _plain_output(output, place), error
        )

    async def _tell(self, ctx: Context, place: Place, status: NodeStatus, error: str | None = None) -> None:
        if self._emits:
            await ctx.emit(NodeChanged(f"{ctx.path}/{place.name}", place.position, status, error))

    async def _skip(self, place: Place, results: _Results) -> None:
        ctx = AMBIENT.get()
        assert ctx is not None
        results.append(self._result(ctx, place, "skipped"))
        await self._tell(ctx, place, "skipped")

    # -- what the kinds of nodes do ------------------------------------------------------------------------------

    async def run_all(self, parts: tuple[Place, ...], values: _Values, results: _Results) -> Any:
        """Run nodes one after the other and return the output of the last; if one fails, the later ones are skipped."""
        output = None
        for number, part in enumerate(parts, 1):
            try:
                output = await self.run(part, values, results)
            except Exception:
                for later in parts[number:]:
                    await self._skip(later, results)
                raise
        return output

    async def _run_sequence(self, place: Place, values: _Values, results: _Results) -> Any:
        with _below(place.name):
            return await self.run_all(place.parts, values, results)

    async def _run_branch(self, place: Place, values: _Values, results: _Results) -> Any:
        assert isinstance(place.node, Branch)
        output = None
        with _below(place.name) as ctx:
            chosen = 0 if await holds(place.node.condition, values, place.position, ctx) else 1
            for number, part in enumerate(place.parts):
                if number == chosen:
                    output = await self.run(part, values, results)
                else:
                    await self._skip(part, results)
        return output

    async def _run_parallel(self, place: Place, values: _Values, results: _Results) -> list[Any]:
        assert isinstance(place.node, Parallel)
        before = dict(values)
        snapshots = [dict(values) for _ in place.parts]
        outputs = await self._together(place.name, place.parts, snapshots, place.node.limit, results)
        for snapshot in snapshots:
            values.update({name: each for name, each in snapshot.items() if before.get(name, _ABSENT) is not each})
        return outputs

    async def _run_map(self, place: Place, values: _Values, results: _Results) -> list[Any]:
        node = place.node
        assert isinstance(node, Map)
        snapshots = [{**values, node.item: item} for item in items_of(node.over, values, node.name)]
        return await self._together(place.name, place.parts * len(snapshots), snapshots, node.limit, results)

    async def _run_loop(self, place: Place, values: _Values, results: _Results) -> Any:
        node, (part,) = place.node, place.parts
        assert isinstance(node, Loop)
        output, until = None, node.until
        with _below(place.name) as ctx:
            for number in range(1, node.max_rounds + 1):
                with program_at(ctx.at(f"round-{number}")):
                    output = await self.run(part, values, results)
                    if until is not None and await holds(until, values, place.position, ctx):
                        return output
        if node.until is None:
            return output
        message = f"the condition of {place.position} did not hold after {node.max_rounds} rounds"
        raise LimitExceeded("rounds", node.max_rounds, node.max_rounds, message)

    async def _together(
        self, name: str, parts: tuple[Place, ...], snapshots: list[_Values], limit: int | None, results: _Results
    ) -> list[Any]:
        """Run parts at the same time, each with variables of its own; the first error, in their order, is raised."""
        lists: list[_Results] = [[] for _ in parts]
        with _below(name):
            # All of them end before an error is raised: a cancelled one could have done half of its work.
            outcomes = await settled(*map(self.run, parts, snapshots, lists), limit=limit)
        for each in lists:
            results.extend(each)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return list(outcomes)


_RUN: dict[type[Node], Callable[[Execution, Place, _Values, _Results], Coroutine[Any, Any, Any]]] = {
    Sequence: Execution._run_sequence,
    Branch: Execution._run_branch,
    Parallel: Execution._run_parallel,
    Map: Execution._run_map,
    Loop: Execution._run_loop,
}


def _below(name: str) -> running:
    """Have what is called within the block take its places below this name."""
    ctx = AMBIENT.get()
    assert ctx is not None
    return program_at(ctx.at(name))


_ABSENT = object()


def _plain_output(output: Any, place: Place) -> Any:
    if output is None or type(output) in (str, int, bool):
        return output
    try:
        return plain(output)
    except TypeError as error:
        raise ConfigurationError(f"the output of {place.position} has no JSON form: {error}") from error
