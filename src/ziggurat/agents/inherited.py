"""The rules of an agent, a flow or a team for all calls below it: middleware, approvals, budget and grants."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec.structs import replace

from ziggurat.calls.admission import budgeted
from ziggurat.calls.enter import AGENT, AgentParts
from ziggurat.calls.hooks import HookChain, chained
from ziggurat.core.context import Context
from ziggurat.core.service import EFFECT, NAME, Effect, Fact
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.middleware import AnyMiddleware
from ziggurat.messages.usage import Budget, Usage
from ziggurat.tools.approval import APPROVALS, Approvals
from ziggurat.tools.permissions import Permissions, known
from ziggurat.tools.threads import rules_hold

if TYPE_CHECKING:
    from decimal import Decimal


class InheritedArguments(TypedDict, total=False):
    budget: Budget | None
    approvals: Approvals | None
    grants: Permissions | None
    middleware: Sequence[AnyMiddleware]
    debug: bool | None


def agent_parts(
    name: str,
    arguments: InheritedArguments,
    *,
    setup: Callable[[], dict[str, str]],
    description: str,
    permissions: frozenset[str],
    read: Callable[[AgentRun], AgentRun] | None,
    keep: Callable[[AgentRun], AgentRun] | None,
) -> AgentParts:
    budget, grants = _with_prices(arguments.get("budget")), arguments.get("grants")
    chain, debug = HookChain(arguments.get("middleware", ())), arguments.get("debug")
    if debug is None:
        debug = os.environ.get("ZIGGURAT_DEBUG", "") not in ("", "0")
    return AgentParts(
        name,
        _preparing(chain, arguments.get("approvals"), budget, grants is not None),
        setup,
        description,
        permissions,
        None if grants is None else known(grants),
        read,
        keep,
        chain,
        debug=debug,
    )


def facts_of(parts: AgentParts, effect: Effect) -> dict[Fact[Any], Any]:
    return {AGENT: parts, NAME: parts.name, EFFECT: effect}


def _preparing(
    chain: HookChain, approvals: Approvals | None, budget: Budget | None, limited: bool
) -> Callable[[Context], Context] | None:
    def prepare(ctx: Context) -> Context:
        ctx = chained(ctx, chain)
        if approvals is not None:
            ctx = ctx.within(APPROVALS, (*(ctx.scope.get(APPROVALS) or ()), approvals))
        if budget is not None:
            ctx = budgeted(ctx, budget)
        if limited or approvals is not None:
            rules_hold(ctx)
        return ctx

    return prepare if chain.middlewares or approvals or budget or limited else None


def _with_prices(budget: Budget | None) -> Budget | None:
    if budget is None or budget.cost is None or budget.price is not None:
        return budget
    _list_price("", Usage(0, 0))  # raises MissingExtra here rather than during a run
    return replace(budget, price=_list_price)


def _list_price(model: str, usage: Usage) -> "Decimal | None":
    from ziggurat.messages.usage import price_of_calls

    return price_of_calls(usage, model)
