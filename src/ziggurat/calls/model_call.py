"""Ask a model: every model call of every agent goes through `ask_model`, in this order.

    look up the journal > budgets > before_model > approval > wrap_model > the model's own layers > the model
    > delta filters > after_model > record

The deltas that a listener gets always add up to the message that the conversation gets. A model call is made of its
hooks: what they call is recorded, counted and admitted by itself, and its layers are recorded with it as one call.
`ModelTries` is the door of a model: whatever passes it has complete usage, which the record, the budgets, the hooks and
the sums of the run read. Each try is admitted once and ends once: with an answer, or lost, with its usage or its error.
"""

from collections.abc import Sequence
from copy import copy

from msgspec.structs import replace

from ziggurat.calls import admission, deltas, hooks
from ziggurat.calls.gate import approve_request
from ziggurat.core.context import Charges, Context, count
from ziggurat.core.errors import attach
from ziggurat.core.event import Dropped
from ziggurat.core.failures import usage_of
from ziggurat.core.service import must_be, name_of
from ziggurat.core.tasks import contained
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages import events, usage
from ziggurat.messages.agent import refuse
from ziggurat.messages.conversation import Transcript, unrepeated
from ziggurat.messages.message import fit, refolded
from ziggurat.messages.model import Model, ModelRequest, ModelResponse
from ziggurat.tools.approval import APPROVALS

_FROM_BELOW = usage.Usage(0, 0, requests=1)
"""What a try has cost of a model that is made of other calls, which have counted themselves."""


class ModelTries(Charges):
    """A model as one call awaits it, with the tries of its layers, and what the call has cost so far."""

    def __init__(self, model: Model, name: str, request: ModelRequest, ctx: Context) -> None:
        self.inner: Model = model
        self.name = name
        self.request: ModelRequest = request  # of the last try
        self.ctx = ctx  # of the call
        self.journal: LocalJournal = journal_of(ctx)
        self.reserved: Sequence[admission.Reservation] = ()
        self._open = 1  # the tries that were admitted and have not ended
        self._answers: list[usage.Usage] = []  # the usage of each
        self._lost: list[object] = []  # what all else has cost

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        self.request = request
        try:
            response = await self.inner(request, ctx.charging(self))
            if not isinstance(response, ModelResponse):
                self.lose(_FROM_BELOW)
                must_be(response, ModelResponse, self.name, ctx)
            response = usage.with_usage(response, request)
        except BaseException as error:
            self.lose(_FROM_BELOW if self.journal.is_from_below(self.ctx.path, error) else error)
            raise
        self._answers.append(response.usage)
        self._end(response.usage, self._open)
        return response

    def charge(self, cost: object, /) -> None:
        self.count(cost, 0)

    def lose(self, cost: object, /) -> None:
        if self._open or not isinstance(cost, BaseException):
            ended = min(self._open, 1)
            self._open -= ended
            self.count(cost, ended)

    def admit(self) -> None:
        self.reserve()
        self._open += 1

    def reserve(self) -> None:
        for each in self.reserved:
            each.check()
        for each in self.reserved:
            each.hold(1)

    def count(self, cost: object, tries: int) -> None:
        """Count what was used without giving an answer, and end as many tries."""
        known = None
        if not (isinstance(cost, BaseException) and self.journal.is_from_below(self.ctx.path, cost)):
            known = usage.cost_of(cost, self._expected)
        if isinstance(cost, BaseException) and isinstance(known, usage.Usage) and usage_of(cost) is not None:
            attach(cost, "usage", known)  # hooks read it there
        if known is not None:
            self._lost.append(known)
        self._end(known, tries)

    def count_once(self, cost: object) -> None:
        if not any(cost is counted for counted in (*self._answers, *self._lost)):
            self.count(cost, 0)

    def _end(self, cost: object, tries: int) -> None:
        for each in self.reserved:
            each.end(cost, tries)

    @property
    def _expected(self) -> usage.Usage:
        """What a try is assumed to have used whose usage is unknown: as much as any budget reserves for it."""
        estimates = [each.estimate for each in self.reserved] or [usage.expected_usage(self.request)]
        return max(estimates, key=lambda estimate: estimate.total)

    def answered(self, response: ModelResponse) -> tuple[ModelResponse, tuple[object, ...]]:
        """Return the reply that the hooks pass on, with the usage of its try, and what the call has cost besides."""
        if not self._answers:  # a hook has answered
            response = usage.with_usage(response, self.request)
            self._end(response.usage, 0)
        others = [*self._answers] or [response.usage]
        own = response.usage if response.usage in others else others[-1]
        others.remove(own)
        return response if own is response.usage else replace(response, usage=own), (*self._lost, *others)

    def failed(self, error: BaseException) -> tuple[object, ...]:
        stated = None if self.journal.is_from_below(self.ctx.path, error) else usage_of(error)
        if stated is not None:
            self.count_once(stated)
        return (*self._lost, *self._answers)

    def settle(self, spent: tuple[object, ...]) -> None:
        """End what is reserved, and count what the call has cost; the budgets have counted each try as it ended."""
        for each in self.reserved:
            each.release(sent=bool(spent))
        count(self.ctx, self.name, spent, admitted=True)


