"""A mistake in a function that a layer, a plan, a graph or a memory was given ends the outermost run.

No model gets it as text, wherever the layer is: around a model, a tool, a step or an agent, for one or everywhere.
"""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from msgspec import Struct

from tests.calls.slips import HERE, Slip
from tests.samples import rows
from tests.stores.places import STORES, new_store
from ziggurat import Agent, Budget, Context, Message, ModelRequest, ModelResponse, Runnable, stack, tool
from ziggurat.errors import ConfigurationError, Denied, ServiceError, ToolError
from ziggurat.flows import flow, step
from ziggurat.layers import (
    CacheStore,
    CircuitBreaker,
    DedupeStore,
    RateLimiter,
    cache,
    circuit_breaker,
    dedupe,
    fallback,
    rate_limit,
    retry,
    steer,
)
from ziggurat.memory import Remembering, memory_tools
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.middleware import everywhere
from ziggurat.plans import Branch, Compound, Graph, Loop, Method, Planner, Primitive, Task, htn_flow, when, workflow
from ziggurat.plans.graph_parts import END, START
from ziggurat.teams import group_chat, star
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("place")

LAYERS: dict[str, Callable[[Slip], Any]] = {
    "cache.key": lambda slip: cache(store=CacheStore(), key=slip.returning("key")),
    "dedupe.key": lambda slip: dedupe(store=DedupeStore(), key=slip.returning("key")),
    "rate_limit.estimate": lambda slip: rate_limit(limiter=_limiter(), estimate=slip.returning(1.0)),
    "rate_limit.measure": lambda slip: rate_limit(
        limiter=_limiter(), estimate=lambda _: 1.0, measure=slip.returning(1.0)
    ),
    "steer.pick": lambda slip: lambda inner: steer(slip.returning("only"), only=inner),
    "retry.when": lambda slip: _failing(retry(base=0, when=slip.returning(True))),
    "circuit_breaker.when": lambda slip: _failing(circuit_breaker(breaker=CircuitBreaker(when=slip.returning(True)))),
    "fallback.when": lambda slip: lambda inner: fallback(_Lost(inner), inner, when=slip.returning(True)),
}


def _limiter() -> RateLimiter:
    return RateLimiter(weight=100, seconds=1)


