"""How a plan runs: node after node, each with its result, in the run of the flow that the plan is."""

from collections.abc import Mapping
from typing import Any

from ziggurat.calls.agent_call import program_at
from ziggurat.calls.gather import settled
from ziggurat.core.codec import plain
from ziggurat.core.combinator import annotate
from ziggurat.core.context import AMBIENT, Context, running
from ziggurat.core.errors import ConfigurationError, LimitExceeded, described, text_of
from ziggurat.core.failures import ends_run
from ziggurat.messages.events import NodeChanged, NodeStatus
from ziggurat.plans.nodes import Branch, Loop, Map, NodeResult, Parallel, Place, Sequence
from ziggurat.plans.variables import holds, items_of
from ziggurat.plans.working import Work

_Values = dict[str, Any]
_Results = list[NodeResult]


class Execution:
    def __init__(self, works: Mapping[Place, Work], ctx: Context) -> None:
        self._works = works
        self._emits = ctx.listens(NodeChanged)
        self._start = len(ctx.path) + 1

    async def run(self, place: Place, values: _Values, results: _Results) -> Any:
        ctx, number = _here(), len(results)
        if self._emits:
            await ctx.emit(NodeChanged(f"{ctx.path}/{place.name}", place.position, "running"))
        try:
            output = await self._output_of(place, values, results)
        except Exception as error:  # a task may raise anything; what follows is its policy
            if ends_run(error):
                raise
            output = await self._handle(error, place, values, results, number)
        else:
            await self._note(place, "completed", results, number, output)
        if place.variable is not None:
            values[place.variable] = output
        return output

    async def _handle(self, error: Exception, place: Place, values: _Values, results: _Results, number: int) -> Any:
        await self._note(place, "failed", results, number, error=described(error))
        if place.instead is not None:
            values["error"] = text_of(error)
            with _below(f"{place.name}/instead"):
                return await self.run(place.instead, values, results)
        if place.node.on_failure == "continue":
            return None
        annotate(error, [f"it was raised at {place.position} of the plan {_here().path[: self._start - 1]}"])
        raise error

    async def _note(
        self, place: Place, status: NodeStatus, results: _Results, number: int, output: Any = None, *, error: str = ""
    ) -> None:
        ctx, why = _here(), error or None
        at, name = f"{ctx.path}/{place.name}", place.variable or place.name
        value = _plain_output(output, place)
        results.insert(number, NodeResult(place.position, at[self._start :], name, place.kind, status, value, why))
        if self._emits:
            await ctx.emit(NodeChanged(at, place.position, status, why))

    # -- what the kinds of nodes do ------------------------------------------------------------------------------

    async def run_all(self, parts: tuple[Place, ...], values: _Values, results: _Results) -> Any:
        """Run nodes one after the other and return the output of the last; if one fails, the later ones are skipped."""
        output = None
        for number, part in enumerate(parts, 1):
            try:
                output = await self.run(part, values, results)
            except Exception:
                for later in parts[number:]:
                    await self._note(later, "skipped", results, len(results))
                raise
        return output

    async def _output_of(self, place: Place, values: _Values, results: _Results) -> Any:
        if (work := self._works.get(place)) is not None:
            return await work(values, _here())
        match place.node:
            case Sequence():
                with _below(place.name):
                    return await self.run_all(place.parts, values, results)
            case Branch() as branch:
                return await self._run_branch(branch, place, values, results)
            case Parallel() as parallel:
                return await self._run_parallel(parallel, place, values, results)
            case Map() as each:
                snapshots = [{**values, each.item: item} for item in items_of(each.over, values, each.name)]
                return await self._together(place.name, place.parts * len(snapshots), snapshots, each.limit, results)
            case Loop() as loop:
                return await self._run_loop(loop, place, values, results)
        raise AssertionError(f"{place.kind} is no node of a plan")

    async def _run_branch(self, node: Branch, place: Place, values: _Values, results: _Results) -> Any:
        output = None
        with _below(place.name) as ctx:
            chosen = 0 if await holds(node.condition, values, place.position, ctx) else 1
            for number, part in enumerate(place.parts):
                if number == chosen:
                    output = await self.run(part, values, results)
                else:
                    await self._note(part, "skipped", results, len(results))
        return output

    async def _run_parallel(self, node: Parallel, place: Place, values: _Values, results: _Results) -> list[Any]:
        before = dict(values)
        snapshots = [dict(values) for _ in place.parts]
        outputs = await self._together(place.name, place.parts, snapshots, node.limit, results)
        for snapshot in snapshots:
            values.update({name: each for name, each in snapshot.items() if before.get(name, _ABSENT) is not each})
        return outputs

    async def _run_loop(self, node: Loop, place: Place, values: _Values, results: _Results) -> Any:
        (part,) = place.parts
        output = None
        with _below(place.name) as ctx:
            for number in range(1, node.max_rounds + 1):
                with program_at(ctx.at(f"round-{number}")):
                    output = await self.run(part, values, results)
                    if node.until is not None and await holds(node.until, values, place.position, ctx):
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


def _here() -> Context:
    ctx = AMBIENT.get()
    assert ctx is not None
    return ctx


def _below(name: str) -> running:
    return program_at(_here().at(name))


_ABSENT = object()


def _plain_output(output: Any, place: Place) -> Any:
    if output is None or type(output) in (str, int, bool):
        return output
    try:
        return plain(output)
    except TypeError as error:
        raise ConfigurationError(f"the output of {place.position} has no JSON form: {error}") from error
