"""ModelGate: the approval gate of model calls."""

__all__ = ["ModelGate", "with_model_gate"]

from ziggurat.core.codec import decode, encode
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.errors import Denied, InvalidArguments, JournalCorrupt
from ziggurat.core.facts import name_of
from ziggurat.messages.agent import Deny, Modify
from ziggurat.messages.approval import APPROVALS, Judgement, decision_for, is_waiting, item_of, judge, waiting_call
from ziggurat.messages.canonical import canonical
from ziggurat.messages.events import ApprovalDecided, ApprovalExecuted
from ziggurat.messages.middleware import MIDDLEWARE, Chain, Middleware
from ziggurat.messages.model import Model, ModelRequest, ModelResponse
from ziggurat.messages.parts import ToolCall


class ModelGate(Middleware):
    """Asks for a decision on each model call that the approval rules in scope apply to.

    The request is shown as a call named like the model, with the whole request as JSON arguments; a decision may change
    it. An agent whose approvals have rules for models adds it as the outermost middleware.
    """

    async def wrap_model(self, request: ModelRequest, ctx: Context, model: Model) -> ModelResponse:
        """Ask the model the approved request.

        Raises:
            Denied: a rule or a person said no; this stops the run.
            Suspend: there is no approver in this process.
        """
        name = _model_name(model)
        if not any(gate.concern(name, "model") for gate in ctx.scope.get(APPROVALS) or ()):
            return await model(request, ctx)
        frozen = ToolCall("", name, canonical(encode(request).decode(), name))
        record = ctx.scope[JOURNAL].find(ctx.path)
        if record is not None and record.pending is not None:
            waited = waiting_call(record, ctx)
            if waited is not None and waited.arguments != frozen.arguments:  # the hooks changed the request meanwhile
                frozen, request = waited, _request_of(waited)
            if waited is None and not is_waiting(frozen, record, ctx):
                raise JournalCorrupt(f"another call than this waits at {ctx.path} ({record.pending.id})")
        judgement = Judgement("ask")
        if record is None or record.decided is None:
            judgement = await judge(name, frozen.arguments, ctx, "model")
            if judgement.verdict == "allow":
                return await model(request, ctx)
            if judgement.verdict == "deny":
                if ctx.listens(ApprovalDecided):
                    denial = Deny(judgement.reason)
                    await ctx.emit(ApprovalDecided(ctx.path, item_of(frozen, ctx).id, frozen, denial))
                raise Denied(judgement.reason)
        item, decision = await decision_for(frozen, judgement, record, ctx, "model", _normalize)
        if isinstance(decision, Deny):
            raise Denied(decision.reason)
        if isinstance(decision, Modify):
            frozen = _normalize(ToolCall("", name, decision.arguments))
            request = await _changed_request(frozen, ctx)
        if ctx.listens(ApprovalExecuted):
            await ctx.emit(ApprovalExecuted(ctx.path, item.id, frozen))
        return await model(request, ctx)


def _request_of(call: ToolCall) -> ModelRequest:
    try:
        return decode(call.arguments, ModelRequest)
    except JournalCorrupt as error:
        raise InvalidArguments(f"that is not a request to {call.name}: {error}") from error


def _normalize(call: ToolCall) -> ToolCall:
    """Return the call with the whole request as it will be sent, as canonical JSON."""
    return ToolCall(call.id, call.name, canonical(encode(_request_of(call)).decode(), call.name))


async def _changed_request(call: ToolCall, ctx: Context) -> ModelRequest:
    """Return the request as changed by a decision; rules that deny apply to it too."""
    judgement = await judge(call.name, call.arguments, ctx, "model")
    if judgement.verdict == "deny":
        raise Denied(judgement.reason)
    return _request_of(call)


def _model_name(model: Model) -> str:
    """Return the model's name, below the middleware wrapped around it."""
    inner: object = model
    while isinstance(getattr(inner, "args", None), tuple):  # a partial: a middleware with the model it wraps
        inner = inner.args[-1]  # type: ignore[attr-defined]
    return name_of(inner)


_GATE = ModelGate()


def with_model_gate(ctx: Context) -> Context:
    """Return a context in which model calls pass the gate, if its approvals have rules for models."""
    approvals = ctx.scope.get(APPROVALS) or ()
    if not any(rule.stage == "model" for gate in approvals for rule in gate.rules):
        return ctx
    chain = ctx.scope.get(MIDDLEWARE) or Chain()
    if _GATE in chain.middlewares:
        return ctx
    return ctx.within(MIDDLEWARE, Chain((_GATE, *chain.middlewares)))
