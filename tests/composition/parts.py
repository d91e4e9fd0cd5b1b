"""The features that are combined, each by a name, and the agent that a combination of them makes.

Every agent has the same work: at each level it looks something up, pays, and asks the level below; the lowest level
looks up only. Its models answer by the number of turns in the conversation, so any process can continue.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from ziggurat import (
    Agent,
    Approvals,
    Approve,
    Budget,
    Context,
    ModelRequest,
    ModelResponse,
    Rule,
    Runnable,
    loop_detection,
    stack,
    stop_when,
    tool,
    until_tool_called,
)
from ziggurat.agents import Decision, PendingItem, max_steps
from ziggurat.errors import ModelError
from ziggurat.flows import flow
from ziggurat.layers import (
    Bulkhead,
    CacheStore,
    CircuitBreaker,
    DedupeStore,
    Gate,
    RateLimiter,
    RetryBudget,
    backpressure,
    cache,
    circuit_breaker,
    concurrency_limit,
    dedupe,
    fallback,
    hedge,
    rate_limit,
    retry,
    steer,
    tap,
    timeout,
)
from ziggurat.messages import Message, ToolCall, Usage, assistant
from ziggurat.middleware import Redaction, Trim
from ziggurat.observe import Metrics
from ziggurat.teams import majority
from ziggurat.testing import ScriptedModel

LAYERS: dict[str, Callable[[], Any] | None] = {
    "bare": None,
    "retry": lambda: retry(attempts=3, base=0.0, jitter="none", budget=RetryBudget()),
    "timeout": lambda: timeout(seconds=600.0),
    "concurrency_limit": lambda: concurrency_limit(bulkhead=Bulkhead(4)),
    "circuit_breaker": lambda: circuit_breaker(breaker=CircuitBreaker(consecutive=50)),
    "rate_limit": lambda: rate_limit(limiter=RateLimiter(requests=10_000, seconds=1.0)),
    "cache": lambda: cache(store=CacheStore(100)),
    "dedupe": lambda: dedupe(store=DedupeStore(seconds=60.0)),
    "tap": lambda: tap(on_request=lambda request, ctx: None, on_response=lambda response, ctx: None),
    "backpressure": lambda: backpressure(gate=Gate(100)),
}
"""Layers by name; each call makes one with a state of its own."""

COMBINATORS: dict[str, Callable[[Any], Any]] = {
    "alone": lambda service: service,
    "fallback": lambda service: fallback(service, service),
    "hedge": lambda service: hedge(service, delay=600.0),
    "steer": lambda service: steer(lambda request, ctx: "only", only=service),
}
"""What makes a service of a service."""

POLICIES: dict[str, Callable[[], Any] | None] = {
    "natural": None,
    "max_steps": lambda: max_steps(2),
    "until_tool_called": lambda: until_tool_called("pay"),
    "stop_when": lambda: stop_when(lambda progress: "enough" if progress.step >= 2 else None),
    "loop_detection": lambda: loop_detection(threshold=2, action="warn"),
}
"""Stop policies of the root agent."""

BUDGETS: dict[str, Budget | None] = {
    "free": None,
    "generous": Budget(tokens=1_000_000, requests=1_000, tool_calls=1_000),
    "requests": Budget(requests=2),
    "tool_calls": Budget(tool_calls=2),
    "tools": Budget(tools={"pay": 1}),
}

MIDDLEWARE: dict[str, Callable[[], Sequence[Any]]] = {
    "none": lambda: (),
    "redaction": lambda: (Redaction(),),
    "trim": lambda: (Trim(last=40),),
    "usage": lambda: (Metrics(),),
}

APPROVALS = ("none", "tool", "pattern", "nested", "approver", "model")
RUNS = ("run", "stream", "start")
EFFECTS = ("repeatable", "once")
TURNS = ("alone", "first turn", "second turn")
STORES = ("here", "rows", "sqlite", "file")
FAULTS = ("none", "first model call")


def _in_flow(agent: Any, store: Any) -> Runnable:
    @flow(name="outermost", store=store)
    async def whole(question: str) -> str:
        return str((await agent.run(question)).text)

    return whole


def _in_team(agent: Any, store: Any) -> Runnable:
    return majority(agent, Agent(ScriptedModel(always="done"), name="other"), name="outermost", store=store)


OUTERMOST: dict[str, Callable[[Any, Any], Runnable] | None] = {"agent": None, "flow": _in_flow, "team": _in_team}
"""What the agent is a part of."""


class Combination(Struct, frozen=True, kw_only=True):
    """One value of every dimension."""

    model_layer: str
    model_combinator: str
    tool_layer: str
    tool_combinator: str
    agent_layer: str
    agent_combinator: str
    outermost: str
    policy: str
    approval: str
    budget: str
    middleware: str
    effect: Any
    depth: int
    fault: str
    session: str
    store: str
    way: str


DIMENSIONS: dict[str, Sequence[Any]] = {
    "model_layer": list(LAYERS),
    "model_combinator": list(COMBINATORS),
    "tool_layer": list(LAYERS),
    "tool_combinator": list(COMBINATORS),
    "agent_layer": list(LAYERS),
    "agent_combinator": list(COMBINATORS),
    "outermost": list(OUTERMOST),
    "policy": list(POLICIES),
    "approval": APPROVALS,
    "budget": list(BUDGETS),
    "middleware": list(MIDDLEWARE),
    "effect": EFFECTS,
    "depth": [0, 1, 2, 3],
    "fault": FAULTS,
    "session": TURNS,
    "store": STORES,
    "way": RUNS,
}


def _layered(service: Any, name: str) -> Any:
    layer = LAYERS[name]
    return service if layer is None else stack(service, layer())


class Level:
    """A level of the tower: its model, and how often that was called."""

    def __init__(self, depth: int, fault: str) -> None:
        self.depth = depth
        self.calls = 0
        self.fails = fault == "first model call"

    async def __call__(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        """Answer by the number of turns since the last prompt."""
        self.calls += 1
        if self.fails and self.calls == 1:
            raise ModelError("overloaded", transient=True)
        prompt = max(at for at, message in enumerate(request.messages) if message.role == "user" and not message.origin)
        turn = sum(message.role == "assistant" for message in request.messages[prompt:])
        reply = self._reply(turn, prompt)
        return ModelResponse(reply, "tool_calls" if reply.tool_calls else "stop", Usage(10, 1, requests=1))

    def _reply(self, turn: int, prompt: int) -> Message:
        def call(name: str, **arguments: object) -> ToolCall:
            text = ",".join(f'"{key}":{value}' for key, value in arguments.items())
            return ToolCall(f"c{turn}-{name}-{prompt}", name, f"{{{text}}}")

        if turn == 0:
            calls = [call("look", n=self.depth), *([call("below", input='"go"')] if self.depth else [])]
        elif turn == 1:
            calls = [call("pay", n=self.depth * 10)]
        else:
            return assistant(f"done at {self.depth}")
        return assistant(*calls)


class Tower:
    """The agents of a combination, from the lowest to the root, and what they did."""

    def __init__(self, combination: Combination, store: Any = None) -> None:
        self.combination = combination
        self.effects: list[str] = []
        agent: Any = None
        outermost = OUTERMOST[combination.outermost]
        for depth in range(combination.depth + 1):
            agent = self._agent(depth, agent, store if depth == combination.depth and outermost is None else None)
        self.root: Runnable = agent if outermost is None else outermost(agent, store)

    def _agent(self, depth: int, below: Any, store: Any) -> Any:
        each, top = self.combination, depth == self.combination.depth
        model: Any = Level(depth, each.fault if top else "none")
        if top:
            model = COMBINATORS[each.model_combinator](_layered(model, each.model_layer))
        policy = POLICIES[each.policy] if top else None
        agent: Any = Agent(
            model,
            tools=[*self._tools(top), *([] if below is None else [below])],
            name="root" if top else "below",
            description="Does what is asked.",
            stop=policy() if policy else None,
            budget=BUDGETS[each.budget] if top else None,
            approvals=self._approvals() if top else None,
            middleware=MIDDLEWARE[each.middleware]() if top else (),
            store=store,
        )
        if not top:
            return agent
        service = COMBINATORS[each.agent_combinator](_layered(agent, each.agent_layer))
        return agent if service is agent else Runnable(service, name="root", store=store)

    def _tools(self, top: bool) -> list[Any]:
        each, effects = self.combination, self.effects

        @tool(effect="none")
        async def look(n: int) -> str:
            """Look something up."""
            return f"looked {n}"

        @tool(effect=each.effect, approval=each.approval == "tool" and top)
        async def pay(n: int, ctx: Context) -> str:
            """Pay."""
            effects.append(f"{ctx.idempotency_key} {n}")
            return f"paid {n}"

        looks = COMBINATORS[each.tool_combinator](_layered(look, each.tool_layer))
        return [looks, _layered(pay, each.tool_layer) if each.tool_layer in _CALM else pay]

    def _approvals(self) -> Approvals | None:
        def person(item: PendingItem) -> Decision:
            return Approve()

        kind = self.combination.approval
        if kind in ("pattern", "nested"):
            return Approvals("pay")
        if kind == "approver":
            return Approvals("pay", approver=person)
        if kind == "model":
            return Approvals(Rule("*", "ask", stage="model"), approver=person)
        return None


_CALM = ("bare", "timeout", "concurrency_limit", "tap", "backpressure", "rate_limit")
"""The layers that may stand around a tool with effects."""
