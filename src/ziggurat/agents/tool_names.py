"""Names of tools in approvals, budgets and stop policies: one that names no tool is most likely misspelt."""

from collections.abc import Iterator, Set

from ziggurat.agents.stop import Policy, tools_in
from ziggurat.calls.decisions import TOOLS
from ziggurat.core.facts import fact
from ziggurat.core.patterns import check_patterns
from ziggurat.messages.budget import Budget
from ziggurat.tools.approval import Approvals
from ziggurat.tools.toolbox import Toolbox

_MISSPELT = 0.7
"""The likeness from which a name is refused; others may be of a tool that a team or a client lends."""


def check_tool_names(
    agent: str, own: Set[str], box: Toolbox, approvals: Approvals | None, budget: Budget | None, stop: Policy | None
) -> None:
    """Warn once of each name and pattern that matches no tool of an agent or of the agents in its tools.

    Raises:
        ConfigurationError: it differs in few letters from the name of a tool, and no agent is among the tools.
    """
    asked = () if approvals is None else [rule.pattern for rule in approvals.rules if rule.stage == "tool"]
    given = {"Approvals": asked, "Budget(tools=...)": () if budget is None else budget.tools, "stop": tools_in(stop)}
    names = {*own, *_nested(box)}
    nested = any(entry.composite for entry in box.entries.values())
    for where, patterns in given.items():
        check_patterns(f"{where}: {agent!r}", patterns, names, None if nested else _MISSPELT)


def _nested(box: Toolbox) -> Iterator[str]:
    """Yield the names of the tools of the agents in a toolbox, and of the agents in theirs."""
    for entry in box.entries.values():
        if entry.composite and (inner := fact(entry.service, TOOLS)) is not None:
            yield from inner
            yield from _nested(inner)
