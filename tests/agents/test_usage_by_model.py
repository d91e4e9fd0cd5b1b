"""A run knows the usage of each model: of nested agents and failed tries too, live, continued, replayed and stored."""

import asyncio
from collections import defaultdict
from decimal import Decimal
from functools import reduce
from operator import add
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from tests.messages.strategies import usages
from tests.samples import amount as examples, sample
from tests.stores.places import PLACES, opening
from ziggurat import Agent, AgentRun, Approve, Middleware, ModelRequest, ModelResponse, Usage, stack, tool
from ziggurat.errors import ModelError
from ziggurat.journal import Store
from ziggurat.layers.retry import retry
from ziggurat.messages import assistant, tool_call
from ziggurat.messages.agent import empty_run
from ziggurat.messages.prompts import request_of
from ziggurat.messages.usage import Tally, cost_text, price_of_calls
from ziggurat.stops import Completed
from ziggurat.testing import ScriptedModel

NAMES = ("openai:gpt-4o", "anthropic:claude-sonnet-4-5", "scripted")
STAGES = st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), min_size=1, max_size=3)
"""The model of each agent, the outermost first, and whether the first try of each of its calls fails."""


class Team:
    """Agents, each of which calls the next one as a tool, and the last a tool that needs approval; with a ledger."""

    def __init__(self, stages: list[tuple[str, bool]]) -> None:
        self.stages = stages
        self.ledger: dict[str, list[Usage]] = defaultdict(list)
        self._failed: set[tuple[int, int]] = set()

    def agent(self, store: Store | None = None, *middleware: Middleware) -> Agent:
        @tool(approval=True)
        def sign() -> str:
            return "signed"

        below: Any = sign
        for number in range(len(self.stages) - 1, -1, -1):
            name = f"agent{number}"
            hooks = middleware if number == 0 else ()
            agent = Agent(
                self._model(number), tools=[below], name=name, description="Signs.", store=store, middleware=hooks
            )
            below = agent.as_tool()
        return agent

    def _model(self, number: int) -> Any:
        name, fails = self.stages[number]
        last = number == len(self.stages) - 1

        def reply(request: ModelRequest) -> ModelResponse | ModelError:
            turn = len(request.messages)
            usage = Usage(10**number, turn, requests=1)
            self.ledger[name].append(usage)
            if fails and (number, turn) not in self._failed:
                self._failed.add((number, turn))
                error = ModelError("busy", transient=True)
                error.usage = usage
                return error
            call = tool_call("sign") if last else tool_call(f"agent{number + 1}", input="go")
            return ModelResponse(assistant("done") if turn > 1 else assistant(call), usage=usage)

        return stack(ScriptedModel(always=reply, name=name), retry(attempts=2, base=0))

    def sums(self) -> dict[str, Usage]:
        return {name: reduce(add, each) for name, each in self.ledger.items()}


async def finished(team: Team, opens: Any) -> AgentRun:
    """Run a team until nothing waits, in a new process after each decision."""
    run = await team.agent(opens()).run("go", run_id="r")
    assert run.usage_by_model == team.sums()
    while run.pending:
        run = await team.agent(opens()).resume("r", {item.id: Approve() for item in run.pending})
    return run


@settings(max_examples=examples(4, 20))
@pytest.mark.parametrize("kind", sample(sorted(PLACES), 2))
@given(stages=STAGES)
def test_a_run_knows_the_usage_of_each_model(
    kind: str, tmp_path_factory: pytest.TempPathFactory, stages: list[tuple[str, bool]]
) -> None:
    team = Team(stages)
    with opening(kind, tmp_path_factory.mktemp("place")) as opens:

        async def main() -> list[AgentRun]:
            run = await finished(team, opens)
            replayed = await team.agent(opens()).replay("r")
            stored = await team.agent(opens()).resume("r")
            return [run, replayed, stored]

        runs = asyncio.run(main())
    for run in runs:
        assert run.stop == Completed()
        assert run.usage_by_model == team.sums()
        assert reduce(add, run.usage_by_model.values()) == run.usage
        assert run.usage.requests == run.model_calls


# -- the tally -----------------------------------------------------------------------------------------------------


@settings(max_examples=examples(40, 200))
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(NAMES), usages, st.booleans())))
def test_a_tally_has_a_sum_by_model_whenever_it_is_read(calls: list[tuple[bool, str, Usage, bool]]) -> None:
    outer = Tally()
    inner = Tally(outer)
    sums: dict[str, Usage] = {}
    for nested, name, usage, read in calls:
        (inner if nested else outer).add(usage, name)
        sums[name] = sums.get(name, Usage()) + usage
        if read:
            assert outer.by_model == sums
    assert outer.by_model == sums
    assert outer.usage == reduce(add, sums.values(), Usage())


# -- what it costs -------------------------------------------------------------------------------------------------


def run_with(models: dict[str, Usage], usage: Usage | None = None) -> AgentRun:
    run = empty_run("agent", request_of("go"), Completed())
    total = reduce(add, models.values(), Usage()) if usage is None else usage
    return replace(run, output="hi", usage=total, usage_by_model=models, steps=1)


MILLION = Usage(1_000_000, 0, requests=10)
COSTS = [
    ({}, Decimal(0), ""),
    ({"openai:gpt-4o": MILLION}, Decimal("2.5"), "$2.5"),
    ({"openai:gpt-4o": MILLION, "openai:gpt-4o-mini": MILLION}, Decimal("2.65"), "$2.65"),
    ({"openai:gpt-4o": MILLION, "scripted": MILLION}, None, "at least $2.5"),
    ({"openai:gpt-4o": MILLION, "scripted": Usage()}, Decimal("2.5"), "$2.5"),
    ({"scripted": MILLION}, None, "unpriced"),
    ({"scripted": Usage(requests=1)}, None, ""),
    ({"demo": MILLION, "local:coder": MILLION}, Decimal(0), "$0"),
    ({"openai:gpt-4o": MILLION, "local:coder": MILLION}, Decimal("2.5"), "$2.5"),
    ({"localhost:gpt": MILLION}, None, "unpriced"),
]


@pytest.mark.parametrize(("models", "amount", "text"), COSTS)
def test_a_run_shows_its_cost_where_prices_are_known(
    models: dict[str, Usage], amount: Decimal | None, text: str
) -> None:
    pytest.importorskip("genai_prices")
    run = run_with(models)
    assert run.cost == amount
    assert cost_text(models) == text
    for view in (run.figures, run._repr_html_(), str(run.__rich_repr__())):
        assert text in view
        assert ("unpriced" in view) == (text == "unpriced")


def test_the_cost_of_a_run_recorded_without_models_is_unknown() -> None:
    pytest.importorskip("genai_prices")
    run = run_with({}, usage=MILLION)
    assert run.cost is None
    assert "unpriced" in run.figures
    assert repr(run) == "<AgentRun Completed 'hi', 1 step, 1000000 tokens>"


def test_calls_are_charged_by_their_mean_length_where_it_matters() -> None:
    pytest.importorskip("genai_prices")
    name = "google:gemini-2.5-pro"
    one = price_of_calls(Usage(150_000, 100, requests=1), name)
    several = price_of_calls(Usage(1_500_000, 1_000, requests=10), name)
    together = price_of_calls(Usage(1_500_000, 1_000, requests=1), name)
    assert one is not None
    assert together is not None
    assert several == 10 * one < together
