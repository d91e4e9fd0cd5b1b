"""Approval rules: which calls need a decision, which are denied, and who decides."""

from collections.abc import Awaitable, Callable
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from msgspec import Meta

from ziggurat.core.context import Key
from ziggurat.core.settings import CheckedStruct, NonEmptyText, Seconds, checked
from ziggurat.messages.agent import Decision, PendingItem, Stage

Approver = Callable[[PendingItem], Decision | Awaitable[Decision]]
"""Decides on a pending call in this process; sync (it must be quick then) or async."""

Predicate = Callable[[dict[str, Any]], bool | Awaitable[bool]]
"""Returns whether a rule applies, from the arguments that the tool will receive, as plain JSON values."""

Verdict = Literal["ask", "allow", "deny"]


class Rule(CheckedStruct, frozen=True):
    """A rule for calls of certain names.

    ::

        Approvals(Rule("pay", "deny", when=lambda arguments: arguments["amount"] > 1000, reason="too much"), "pay")

    Attributes:
        pattern: Names of tools (or models), with ``*`` and ``?``.
        verdict: ``"ask"`` for a decision, ``"allow"`` without asking, or ``"deny"``.
        when: Called with the arguments that the tool will receive, as plain JSON values: converted to the declared
            types (``"5"`` is 5 for an int; dates, decimals and enums as JSON has them), with all defaults. The rule
            applies if it returns True. If it raises, or returns anything but True or False, a decision is asked for.
        reason: Shown to the person who decides; for ``"deny"``, to the model.
        stage: Whether it applies to tool calls or to model calls; the arguments of a model call are its request.
    """

    pattern: Annotated[NonEmptyText, Meta(description="such as 'delete_*'")]
    verdict: Verdict = "ask"
    when: Predicate | None = None
    reason: str = ""
    stage: Literal["tool", "model"] = "tool"

    def concerns(self, name: str, stage: Stage) -> bool:
        """Return whether the rule is for calls of this name."""
        return self.stage == stage and fnmatchcase(name, self.pattern)


class Approvals:
    """Rules for the calls that need a decision, in addition to tools that always do, and who decides.

    ::

        Agent(model, tools=[...], approvals=Approvals("delete_*", "send_mail"))

    A rule that denies wins over all others; of the others the first that applies is used. Calls without a rule are
    allowed. The rules apply to all agents below too; those can add rules, but not remove any.

    Args:
        rules: Rules, or patterns of tool names, which ask.
        approver: Decides in this process; None suspends the run until it is resumed with a decision.
        timeout: Seconds after which a call is denied if the approver has not decided.
        expires: Seconds after which a call that suspended its run is denied, whichever rule or tool asked for the
            decision; with several `Approvals` in effect, the shortest is used.
    """

    @checked
    def __init__(
        self,
        *rules: str | Rule,
        approver: Approver | None = None,
        timeout: Seconds | None = None,
        expires: Seconds | None = None,
    ) -> None:
        self.rules: tuple[Rule, ...] = tuple(rule if isinstance(rule, Rule) else Rule(rule) for rule in rules)
        self.approver = approver
        self.timeout = timeout
        self.expires = expires

    def concern(self, name: str, stage: Stage = "tool") -> bool:
        """Return whether there is a rule for calls of this name."""
        return any(rule.concerns(name, stage) for rule in self.rules)

    def __repr__(self) -> str:
        texts = [repr(rule.pattern if rule == Rule(rule.pattern) else rule) for rule in self.rules]
        return f"Approvals({', '.join(texts)})"


APPROVALS: Key[tuple[Approvals, ...]] = Key("approvals")
"""All `Approvals` in effect, those of the outermost agent first."""
