"""Judgement: what the approval rules of all agents together say about a call."""

__all__ = ["Judgement", "judge"]

import json
from collections.abc import Awaitable

from msgspec import Struct

from ziggurat.calls.failures import note_failure
from ziggurat.core.containment import as_failure
from ziggurat.core.context import AMBIENT, Context
from ziggurat.core.errors import described
from ziggurat.messages.agent import Stage
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.approval import APPROVALS, Approvals, Rule, Verdict


class Judgement(Struct, frozen=True):
    """The verdict of all rules on a call: allow, deny, or ask `desk` (None: no approver in this process)."""

    verdict: Verdict
    reason: str = ""
    desk: Approvals | None = None


async def judge(call: ToolCall, stage: Stage, ctx: Context, *, always: bool = False) -> Judgement:
    """Return the verdict of all rules together on a call: deny wins, then ask.

    The outermost `Approvals` that asks is the desk; if it has no approver, the next one further out that has. If only
    the tool itself asks (`always`), the desk is the outermost one with an approver.
    """
    gates = ctx.scope.get(APPROVALS) or ()
    asking: int | None = None
    why = ""
    for number, gate in enumerate(gates):
        verdict, reason = await _judge_by(gate, call, stage, ctx)
        if verdict == "deny":
            return Judgement("deny", reason or "the rules forbid it")
        if verdict == "ask" and asking is None:
            asking, why = number, reason
    if asking is not None:
        return Judgement("ask", why, next((gate for gate in reversed(gates[: asking + 1]) if gate.approver), None))
    if always:
        return Judgement("ask", "", next((gate for gate in gates if gate.approver), None))
    return Judgement("allow")


async def _judge_by(gate: Approvals, call: ToolCall, stage: Stage, ctx: Context) -> tuple[Verdict, str]:
    """Return the verdict of one `Approvals` on a call, and the reason."""
    concerned = [rule for rule in gate.rules if rule.concerns(call.name, stage)]
    unsure: str | None = None
    for rule in sorted(concerned, key=lambda rule: rule.verdict != "deny"):  # a stable sort
        if rule.verdict != "deny" and unsure is not None:
            break
        holds = await _applies(rule, call.arguments, ctx)
        if holds is True:
            return rule.verdict, rule.reason
        if holds is not False:
            unsure = unsure or f"a rule on {rule.pattern!r} could not be judged: {holds}"
    return ("allow", "") if unsure is None else ("ask", unsure)


async def _applies(rule: Rule, arguments: str, ctx: Context) -> bool | str:
    """Return whether a rule applies, or a text that says why that cannot be determined."""
    if rule.when is None:
        return True
    token = AMBIENT.set(ctx.at("approval"))
    try:
        answer = rule.when(json.loads(arguments))  # a copy, so the predicate cannot change the call
        if isinstance(answer, Awaitable):
            answer = await answer
    except BaseException as error:  # noqa: BLE001 - on any error a decision is asked for
        failure = as_failure(error)
        note_failure(failure, f"a rule on {rule.pattern!r}", ctx)
        return described(failure)
    finally:
        AMBIENT.reset(token)
    return answer if isinstance(answer, bool) else f"it answered {answer!r:.80}, not True or False"