class _Lost:
    """A service whose first call fails."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.lost = False

    async def __call__(self, request: Any, ctx: Context) -> Any:
        if not self.lost:
            self.lost = True
            raise ConnectionError("lost")
        return await self.inner(request, ctx)


def _failing(layer: Any) -> Any:
    return lambda inner: layer(_Lost(inner))


async def _answers(request: ModelRequest, ctx: Context) -> ModelResponse:
    return ModelResponse(assistant("done"))


def _calls_work(layer: Any, *middleware: Any) -> Agent:
    @tool
    async def work() -> str:
        return "worked"

    model = ScriptedModel(tool_call("work"), always="done")
    return Agent(model, name="inner", tools=[stack(work, layer) if layer else work], middleware=middleware)


def _around_a_step(layer: Any) -> Runnable:
    @step(layers=[layer])
    async def work() -> str:
        return "done"

    @flow(name="inner")
    async def inner(task: str) -> str:
        return await work()

    return inner


AT: dict[str, Callable[[Any], Runnable]] = {
    "model": lambda layer: Agent(stack(_answers, layer), name="inner"),
    "tool": _calls_work,
    "step": _around_a_step,
    "agent": lambda layer: Agent(_answers, name="inner").layered(layer),
    "service": lambda layer: Runnable(stack(Agent(_answers, name="inner"), layer), name="inner"),
    "all models": lambda layer: Agent(_answers, name="inner", middleware=[everywhere(model=[layer])]),
    "all tools": lambda layer: _calls_work(None, everywhere(tool=[layer])),
    "all agents": lambda layer: Agent(_answers, name="inner", middleware=[everywhere(agent=[layer])]),
}


def _graph(slip: Slip, what: str) -> Runnable:
    def added(now: list[str], more: list[str]) -> list[str]:
        slip.make() if what == "reducer" or (what == "joined" and now) else None
        return now + more

    class State(Struct):
        notes: Annotated[list[str], added] = []

    async def note(item: object) -> dict[str, Any]:
        return {"notes": ["noted"]}

    def given(name: str, value: Any) -> Any:
        return slip.returning(value) if what == name else lambda _: value

    graph = Graph(State)
    asked = Agent(_answers, name="asked")
    graph.node(asked, takes=given("takes", "go"), gives=given("gives", {"notes": ["asked"]}))
    graph.map(note, given("items", ["a"]), name="each")
    graph.edge(START, [asked, "each"], END)
    if what == "choose":
        graph.node(Agent(_answers, name="other"), takes=lambda _: "go", gives=lambda _: {})
        graph.route("each", slip.returning("other"), ["other"])
    return graph.build("inner")


async def _work() -> str:
    return "done"


def _plan(*nodes: Any) -> Runnable:
    return workflow(*nodes, name="inner")


def _task(name: str) -> Task:
    return Task(name, function=_work)


async def _look() -> str:
    return "seen"


def _htn(method: Any, task: Any) -> Runnable:
    methods = [Method("Do", [Primitive("_look", preconditions=task)], preconditions=method)]
    return htn_flow(Planner(methods), Compound("Do"), tools=[tool(_look)], name="inner")


def _remembering(score: Any) -> Agent:
    async def turns(request: ModelRequest, ctx: Context) -> ModelResponse:
        calls = [tool_call("remember", fact="Ann likes tea"), tool_call("recall", query="tea")]
        done = sum(message.role == "assistant" for message in request.messages)
        return ModelResponse(Message("assistant", (calls[done],)) if done < len(calls) else assistant("done"))

    return Agent(turns, name="inner", tools=memory_tools(), middleware=[Remembering("memory:", "ann", score=score)])


def _typed(slip: Slip) -> Agent:
    class Typed(Struct):
        number: int

        def __post_init__(self) -> None:
            slip.make()

    return Agent(ScriptedModel(always=tool_call("final_answer", number=1)), name="inner", output=Typed)


CODE: dict[str, Callable[[Slip], Runnable]] = {
    **{
        f"{layer} around a {at}": lambda slip, layer=layer, at=at: AT[at](LAYERS[layer](slip))  # type: ignore[misc]
        for layer, at in rows(LAYERS, AT)
    },
    **{
        f"graph, {what}": lambda slip, what=what: _graph(slip, what)  # type: ignore[misc]
        for what in ("takes", "gives", "items", "reducer", "joined", "choose")
    },
    "branch": lambda slip: _plan(Branch(slip.returning(True), _task("a"), _task("b"))),
    "branch, continue": lambda slip: _plan(Branch(slip.returning(True), _task("a"), _task("b"), on_failure="continue")),
    "branch, instead": lambda slip: _plan(Branch(slip.returning(True), _task("a"), _task("b"), on_failure=_task("c"))),
    "loop": lambda slip: _plan(Loop(_task("a"), until=slip.returning(True), max_rounds=2)),
    "test of a variable": lambda slip: _plan(Branch(when("input", str, slip.returning(True)), _task("a"), _task("b"))),
    "precondition of a method": lambda slip: _htn({"ready": slip.returning(True)}, {}),
    "precondition of a task": lambda slip: _htn({}, {"ready": slip.returning(True)}),
}

CODE |= {"score of memories": lambda slip: _remembering(slip.returning(1.0)), "output type": _typed}

_INPUTS: dict[str, dict[str, Any]] = {"graph": {"state": {"notes": ["first"]}}, "precondition": {"world": {}}}


def _nested(code: str, slip: Slip, depth: int) -> Runnable:
    agent, said = CODE[code](slip), _INPUTS.get(code.partition(",")[0].partition(" ")[0], {"input": "x"})
    for level in range(1, depth + 1):
        store = new_store() if level == depth else None
        model = ScriptedModel(tool_call(agent.name, **said), always="done")
        agent, said = Agent(model, tools=[agent], name=f"level-{level}", store=store), {"input": "x"}
    return agent


@pytest.mark.parametrize(("code", "depth", "place"), rows(CODE, (2, 1), STORES), indirect=["place"])
async def test_a_mistake_ends_the_outermost_run_until_it_is_corrected(code: str, depth: int) -> None:
    slip = Slip()
    agent = _nested(code, slip, depth)

    run = await agent.run("go", run_id="r")
    assert run.stop == stops.Failed("'slip'", "KeyError")
    assert run.cause is not None
    assert isinstance(run.cause.error, KeyError)
    assert f"{HERE}:" in (run.error or "")
    assert not run.observations
    assert (await agent.replay("r")).stop == run.stop
    slip.error = None
    again = await agent.resume("r")
    assert again.stop == stops.Completed()
    assert not any("slip" in text for text in again.observations)


@pytest.mark.parametrize(
    ("code", "error"),
    rows(
        [*(next(code for code in CODE if layer in code) for layer in ("cache", "estimate")), "graph, items", "loop"],
        [ToolError, Denied, ServiceError, ConnectionError, TimeoutError],
    ),
)
async def test_errors_on_purpose_are_results(code: str, error: type[Exception]) -> None:
    run = await _nested(code, Slip(lambda: error("slip")), 1).run("go")
    assert run.stop == stops.Completed()
    assert any("slip" in text for text in run.observations)


async def _later(*_: Any) -> bool:
    return True


def _with(layer: Any) -> Agent:
    return Agent(stack(_answers, layer))


def _routed(choose: Any) -> Runnable:
    graph = Graph(_Empty)
    graph.node(Agent(_answers, name="a"), takes=lambda _: "go", gives=lambda _: {})
    graph.edge(START, "a")
    graph.route("a", choose, [END])
    return graph.build("inner")


class _Empty(Struct):
    pass


ASYNC: dict[str, Callable[[Any], Runnable]] = {
    "retry": lambda given: _with(_failing(retry(base=0, when=given))),
    "cache": lambda given: _with(cache(store=CacheStore(), key=given)),
    "fallback": lambda given: _with(lambda inner: fallback(_Lost(inner), inner, when=given)),
    "until": lambda given: group_chat(Agent(_answers, name="a"), Agent(_answers, name="b"), until=given),
    "rounds": lambda given: star(Agent(_answers, name="a"), Agent(_answers, name="b"), until=given),
    "price": lambda given: Agent(_answers, budget=Budget(cost=1.0, price=given)),
    "condition": lambda given: _plan(Branch(given, _task("a"), _task("b"))),
    "route": _routed,
}


@pytest.mark.parametrize("code", ASYNC)
def test_a_function_that_returns_a_coroutine_where_nothing_is_awaited_is_named(code: str) -> None:
    said: Any = _Empty() if code == "route" else "go"
    with pytest.raises(ConfigurationError, match="<lambda>"):
        ASYNC[code](lambda *_: _later()).run_sync(said)
