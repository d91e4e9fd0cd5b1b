"""Ask a model: every model call of every agent goes through `ask_model`, in this order.

    look up the journal > budgets > before_model > approval > wrap_model > the model's own layers > the model
    > delta filters > after_model > record

The deltas that a listener gets always add up to the message that the conversation gets. A model call is made of its
hooks: what they call is recorded, counted and admitted by itself, and its layers are recorded with it as one call.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from ziggurat.calls.admission import ADMISSION, Reservation, admit
from ziggurat.calls.gate import pass_gate
from ziggurat.calls.hooks import MIDDLEWARE, NO_CHAIN, HookChain, run_hooks, tell, wrap
from ziggurat.calls.model_tries import ModelTries
from ziggurat.calls.wait import is_waiting, waiting_call
from ziggurat.core.codec import decode, encode
from ziggurat.core.context import Context, count
from ziggurat.core.errors import InvalidArguments, JournalCorrupt
from ziggurat.core.event import SILENCE, Dropped
from ziggurat.core.service import ALTERNATIVES, fact, must_be, name_of
from ziggurat.core.tasks import contained
from ziggurat.journal.entries import Outcome, PlainResult, Record, Result
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages.canonical import canonical
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.delta import deltas_of, fit, refolded, unrepeated
from ziggurat.messages.events import ApprovalExecuted, Delta, ModelEnded, ModelStarted
from ziggurat.messages.model import Model, ModelRequest, ModelResponse
from ziggurat.messages.parts import ToolCall
from ziggurat.messages.pending import refuse
from ziggurat.tools.approval import APPROVALS


async def ask_model(model: Model, request: ModelRequest, ctx: Context, name: str | None = None) -> ModelResponse:
    """Ask a model at this context's path; if the record has an answer there, return that instead."""
    name = name or name_of(model)
    journal = journal_of(ctx)
    chain = ctx.scope.get(MIDDLEWARE) or NO_CHAIN
    if ctx.emit is not SILENCE:
        await ctx.emit(ModelStarted(ctx.path, name, len(request.messages)))
    if (record := journal.find(ctx.path)) is not None and (outcome := journal.next_outcome(ctx, record)) is not None:
        return await _recorded_response(outcome, name, request, ctx, chain, journal)
    original = request
    reserved: Sequence[Reservation] = ()
    tries: ModelTries | None = None
    try:
        if journal.refusing or journal.calm:
            refuse(name, ctx, journal)
        if ADMISSION in ctx.scope:
            reserved = admit(request, name, ctx, fact(model, ALTERNATIVES))
        tries = ModelTries(model, request, ctx.path, journal, reserved)
        if record is not None or chain.hooks["before_model"] or APPROVALS in ctx.scope:
            request = await _prepare(request, name, record, ctx, chain)
        if chain is NO_CHAIN and ctx.emit is SILENCE:
            response = await tries(request, ctx)
            must_be(response, ModelResponse, name, ctx)
            response = response if len(response.message.parts) < 2 else _unrepeated(response, original.messages)
        else:
            response = await _call(tries, name, request, original.messages, ctx, chain)
        response, lost = tries.answered(response)
        kind = Result if lost else PlainResult  # a lost try may have cost what belongs to users
        stored = journal.write(kind(ctx.path, name, original.messages.mark(), response, lost, journal.watch.elapsed))
        for each in reserved:
            each.release(sent=True)
        count(ctx, name, (*lost, response.usage), admitted=True)  # the budgets have counted each try as it ended
        await stored
    except BaseException as raised:  # noqa: BLE001 - raised again
        raise await _failed(raised, tries, name, original, reserved, ctx, chain, journal)  # noqa: B904 - it has its cause already
    if ctx.emit is not SILENCE:
        await _report_end(response, False, ctx, journal)
    return response


async def _recorded_response(
    outcome: Outcome, name: str, request: ModelRequest, ctx: Context, chain: HookChain, journal: LocalJournal
) -> ModelResponse:
    """Return the recorded answer, whose message is emitted as a whole, or raise the recorded error."""
    try:
        response = await journal.answer(ctx, outcome, name, request, ModelResponse)
    except BaseException as error:
        await _report_failure(error, ctx, chain)
        raise
    if ctx.emit is not SILENCE:
        for delta in deltas_of(fit(response.message)):
            await ctx.emit(Delta(ctx.path, delta))
        await _report_end(response, True, ctx, journal)
    return response


