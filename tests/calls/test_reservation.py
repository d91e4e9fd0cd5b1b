"""What is reserved for model calls: however they overlap, a run is over its limit only by what they use beyond it."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.samples import amount
from ziggurat import ModelRequest, ModelSettings, Usage, user
from ziggurat.calls.admission import Reservation, Spending
from ziggurat.core import root
from ziggurat.errors import LimitExceeded
from ziggurat.messages import Transcript
from ziggurat.messages.budget import ASSUMED_OUTPUT, Budget

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
