"""Budgets: what they accept, reserve and count, however calls overlap."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.samples import amount
from ziggurat import ConfigurationError, Context, ModelRequest, ModelResponse, ModelSettings, Usage, user
from ziggurat.calls.admission import ADMISSION, Reservation, Spending, budgeted
from ziggurat.core import JOURNAL, LocalJournal, root
from ziggurat.core.codec import encode
from ziggurat.core.entries import Failure, Result
from ziggurat.errors import LimitExceeded
from ziggurat.messages import ToolSpec, Transcript, assistant
from ziggurat.messages.budget import ASSUMED_OUTPUT, Budget


def request(text: str = "x" * 40, **settings: int) -> ModelRequest:
    return ModelRequest(Transcript.of(user(text)), settings=ModelSettings(**settings))  # type: ignore[arg-type]


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
    spending.admit(request(), root()).settle([Usage(10, 5000, requests=1)])
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
    assert (caught.value.kind, caught.value.limit, caught.value.used) == ("requests", 2, 2)
    first.settle([])  # it cost nothing
    spending.admit(request(), ctx)


def test_what_a_call_may_cost_is_reserved_and_then_replaced_by_what_it_cost() -> None:
    spending = Spending(Budget(tokens=1000, requests=9))
    permit = spending.admit(request(max_tokens=600), root())
    tokens = spending.meters["tokens"]
    assert 600 < tokens.reserved < 700
    with pytest.raises(LimitExceeded, match="tokens"):
        spending.admit(request(max_tokens=600), root())
    permit.settle([Usage(10, 20, requests=1)])
    assert (tokens.reserved, tokens.spent, spending.meters["requests"].spent) == (0, 30, 1)
    spending.admit(request(max_tokens=600), root())


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
        reservation.settle([usage])
        for kind, used in (("tokens", usage.total), ("output", usage.output or 0)):
            self.spent[kind] += used
            self.excess[kind] += max(0, used - need[kind])

    def over(self, kind: str) -> int:
        return max(0, self.spent[kind] - self.limit)


@pytest.mark.parametrize("beyond", [0, 50])
@pytest.mark.parametrize("limited", [True, False])
@settings(max_examples=amount(15, 60))
@given(data=st.data(), limit=st.integers(1_000, 9_000), events=st.lists(st.booleans(), max_size=30))
def test_a_run_is_over_its_limit_only_by_what_calls_in_progress_use_beyond_what_was_reserved(
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
def test_calls_one_after_another_are_over_by_one_calls_excess_at_most(
    limited: bool, data: st.DataObject, limit: int, calls: int
) -> None:
    schedule = Schedule(lambda most: data.draw(st.integers(0, most)), limit, limited=limited, beyond=50)
    most = 0
    for _ in range(calls):
        schedule.begin()
        schedule.end()
        most = max(most, *schedule.excess.values())
    assert max(schedule.over(kind) for kind in KINDS) <= most
