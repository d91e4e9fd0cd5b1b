"""The tries of one model call: its hooks may await the model several times, and its layers send it several requests.

This is the door of a model. Whatever passes it has complete usage, which the record, the budgets, the hooks and the
sums of the run read. Each try is admitted once and ends once: with an answer, or lost, with its usage or its error.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from ziggurat.calls.admission import Reservation
from ziggurat.core.context import Charges, Context
from ziggurat.core.errors import attach
from ziggurat.core.failures import usage_of
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.budget import cost_of, expected_usage, with_usage
from ziggurat.messages.model import Model, ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage

_FROM_BELOW = Usage(0, 0, requests=1)
"""What a try has cost of a model that is made of other calls, which have counted themselves."""


class ModelTries(Charges):
    """A model as the hooks of one call await it, and what the call has cost so far, with what they use beside it."""

    __slots__ = ("_answers", "_journal", "_lost", "_path", "_ready", "_request", "_reserved", "inner")

    def __init__(
        self, model: Model, request: ModelRequest, path: str, journal: LocalJournal, reserved: Sequence[Reservation]
    ) -> None:
        self.inner: Model = model
        self._request = request  # of the last try
        self._path = path
        self._journal = journal
        self._reserved = reserved
        self._ready = 1  # the tries that were admitted and have not begun
        self._answers: list[Usage] = []  # the usage of each
        self._lost: list[object] = []  # what all else has cost

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        if not self._ready:
            self.admit()
        self._ready -= 1
        self._request = request
        tries = _LayerTries(self)
        try:
            response = await self.inner(request, ctx.charging(tries))
            if not isinstance(response, ModelResponse):
                tries.lose(_FROM_BELOW)
                return response
            response = with_usage(response, request)
        except BaseException as error:
            tries.lose(_FROM_BELOW if self._journal.is_from_below(self._path, error) else error)
            raise
        self._answers.append(response.usage)
        self._end(response.usage, tries.open)
        return response

    def charge(self, cost: object, /) -> None:
        if not any(cost is counted for counted in (*self._answers, *self._lost)):
            self.count(cost, 0)

    def lose(self, cost: object, /) -> None:
        if self._ready:  # it was a try of another model: those of this one end at the door
            self._ready -= 1
            self.count(cost, 1)
        elif not isinstance(cost, BaseException):
            self.charge(cost)

    def admit(self) -> None:
        self.reserve()
        self._ready += 1

    def reserve(self) -> None:
        """Reserve for another try in all budgets."""
        for each in self._reserved:
            each.check()
        for each in self._reserved:
            each.hold(1)

    def count(self, cost: object, tries: int) -> None:
        """Count what was used without giving an answer, and end as many tries."""
        known = None
        if not (isinstance(cost, BaseException) and self._journal.is_from_below(self._path, cost)):
            known = cost_of(cost, self._expected)
        if isinstance(cost, BaseException) and isinstance(known, Usage) and usage_of(cost) is not None:
            attach(cost, "usage", known)  # hooks read it there
        if known is not None:
            self._lost.append(known)
        self._end(known, tries)

    def _end(self, cost: object, tries: int) -> None:
        for each in self._reserved:
            each.end(cost, tries)

    @property
    def _expected(self) -> Usage:
        """What a try is assumed to have used whose usage is unknown: as much as any budget reserves for it."""
        estimates = [each.estimate for each in self._reserved] or [expected_usage(self._request)]
        return max(estimates, key=lambda usage: usage.total)

    def answered(self, response: ModelResponse) -> tuple[ModelResponse, tuple[object, ...]]:
        """Return the reply that the hooks pass on, with the usage of its try, and what the call has cost besides."""
        answers, own = self._answers, response.usage
        if len(answers) == 1 and own is answers[0]:
            return response, tuple(self._lost)
        if not answers:  # a hook has answered
            response = with_usage(response, self._request)
            self._end(response.usage, self._ready)
            return response, tuple(self._lost)
        if own not in answers:
            own = answers[-1]
        others = [*answers]
        others.remove(own)
        return replace(response, usage=own), (*self._lost, *others)

    def failed(self, error: BaseException) -> tuple[object, ...]:
        """Return what the call has cost that ends with an error."""
        stated = None if self._journal.is_from_below(self._path, error) else usage_of(error)
        if stated is not None:
            self.charge(stated)
        return (*self._lost, *self._answers)

    def __repr__(self) -> str:
        return repr(self.inner)


class _LayerTries(Charges):
    """The tries that the layers of a model make each time it is awaited."""

    __slots__ = ("_call", "open")

    def __init__(self, call: ModelTries) -> None:
        self._call = call
        self.open = 1  # those that have not ended

    def charge(self, cost: object, /) -> None:
        self._call.count(cost, 0)

    def lose(self, cost: object, /) -> None:
        if self.open or not isinstance(cost, BaseException):
            ended = min(self.open, 1)
            self.open -= ended
            self._call.count(cost, ended)

    def admit(self) -> None:
        self._call.reserve()
        self.open += 1
