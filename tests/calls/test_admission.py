"""Budgets: what they accept, reserve and count, however calls overlap and however many models are asked."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from tests.samples import amount, rows
from tests.stores.places import STORES, new_store
from ziggurat import Agent, Approve, Budget, Context, Middleware, ModelRequest, ModelResponse, Usage, stack, tool, user
from ziggurat.calls.admission import ADMISSION, Reservation, Spending, budgeted
from ziggurat.core import root
from ziggurat.core.codec import encode
from ziggurat.core.context import JOURNAL
from ziggurat.core.service import ALTERNATIVES, fact
from ziggurat.errors import ConfigurationError, LimitExceeded, ModelError
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Failure, Result
from ziggurat.layers import CacheStore, cache, fallback, hedge, retry, steer, timeout
from ziggurat.messages import Model, ModelSettings, ToolCall, ToolSpec, Transcript, assistant, stops, tool_call
from ziggurat.messages.usage import ASSUMED_OUTPUT
from ziggurat.testing import ScriptedModel


def request(text: str = "x" * 40, **settings: int) -> ModelRequest:
    return ModelRequest(Transcript.of(user(text)), settings=ModelSettings(**settings))  # type: ignore[arg-type]


def end(reservation: Reservation, *used: Usage) -> None:
    for usage in used:
        reservation.end(usage, 1)
    reservation.release(sent=bool(used))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"tokens": 0}, "tokens"),
        ({"tokens": 1.5}, "tokens"),
        ({"requests": -1}, "requests"),
        ({"requests": True}, "requests"),
        ({"steps": 0}, "steps"),
        ({"tool_calls": "3"}, "tool_calls"),
        ({"cost": 0}, "cost"),
        ({"cost": True}, "cost"),
        ({"cost": float("nan")}, "cost"),
        ({"tools": {"search": 0}}, "search"),
        ({"tools": ["search"]}, "search"),
        ({"price": 3}, "price"),
        ({"tools": {}}, "limits nothing"),
        ({}, "limits nothing"),
    ],
)
def test_bad_limits_are_refused_with_the_fix(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Budget(**settings)


def test_who_limits_cost_says_what_calls_cost() -> None:
    with pytest.raises(ConfigurationError, match="price="):
        budgeted(root().within(JOURNAL, LocalJournal()), Budget(cost=1))


def test_a_longer_reply_than_was_assumed_is_assumed_from_then_on() -> None:
    spending = Spending(Budget(tokens=100_000))
    end(spending.admit(request(), root()), Usage(10, 5000, requests=1))
    spending.admit(request(), root())
    assert 5000 <= spending.meters["tokens"].reserved < 5100


def test_the_tools_a_model_is_told_of_are_a_part_of_the_question() -> None:
    bare, told = Spending(Budget(tokens=9999)), Spending(Budget(tokens=9999))
    bare.admit(request(max_tokens=1), root())
    told.admit(replace(request(max_tokens=1), tools=(ToolSpec("search", "x" * 400, {}),)), root())
    assert 100 < told.meters["tokens"].reserved - bare.meters["tokens"].reserved < 130


def test_calls_that_run_at_once_cannot_overspend_requests() -> None:
    spending = Spending(Budget(requests=2))
    ctx = root()
    first = spending.admit(request(), ctx)
    spending.admit(request(), ctx)
    with pytest.raises(LimitExceeded) as caught:
        spending.admit(request(), ctx)
    assert (caught.value.kind, caught.value.limit, caught.value.used) == ("requests", 2, 0)  # both only began
    end(first)  # it cost nothing
    spending.admit(request(), ctx)


def test_what_a_call_may_cost_is_reserved_and_then_replaced_by_what_it_cost() -> None:
    spending = Spending(Budget(tokens=1000, requests=9))
    permit = spending.admit(request(max_tokens=600), root())
    tokens = spending.meters["tokens"]
    assert 600 < tokens.reserved < 700
    with pytest.raises(LimitExceeded, match="tokens"):
        spending.admit(request(max_tokens=600), root())
    end(permit, Usage(10, 20, requests=1))
    assert (tokens.reserved, tokens.spent, spending.meters["requests"].spent) == (0, 30, 1)
    spending.admit(request(max_tokens=600), root())


@pytest.mark.parametrize(("budget", "words"), [(Budget(tokens=1000), "next call"), (Budget(requests=1), "reached")])
async def test_a_limit_is_called_reached_only_if_all_of_it_is_used(budget: Budget, words: str) -> None:
    agent = Agent(ScriptedModel(tool_call("nothing"), "done"), budget=budget)
    run = await agent.run("go")
    assert isinstance(run.stop, stops.BudgetExceeded)
    assert words in (run.error or "")


def test_a_reply_of_unknown_length_is_assumed() -> None:
    with pytest.raises(LimitExceeded):
        Spending(Budget(tokens=ASSUMED_OUTPUT)).admit(request(), root())


def recorded(journal: LocalJournal) -> tuple[float, ...]:
    ctx: Context = budgeted(root().within(JOURNAL, journal), Budget(requests=9, tokens=99, input=99, output=99))
    admission = ctx.scope[ADMISSION]
    assert isinstance(admission[0], Spending)
    return tuple(admission[0].meters[kind].spent for kind in ("requests", "tokens", "input", "output"))


def test_what_is_on_record_is_spent_failed_tries_included_also_through_json() -> None:
    journal = LocalJournal()
    response = ModelResponse(assistant("x"), usage=Usage(5, 6, requests=1))
    journal.append(Failure("run/step-1/model", "m", "q", ValueError("no"), (Usage(1, 2, requests=1),)))
    journal.append(Result("run/step-1/model", "m", "q", response, (Usage(3, 4, requests=1),)))
    journal.append(Result("elsewhere/model", "m", "q", response))
    assert recorded(journal) == (3, 21, 9, 12)
    assert recorded(LocalJournal.load(journal.dump())) == (3, 21, 9, 12)
    assert encode(response)


def test_budgets_nest() -> None:
    ctx = root().within(JOURNAL, LocalJournal())
    inner = budgeted(budgeted(ctx, Budget(requests=9)), Budget(requests=1))
    assert len(inner.scope[ADMISSION]) == 2
    assert ctx.scope.get(ADMISSION) is None


async def test_a_service_is_charged_to_all_budgets_in_effect_where_it_is_called() -> None:
    class Found:
        usage = Usage(input=7, requests=1)

    async def embed(request: str, ctx: Context) -> Found:
        return Found()

    ctx = budgeted(budgeted(root().within(JOURNAL, LocalJournal()), Budget(requests=9)), Budget(tokens=99))
    await ctx.once("embedder", "q", embed, returns=Found)
    assert [meter.spent for spending in ctx.scope[ADMISSION] for meter in spending.meters.values()] == [1, 7]


KINDS = ("tokens", "output")
Amounts = dict[str, int]


class Schedule:
    """Model calls that begin and end in any order, under one budget.

    Args:
        draw: Returns a number from 0 up to another.
        limit: The limit on tokens, and on output.
        limited: Whether the calls have `max_tokens`.
        beyond: How many tokens of input a provider may count beyond the estimate.
    """

    def __init__(self, draw: Callable[[int], int], limit: int, *, limited: bool, beyond: int) -> None:
        self.draw = draw
        self.limit = limit
        self.limited = limited
        self.beyond = beyond
        self.spending = Spending(Budget(tokens=limit, output=limit))
        self.spent: Amounts = dict.fromkeys(KINDS, 0)
        self.running: list[tuple[Reservation, Amounts, int]] = []
        self.excess: Amounts = dict.fromkeys(KINDS, 0)  # of the calls in progress when the last one began
        self.parallel = 0  # how many these were

    def reserved(self) -> Amounts:
        return {kind: int(self.spending.meters[kind].reserved) for kind in KINDS}

    def begin(self) -> None:
        output = 1 + self.draw(2 * ASSUMED_OUTPUT)
        bound = ModelSettings(max_tokens=output if self.limited else None)
        request = ModelRequest(Transcript.of(user("x" * self.draw(400))), settings=bound)
        before = self.reserved()
        try:
            reservation = self.spending.admit(request, root(), "model")
        except LimitExceeded:
            return
        need = {kind: amount - before[kind] for kind, amount in self.reserved().items()}
        self.running.append((reservation, need, output if self.limited else 3 * ASSUMED_OUTPUT))
        self.excess = dict.fromkeys(KINDS, 0)
        self.parallel = len(self.running)

    def end(self) -> None:
        if not self.running:
            return
        reservation, need, longest = self.running.pop(self.draw(len(self.running) - 1))
        usage = Usage(need["tokens"] - need["output"] + self.draw(self.beyond), self.draw(longest), requests=1)
        end(reservation, usage)
        for kind, used in (("tokens", usage.total), ("output", usage.output or 0)):
            self.spent[kind] += used
            self.excess[kind] += max(0, used - need[kind])

    def over(self, kind: str) -> int:
        return max(0, self.spent[kind] - self.limit)


@pytest.mark.parametrize("beyond", [0, 50])
@pytest.mark.parametrize("limited", [True, False])
@settings(max_examples=amount(15, 60))
@given(data=st.data(), limit=st.integers(1_000, 9_000), events=st.lists(st.booleans(), max_size=30))
def test_calls_in_progress_exceed_a_limit_by_what_they_use_beyond_their_reservations(
    limited: bool, beyond: int, data: st.DataObject, limit: int, events: list[bool]
) -> None:
    def draw(most: int) -> int:
        return data.draw(st.integers(0, most))

    schedule = Schedule(draw, limit, limited=limited, beyond=beyond)
    for begins in events:
        if begins:
            schedule.begin()
        else:
            schedule.end()
        for kind in KINDS:
            assert schedule.over(kind) <= schedule.excess[kind]
        if limited:  # the length of a reply is known: only the input may be estimated too low
            assert schedule.over("output") == 0
            assert schedule.over("tokens") <= beyond * schedule.parallel


@pytest.mark.parametrize("limited", [True, False])
@settings(max_examples=amount(10, 40))
@given(data=st.data(), limit=st.integers(1_000, 9_000), calls=st.integers(0, 15))
def test_calls_in_a_row_exceed_a_limit_by_one_call(limited: bool, data: st.DataObject, limit: int, calls: int) -> None:
    schedule = Schedule(lambda most: data.draw(st.integers(0, most)), limit, limited=limited, beyond=50)
    most = 0
    for _ in range(calls):
        schedule.begin()
        schedule.end()
        most = max(most, *schedule.excess.values())
    assert max(schedule.over(kind) for kind in KINDS) <= most


USED = Usage(input=10, output=10, requests=1)
PRICES = {"cheap": 1.0, "dear": 100.0, "other": 7.0}
CALL = tool_call("sign")


def price(model: str, usage: Usage) -> float | None:
    """Return the price of a model for each request."""
    one = PRICES.get(model)
    return None if one is None else one * usage.requests


def fails(*, known: bool = True) -> ModelError:
    error = ModelError("down", kind="overloaded")
    if known:
        error.usage = USED
    return error


def model(name: str, *replies: str | ToolCall | ModelError) -> ScriptedModel:
    return ScriptedModel(*replies, name=name, usage=USED, always=None if replies else "never asked")


def twice(attempted: Model) -> Model:
    return stack(attempted, retry(attempts=2, base=0))


MODELS: dict[str, tuple[Callable[[], Model], dict[str, tuple[int, int]]]] = {
    "the first answers": (lambda: fallback(model("cheap", CALL, "end"), model("dear")), {"cheap": (20, 2)}),
    "the second answers": (
        lambda: fallback(model("cheap", fails(), fails()), model("dear", CALL, "end")),
        {"cheap": (20, 2), "dear": (20, 2)},
    ),
    "the first fails, and says nothing": (
        lambda: fallback(model("cheap", fails(known=False), "end"), model("dear", CALL)),
        {"cheap": (10, 2), "dear": (10, 1)},
    ),
    "retries within": (
        lambda: fallback(
            twice(model("cheap", fails(), fails(known=False), "end")), twice(model("dear", fails(), CALL))
        ),
        {"cheap": (20, 3), "dear": (20, 2)},
    ),
    "retries around": (
        lambda: twice(fallback(model("cheap", fails(), fails(), "end"), model("dear", fails(), CALL))),
        {"cheap": (30, 3), "dear": (20, 2)},
    ),
    "nested": (
        lambda: fallback(
            stack(fallback(model("cheap", fails(), "end"), model("other", fails())), timeout(seconds=60)),
            model("dear", CALL),
        ),
        {"cheap": (20, 2), "other": (10, 1), "dear": (10, 1)},
    ),
    "a race of one": (lambda: hedge(model("cheap", CALL, "end"), delay=60), {"cheap": (20, 2)}),
    "a race": (
        lambda: hedge(model("cheap", fails(), fails()), model("dear", CALL, "end"), delay=60),
        {"cheap": (20, 2), "dear": (20, 2)},
    ),
    "routes": (
        lambda: steer(
            lambda request, ctx: "short" if len(request.messages) < 2 else "long",
            short=model("cheap", CALL),
            long=model("dear", "end"),
        ),
        {"cheap": (10, 1), "dear": (10, 1)},
    ),
    "a cache around": (
        lambda: stack(fallback(model("cheap", fails(), "end"), model("dear", CALL)), cache(store=CacheStore())),
        {"cheap": (20, 2), "dear": (10, 1)},
    ),
}


class Passing(Middleware):
    """A hook, because of which model calls take the long way."""

    async def after_model(self, response: ModelResponse, ctx: Context) -> None:
        return None


WAYS: dict[str, dict[str, Any]] = {"plain": {}, "hooks": {"middleware": [Passing()]}}


def spent_in(ctx: Context) -> float:
    [spending] = ctx.scope[ADMISSION]
    return spending.meters["cost"].spent


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(("kind", "way", "place"), rows(MODELS, WAYS, STORES), indirect=["place"])
async def test_each_model_is_charged_for_what_it_was_asked(kind: str, way: str) -> None:
    made, expected = MODELS[kind]
    spent: list[float] = []

    @tool(approval=True)
    def sign(ctx: Context) -> str:
        spent.append(spent_in(ctx))
        return "signed"

    budget = Budget(cost=10_000, price=price)
    agent = Agent(made(), tools=[sign], budget=budget, store=new_store(), **WAYS[way])
    before = await agent.run("go", run_id="r")
    half = sum(PRICES[name] * used.requests for name, used in before.usage_by_model.items())
    run = await agent.resume("r", {before.pending[0].id: Approve()})
    assert spent == [half]  # as it is read from the record
    for again in (run, await agent.run("go", run_id="r"), await agent.replay("r")):
        assert again.stop == stops.Completed()
        assert {name: (used.input, used.requests) for name, used in again.usage_by_model.items()} == expected
        assert again.usage == sum(again.usage_by_model.values(), Usage())


class Twice(Middleware):
    """Asks twice, and states what both have cost, what the second has, or something else."""

    def __init__(self, stated: str) -> None:
        self.stated = stated

    async def wrap_model(self, request: Any, ctx: Context, model: Any) -> ModelResponse:
        first: ModelResponse = await model(request, ctx)
        second: ModelResponse = await model(request, ctx.again())
        usages = {
            "both": first.usage + second.usage,
            "the second": second.usage,
            "nothing": Usage(),
            "its own": Usage(input=10, output=3, requests=1),
        }
        return replace(second, usage=usages[self.stated])


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("stated", "place"), rows(["both", "the second", "nothing", "its own"], STORES), indirect=["place"]
)
async def test_a_hook_that_asks_twice_hides_no_model(stated: str) -> None:
    routes = fallback(model("cheap", "one", fails()), model("dear", "two"))
    budget = Budget(cost=10_000, price=price)
    agent = Agent(routes, budget=budget, middleware=[Twice(stated)], store=new_store())
    first = await agent.run("go", run_id="r")
    for run in (first, await agent.run("go", run_id="r")):
        assert {name: (used.input, used.requests) for name, used in run.usage_by_model.items()} == {
            "cheap": (20, 2),
            "dear": (10, 1),
        }


@pytest.mark.parametrize(("limit", "calls"), [(99, 0), (100, 1), (101, 2), (103, 4)])
def test_a_call_is_admitted_at_the_price_of_the_dearest(limit: int, calls: int) -> None:
    @tool
    def go_on() -> str:
        return "on"

    cheap = ScriptedModel(always=tool_call("go_on"), name="cheap", usage=USED)
    budget = Budget(cost=limit, price=lambda model, usage: PRICES[model])
    agent = Agent(fallback(cheap, model("dear")), tools=[go_on], budget=budget)
    run = agent.run_sync("go")
    assert run.stop == stops.BudgetExceeded("cost", limit, calls)
    assert len(cheap.calls) == calls


def test_a_model_without_a_price_is_named() -> None:
    agent = Agent(fallback(model("cheap"), model("unlisted")), budget=Budget(cost=1, price=price))
    with pytest.raises(ConfigurationError, match="unlisted"):
        agent.run_sync("go")


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), -1, "1", Decimal("NaN")])
def test_a_price_that_is_none_is_refused(amount: Any) -> None:
    agent = Agent(model("cheap"), budget=Budget(cost=1, price=lambda model, usage: amount))
    with pytest.raises(ConfigurationError, match="price"):
        agent.run_sync("go")


def test_an_error_says_what_was_used_and_not_what_was_reserved() -> None:
    spending = Spending(Budget(tokens=10_000))
    end(spending.admit(request(max_tokens=4_000), root()), Usage(10, 20, requests=1))
    spending.admit(request(max_tokens=6_000), root())
    tried = spending.admit(request(max_tokens=3_000), root())
    tried.end(tried.estimate, 1)
    with pytest.raises(LimitExceeded) as caught:
        tried.check()
    assert caught.value.used == 30 + tried.estimate.total


def test_the_names_of_alternatives_are_known_through_layers() -> None:
    inner = stack(fallback(model("cheap"), model("other")), timeout(seconds=1))
    assert fact(twice(fallback(inner, model("dear"))), ALTERNATIVES) == ("cheap", "other", "dear")
    assert fact(twice(model("dear")), ALTERNATIVES) == ()


def test_an_answer_says_which_model_gave_it() -> None:
    reply = ModelResponse(assistant("end"), usage=USED)
    assert reply.spent_by("cheap").usage == Usage(input=10, output=10, requests=1, model="cheap")
    assert reply.spent_by("cheap").spent_by("dear") == reply.spent_by("cheap")
    assert reply.recalled().spent_by("cheap") == reply.recalled()
