"""Names of tools in approvals, budgets and stop policies: one that names no tool is most likely misspelt."""

from collections.abc import Iterator, Set
from fnmatch import fnmatchcase

from ziggurat.agents.stop import Policy, tools_in
from ziggurat.calls.decisions import TOOLS
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import warn_once
from ziggurat.core.facts import fact
from ziggurat.core.similar import similar
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
    if box.sources:  # their tools are known when a run begins
        return
    nested = any(entry.composite for entry in box.entries.values())
    for where, patterns in given.items():
        for pattern in patterns:
            if pattern == "*" or any(fnmatchcase(name, pattern) for name in names):
                continue
            near = similar(pattern, names)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(names)) or 'none'}"
            text = f"{where}: {agent!r} has no tool {pattern!r}; {hint}"
            if not nested and similar(pattern, names, least=_MISSPELT) and not set(pattern) & set("*?["):
                raise ConfigurationError(text)
            warn_once(text)


def _nested(box: Toolbox) -> Iterator[str]:
    """Yield the names of the tools of the agents in a toolbox, and of the agents in theirs."""
    for entry in box.entries.values():
        if entry.composite and (inner := fact(entry.service, TOOLS)) is not None:
            yield from inner
            yield from _nested(inner)
