"""The approval gate of model calls."""

__all__ = ["ModelGate", "gated"]

from ziggurat.core.codec import decode, encode
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.errors import Denied, InvalidArguments, JournalCorrupt
from ziggurat.core.facts import name_of
from ziggurat.messages.agent import Deny, Modify
from ziggurat.messages.approval import APPROVALS, Judgement, decision_for, item_of, judge, waiting_call
from ziggurat.messages.canonical import canonical
from ziggurat.messages.events import ApprovalDecided, ApprovalExecuted
from ziggurat.messages.middleware import MIDDLEWARE, Chain, Middleware
from ziggurat.messages.model import Model, ModelRequest, ModelResponse
from ziggurat.messages.parts import ToolCall


class ModelGate(Middleware):
    """Asks for a decision on each question to a model that the approvals in scope speak of.

    The whole request as JSON stands for the arguments of a call named like the model; who decides may give another.
    It is put outermost of all that wraps models by an agent whose approvals have rules for models.
    """

    async def wrap_model(self, request: ModelRequest, ctx: Context, model: Model) -> ModelResponse:
        """Ask the model what was agreed to.

        Raises:
            Denied: a rule or a person said no; the run stops for it.
            Suspend: nobody in this process decides.
        """
        name = _model_name(model)
        if not any(gate.concern(name, "model") for gate in ctx.scope.get(APPROVALS) or ()):
            return await model(request, ctx)
        frozen = ToolCall("", name, canonical(encode(request).decode(), name))
        record = ctx.scope[JOURNAL].find(ctx.path)
        if record is not None and record.pending is not None:
            waited = waiting_call(record, ctx)
            if waited is not None and waited.arguments != frozen.arguments:  # the hooks have made another one since
                frozen, request = waited, _request_of(waited)
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
        item, decision = await decision_for(frozen, judgement, record, ctx, "model", _request_of)
        if isinstance(decision, Deny):
            raise Denied(decision.reason)
        if isinstance(decision, Modify):
            frozen = ToolCall("", name, decision.arguments)
            request = await _changed(frozen, ctx)
        if ctx.listens(ApprovalExecuted):
            await ctx.emit(ApprovalExecuted(ctx.path, item.id, frozen))
        return await model(request, ctx)


def _request_of(call: ToolCall) -> ModelRequest:
    try:
        return decode(call.arguments, ModelRequest)
    except JournalCorrupt as error:
        raise InvalidArguments(f"that is not a request to {call.name}: {error}") from error


async def _changed(call: ToolCall, ctx: Context) -> ModelRequest:
    """Return the request that who decided put in place of the one asked; a rule that denies holds for it too."""
    judgement = await judge(call.name, canonical(call.arguments, call.name), ctx, "model")
    if judgement.verdict == "deny":
        raise Denied(judgement.reason)
    return _request_of(call)


def _model_name(model: Model) -> str:
    """Return the model's name, whatever is wrapped around it here."""
    inner: object = model
    while isinstance(getattr(inner, "args", None), tuple):  # a middleware with what it wraps
        inner = inner.args[-1]  # type: ignore[attr-defined]
    return name_of(inner)


_GATE = ModelGate()


def gated(ctx: Context) -> Context:
    """Return a context in which questions to models pass the gate, if the approvals there speak of any."""
    approvals = ctx.scope.get(APPROVALS) or ()
    if not any(rule.stage == "model" for gate in approvals for rule in gate.rules):
        return ctx
    chain = ctx.scope.get(MIDDLEWARE) or Chain()
    if _GATE in chain.middlewares:
        return ctx
    return ctx.within(MIDDLEWARE, Chain((_GATE, *chain.middlewares)))