async def _failed(
    raised: BaseException,
    tries: ModelTries | None,
    name: str,
    request: ModelRequest,
    reserved: Sequence[Reservation],
    ctx: Context,
    chain: HookChain,
    journal: LocalJournal,
) -> BaseException:
    """Return the error of a failed call, after recording it, counting what it has cost, and reporting it."""
    error, record = contained(raised), journal.find(ctx.path)
    spent: tuple[object, ...] = ()
    if record is None or record.result is None:  # else it was answered, and does not become durable
        spent = () if tries is None else tries.failed(error)
        for each in reserved:
            each.release(sent=bool(spent))
        count(ctx, name, spent, admitted=True)
    try:
        await journal.write_failure(ctx, name, request, error, spent)
    except BaseException as failed:  # noqa: BLE001 - raised by the caller
        error = failed
    await _report_failure(error, ctx, chain)
    return error


async def _report_failure(error: BaseException, ctx: Context, chain: HookChain) -> None:
    if ctx.listens(Dropped):
        await ctx.emit(Dropped(ctx.path, type(error).__name__))
    if isinstance(error, Exception):
        await tell(chain, error, ctx)


async def _report_end(response: ModelResponse, recorded: bool, ctx: Context, journal: LocalJournal) -> None:
    if ctx.listens(ModelEnded):
        waiting = journal.settled()
        if waiting is not None:
            await waiting
        await ctx.emit(ModelEnded(ctx.path, response, recorded))


async def _call(
    tries: ModelTries, name: str, request: ModelRequest, before: Transcript, ctx: Context, chain: HookChain
) -> ModelResponse:
    """Call the model through middleware and filters, and return the message that the conversation `before` it gets."""
    pieces = None
    if chain.hooks["deltas"] or chain.hooks["on_model_delta"] or ctx.listens(Delta):
        from ziggurat.calls.delta_filters import FilteredDeltas  # most calls have no listener

        pieces = FilteredDeltas(ctx, chain)
    service = wrap(tries, chain, "wrap_model") if chain.hooks["wrap_model"] else tries
    response = await service(request, (ctx if pieces is None else ctx.emitting(pieces)).charging(tries))
    must_be(response, ModelResponse, name, ctx)
    if pieces is not None:
        response = await pieces.finish(response)
    changed = await run_hooks(chain, "after_model", response, ctx) if chain.hooks["after_model"] else response
    message = unrepeated(fit(changed.message), before)
    listening = pieces is not None and ctx.listens(Delta) and message is not response.message
    if listening and message != refolded(response.message):
        await ctx.emit(Dropped(ctx.path, "changed after it was said"))
        for delta in deltas_of(message):
            await ctx.emit(Delta(ctx.path, delta))
    return changed if message is changed.message else replace(changed, message=message)


def _unrepeated(response: ModelResponse, before: Transcript) -> ModelResponse:
    message = unrepeated(response.message, before)
    return response if message is response.message else replace(response, message=message)


# -- before the call -------------------------------------------------------------------------------------------------


async def _prepare(
    request: ModelRequest, name: str, record: Record | None, ctx: Context, chain: HookChain
) -> ModelRequest:
    """Return the request as the hooks leave it, and as it was approved."""
    if chain.hooks["before_model"]:
        request = await run_hooks(chain, "before_model", request, ctx)
    if APPROVALS in ctx.scope or record is not None:
        request = await _approve(request, name, record, ctx)
    return request


async def _approve(request: ModelRequest, name: str, record: Record | None, ctx: Context) -> ModelRequest:
    """Return the request as it was approved: a call named like the model, with the whole request as its arguments."""
    waits = record is not None and record.pending is not None
    if not waits and not any(gate.concern(name, "model") for gate in ctx.scope.get(APPROVALS) or ()):
        return request
    call = ToolCall("", name, _arguments_of(request, name))
    if record is not None and record.pending is not None:
        waited = waiting_call(record, ctx)
        if waited is not None and waited.arguments != call.arguments:  # the hooks changed the request meanwhile
            call, request = waited, _request_of(waited)
        elif waited is None and not is_waiting(call, record, ctx):
            raise JournalCorrupt(f"another call than this waits at {ctx.path} ({record.pending.id})")
    passed = await pass_gate(call, record, ctx, normalize_request)
    if passed.id and ctx.listens(ApprovalExecuted):
        await ctx.emit(ApprovalExecuted(ctx.path, passed.id, passed.call))
    return request if passed.call.arguments == call.arguments else _request_of(passed.call)


def normalize_request(call: ToolCall) -> ToolCall:
    """Return a call of a model with the whole request as it will be sent, as canonical JSON."""
    return ToolCall(call.id, call.name, _arguments_of(_request_of(call), call.name))


def _arguments_of(request: ModelRequest, name: str) -> str:
    return canonical(encode(request).decode(), name)


def _request_of(call: ToolCall) -> ModelRequest:
    try:
        return decode(call.arguments, ModelRequest)
    except JournalCorrupt as error:
        raise InvalidArguments(f"that is not a request to {call.name}: {error}") from error
