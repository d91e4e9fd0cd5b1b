"""The tries of one model call: its hooks may await the model several times, and its layers send it several requests.

This is the door of a model. Whatever passes it has complete usage, which the record, the budgets, the hooks and the
sums of the run read.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from ziggurat.calls.admission import Reservation
from ziggurat.calls.costs import cost_of, costs_of, with_usage
from ziggurat.core.context import Context
from ziggurat.core.errors import attach
from ziggurat.core.protocols import usage_of
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.budget import expected_usage
from ziggurat.messages.model import Model, ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage, sum_of

_FROM_BELOW = Usage(0, 0, requests=1)


class ModelTries:
    """A model within its hooks; a layer there, such as `retry`, has its tries admitted and charged by itself."""

    __slots__ = (
        "_admissions", "_admitted", "_begun", "_journal", "_path", "_request", "_reserved", "_tries", "_unmatched",
        "_within", "inner",
    )  # fmt: skip

    def __init__(
        self,
        model: Model,
        request: ModelRequest,
        path: str,
        journal: LocalJournal,
        reserved: Sequence[Reservation],
    ) -> None:
        self.inner: Model = model
        self._request = request  # of the last try
        self._journal = journal
        self._path = path
        self._reserved = reserved
        self._admissions = 0
        self._admitted = 0  # how often tries had been admitted when the last one began or ended
        self._begun = 0
        self._tries: list[Usage | None] = []  # what each has used; None if nothing was sent
        self._unmatched: list[object] = []  # of these, the usage or the error of those that no hook has charged
        self._within: list[object] = []  # what was charged by others than the hooks, or not for a try

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        if self._begun:
            self._take_charges()
            if self._admissions == self._admitted:
                self.admit((self._tries[-1] or Usage()) if len(self._tries) == self._begun else None)
        self._begun += 1
        self._admitted = self._admissions
        self._request = request
        try:
            response = await self.inner(request, ctx)
            if isinstance(response, ModelResponse):
                response = with_usage(response, request)
        except BaseException as error:
            self._end(self._cost_of(error), error)
            raise
        self._end(response.usage if isinstance(response, ModelResponse) else _FROM_BELOW)
        return response

    def admit(self, before: object) -> None:
        """Admit a try after one whose usage or error is given; without it, beside those that go on.

        Raises:
            LimitExceeded: no budget is left for it.
        """
        beside = before is None
        for each in () if beside else self._reserved:
            each.lose(before)
        for each in self._reserved:
            each.check_try(beside=beside)
        for each in self._reserved if beside else ():
            each.hold(1)
        self._admissions += 1

    def _cost_of(self, error: BaseException) -> Usage | None:
        """Return what a try has cost that ended with an error; None if nothing was sent."""
        if self._journal.is_from_below(self._path, error):
            return _FROM_BELOW  # what was called there has counted itself
        cost = cost_of(error, self._expected)
        if not isinstance(cost, Usage):
            return None
        if usage_of(error) is not None:
            attach(error, "usage", cost)  # hooks read it there
        return cost

    @property
    def _expected(self) -> Usage:
        """What a try is assumed to have used whose usage is unknown: as much as any budget reserves for it."""
        estimates = [each.estimate for each in self._reserved] or [expected_usage(self._request)]
        return max(estimates, key=lambda usage: usage.total)

    def _end(self, cost: Usage | None, error: BaseException | None = None) -> None:
        self._within += self._journal.take_charges(self._path)
        self._tries.append(cost)
        self._unmatched.append(cost if error is None else usage_of(error) or error)
        self._admitted = self._admissions

    def _take_charges(self) -> None:
        """Take what hooks have charged; what they charge for a try is counted with it."""
        for charged in self._journal.take_charges(self._path):
            own = [at for at, cost in enumerate(self._unmatched) if cost is charged]
            if own:
                del self._unmatched[own[0]]
            else:
                self._within.append(charged)

    def answered(self, response: ModelResponse) -> tuple[ModelResponse, tuple[object, ...]]:
        """Return the reply that the hooks pass on, with complete usage, and what the call has cost besides."""
        self._take_charges()
        usages = [each for each in self._tries if each is not None]
        stated = response.usage
        if len(usages) == 1 and usages[0] is stated and not self._within:
            return response, ()
        others = [*usages]
        if usages:
            forgotten = not isinstance(stated, Usage) or (stated.input is None and stated.output is None)
            if forgotten and stated not in usages:
                response = replace(response, usage=usages[-1])
            elif len(usages) > 1 and stated == sum_of(*usages):
                if not any(each.model for each in usages):
                    return response, self._costs(self._within)
                response = replace(response, usage=usages[-1])  # each was perhaps of another model
            others.remove(response.usage if response.usage in usages else usages[-1])
            response = response.spent_by(usages[-1].model)
        return with_usage(response, self._request), self._costs([*self._within, *others])

    def failed(self, error: BaseException) -> tuple[object, ...]:
        """Return what the call has cost that ends with an error."""
        self._take_charges()
        costs = [*self._within, *self._tries]
        usage = None if self._journal.is_from_below(self._path, error) else usage_of(error)
        if usage is not None and not any(usage is each for each in costs):
            costs.append(usage)
        return self._costs(costs)

    def _costs(self, costs: Sequence[object]) -> tuple[object, ...]:
        return costs_of(costs, self._expected) if costs else ()

    def __repr__(self) -> str:
        return repr(self.inner)
