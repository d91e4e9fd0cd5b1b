"""The calls of a model that the hooks around it make, as they may await it several times, and what each has cost."""

from msgspec.structs import replace

from ziggurat.calls.admission import AdmitTry, metered
from ziggurat.core.context import ADMIT_TRY, Context
from ziggurat.core.protocols import usage_of
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.model import Model, ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage, sum_of


class ModelTries:
    """A model within its hooks; a layer there, such as `retry`, has its tries admitted and charged by itself."""

    __slots__ = ("_admit", "_admitted", "_begun", "_journal", "_path", "_tries", "_unmatched", "_within", "inner")

    def __init__(self, model: Model, ctx: Context, journal: LocalJournal) -> None:
        self.inner: Model = model
        self._journal = journal
        self._path = ctx.path
        self._admit = ctx.scope.get(ADMIT_TRY)
        self._admitted = 0  # how often tries had been admitted when the last one began or ended
        self._begun = 0
        self._tries: list[object] = []  # the usage or the error of each
        self._unmatched: list[object] = []  # of these, those that no hook has charged
        self._within: list[object] = []  # what was charged by others than the hooks, or not for a try

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        self._take_charges()
        if self._begun and self._admit is not None and self._times() == self._admitted:
            self._admit(self._tries[-1] if len(self._tries) == self._begun else None)
        self._begun += 1
        self._admitted = self._times()
        try:
            response = await self.inner(request, ctx)
        except BaseException as error:
            self._end(usage_of(error) or error)
            raise
        self._end(getattr(response, "usage", None) or Usage(requests=1))
        return response

    def _times(self) -> int:
        return self._admit.times if isinstance(self._admit, AdmitTry) else 0

    def _end(self, cost: object) -> None:
        if self._journal.charges is not None:
            self._within += self._journal.take_charges(self._path)
        self._tries.append(cost)
        self._unmatched.append(cost)
        self._admitted = self._times()

    def _take_charges(self) -> None:
        """Take what hooks have charged; what they charge for a try is counted with it."""
        for charged in () if self._journal.charges is None else self._journal.take_charges(self._path):
            own = [at for at, cost in enumerate(self._unmatched) if cost is charged]
            if own:
                del self._unmatched[own[0]]
            else:
                self._within.append(charged)

    def answered(self, response: ModelResponse) -> tuple[ModelResponse, tuple[object, ...]]:
        """Return the reply that the hooks pass on, and what the call has cost besides."""
        self._take_charges()
        usages = [each for each in self._tries if isinstance(each, Usage)]
        if not usages:
            return response, metered([*self._within, *self._tries])
        stated = response.usage
        if stated.input is None and stated.output is None and stated not in usages:
            response = replace(response, usage=usages[-1])
        elif len(usages) > 1 and stated == sum_of(*usages):
            if not any(each.model for each in usages):
                return response, metered([*self._within, *(each for each in self._tries if each not in usages)])
            response = replace(response, usage=usages[-1])  # each was perhaps of another model
        others = [*self._tries]
        others.remove(response.usage if response.usage in usages else usages[-1])
        return response.spent_by(usages[-1].model), metered([*self._within, *others])

    def failed(self, error: BaseException) -> tuple[object, ...]:
        """Return what the call has cost that ends with an error."""
        self._take_charges()
        costs = [*self._within, *self._tries]
        usage = None if self._journal.is_from_below(self._path, error) else usage_of(error)
        if usage is not None and not any(usage is each for each in costs):
            costs.append(usage)
        return metered(costs)

    def __repr__(self) -> str:
        return repr(self.inner)