class _HookTries(Charges):
    """A model as the hooks around it await it, any number of times, and what they use beside it."""

    def __init__(self, tries: ModelTries) -> None:
        self.inner: Model = tries.inner
        self._tries = tries
        self._ready = 1  # the tries that were admitted and have not begun

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        if not self._ready:
            self.admit()
        self._ready -= 1
        self._tries.request = request
        return await copy(self._tries)(request, ctx)  # its layers have tries of their own; what they cost is shared

    def charge(self, cost: object, /) -> None:
        self._tries.count_once(cost)

    def lose(self, cost: object, /) -> None:
        if self._ready:  # it was a try of another model: those of this one end at the door
            self._ready -= 1
            self._tries.count(cost, 1)
        elif not isinstance(cost, BaseException):
            self.charge(cost)

    def admit(self) -> None:
        self._tries.reserve()
        self._ready += 1

    def __repr__(self) -> str:
        return repr(self.inner)


# -- the call --------------------------------------------------------------------------------------------------------


async def ask_model(model: Model, request: ModelRequest, ctx: Context, name: str | None = None) -> ModelResponse:
    """Ask a model at this context's path; if the record has an answer there, return that instead."""
    name = name or name_of(model)
    journal = journal_of(ctx)
    chain = ctx.scope.get(hooks.MIDDLEWARE) or hooks.NO_CHAIN
    if ctx.listens(events.ModelStarted):
        await ctx.emit(events.ModelStarted(ctx.path, name, len(request.messages)))
    if (record := journal.find(ctx.path)) is not None and (outcome := journal.next_outcome(ctx, record)) is not None:
        return await _recorded_response(outcome, name, request, ctx, chain)
    original, tries = request, ModelTries(model, name, request, ctx)
    try:
        if journal.refusing or journal.calm:
            refuse(name, ctx, journal)
        if admission.ADMISSION in ctx.scope:
            tries.reserved = admission.admit(model, request, name, ctx)
        if chain.hooks["before_model"]:
            request = await hooks.run_hooks(chain, "before_model", request, ctx)
        if record is not None or APPROVALS in ctx.scope:
            request = await approve_request(request, name, record, ctx)
        response = await _call(tries, request, original.messages, ctx, chain)
        response, lost = tries.answered(response)
        kind = entries.Result if lost else entries.PlainResult  # a lost try may have cost what belongs to users
        stored = journal.append(kind(ctx.path, name, original.messages, response, lost, journal.watch.elapsed))
        tries.settle((*lost, response.usage))
        if stored is not None:
            await stored
    except BaseException as raised:  # noqa: BLE001 - raised again
        raise await _failed(raised, tries, original, chain)  # noqa: B904 - it has its cause already
    if ctx.listens(events.ModelEnded):
        if (waiting := journal.settled()) is not None:
            await waiting
        await ctx.emit(events.ModelEnded(ctx.path, response))
    return response


async def _recorded_response(
    outcome: entries.Outcome, name: str, request: ModelRequest, ctx: Context, chain: hooks.HookChain
) -> ModelResponse:
    try:
        response = await journal_of(ctx).answer(ctx, outcome, name, request, ModelResponse)
    except BaseException as error:
        await _report_failure(error, ctx, chain)
        raise
    response = replace(response, message=fit(response.message))
    if ctx.listens(events.Delta):
        await deltas.emit_deltas(response.message, ctx)
    if ctx.listens(events.ModelEnded):
        await ctx.emit(events.ModelEnded(ctx.path, response, replayed=True))
    return response


async def _failed(
    raised: BaseException, tries: ModelTries, request: ModelRequest, chain: hooks.HookChain
) -> BaseException:
    ctx, journal = tries.ctx, tries.journal
    error, record = contained(raised), journal.find(ctx.path)
    spent: tuple[object, ...] = ()
    if record is None or record.result is None:  # else it was answered, and does not become durable
        spent = tries.failed(error)
        tries.settle(spent)
    try:
        await journal.write_failure(ctx, tries.name, request, error, spent)
    except BaseException as failed:  # noqa: BLE001 - raised by the caller
        error = failed
    await _report_failure(error, ctx, chain)
    return error


async def _report_failure(error: BaseException, ctx: Context, chain: hooks.HookChain) -> None:
    if ctx.listens(Dropped):
        await ctx.emit(Dropped(ctx.path, type(error).__name__))
    if isinstance(error, Exception):
        await hooks.tell(chain, error, ctx)


async def _call(
    tries: ModelTries, request: ModelRequest, before: Transcript, ctx: Context, chain: hooks.HookChain
) -> ModelResponse:
    """Call the model through middleware and filters, and return the message that the conversation `before` it gets."""
    pieces = None
    if chain.hooks["deltas"] or chain.hooks["on_model_delta"] or ctx.listens(events.Delta):
        pieces = deltas.ReplyDeltas(ctx, chain)
    at = ctx if pieces is None else ctx.emitting(pieces)
    service: Model = tries
    if chain.hooks["wrap_model"]:
        within = _HookTries(tries)
        service, at = hooks.wrap(within, chain, "wrap_model"), at.charging(within)
    response = await service(request, at)
    if pieces is not None:
        response = await pieces.finish(response)
    changed = await hooks.run_hooks(chain, "after_model", response, ctx) if chain.hooks["after_model"] else response
    message = unrepeated(fit(changed.message), before)
    listening = pieces is not None and ctx.listens(events.Delta) and message is not response.message
    if listening and message != refolded(response.message):
        await ctx.emit(Dropped(ctx.path, "changed after it was said"))
        await deltas.emit_deltas(message, ctx)
    return changed if message is changed.message else replace(changed, message=message)
