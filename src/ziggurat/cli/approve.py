"""Asking the person at the terminal to decide on pending calls."""

__all__ = ["NO", "approving", "ask_decisions", "by_hand", "warn_of_unfitting"]

import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.decisions import misfit
from ziggurat.cli.terminal import note
from ziggurat.core.scope import Key
from ziggurat.core.visible import visible_line
from ziggurat.messages.agent import AgentRun, Approve, Decision, Deny, DidNotHappen, Happened, Modify, PendingItem
from ziggurat.messages.canonical import canonical
from ziggurat.tools.approval import APPROVALS, Approvals

NO = "the person said no"
"""The default reason of a denial."""

_WHETHER = "did it take effect? [y]es, [n]o and run it now, or say why it stays unknown: "
_QUESTION = "[y]es, [N]o, [e]dit the arguments, or say why not: "


def approving(patterns: Sequence[str]) -> dict[Key[Any], Any] | None:
    """Return dependencies that require approval for calls of tools whose names match a pattern, at any depth.

    Raises:
        ConfigurationError: a pattern is empty.
    """
    return {APPROVALS: (Approvals(*patterns),)} if patterns else None


def warn_of_unfitting(agent: Runnable, patterns: Sequence[str]) -> None:
    """Warn about patterns that match no tool of an agent: a misspelled one would never ask."""
    made = agent if isinstance(agent, Agent) else agent.inner
    if not isinstance(made, Agent):
        return
    names = list(made.tools)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            told = f"its tools: {', '.join(names)}" if names else "it has none"
            note(f"--approve {pattern!r} fits no tool of the agent ({told})")


def by_hand() -> bool:
    """Return whether a person can be asked: standard input is a terminal, and so is standard output or error."""
    return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())


Ask = Callable[[str], str | None]
Say = Callable[[str], None]


def ask_decisions(agent: Runnable, run: AgentRun, ask: Ask, say: Say) -> dict[str, Decision]:
    """Ask about each pending call of a run; the end of input means no."""
    return {item.id: _decision(agent, item, ask, say) for item in run.pending}


def _decision(agent: Runnable, item: PendingItem, ask: Ask, say: Say) -> Decision:
    if item.interrupted:
        return _ask_whether_it_happened(item, ask, say)
    why = f" ({visible_line(item.reason)})" if item.reason else ""
    say(f"{visible_line(item.call.name)} needs approval{why}:\n  {item.shown}")
    while True:
        answer = (ask(_QUESTION) or "").strip()
        if answer.lower() in ("y", "yes"):
            return Approve()
        if answer.lower() in ("", "n", "no"):
            return Deny(NO)
        if answer.lower() not in ("e", "edit"):
            return Deny(answer)
        arguments = _ask_arguments(agent, item, ask, say)
        if arguments is not None:
            return Modify(arguments)


def _ask_whether_it_happened(item: PendingItem, ask: Ask, say: Say) -> Decision:
    """Ask whether an interrupted call took effect; without an answer it stays unknown and is denied."""
    say(f"{visible_line(item.call.name)} was interrupted, and nobody knows whether it took effect:\n  {item.shown}")
    answer = (ask(_WHETHER) or "").strip()
    if answer.lower() in ("n", "no"):
        return DidNotHappen()
    if answer.lower() not in ("y", "yes"):
        return Deny(answer or "nobody has found out")
    return Happened(ask("what came of it: ") or "it was done")


def _ask_arguments(agent: Runnable, item: PendingItem, ask: Ask, say: Say) -> str | None:
    """Return the arguments that the person enters instead, once they are valid and confirmed; else None."""
    text = (ask("arguments, as JSON: ") or "").strip()
    if not text:
        return None
    wrong = misfit(agent, item.path, item.call.name, text)
    if wrong is not None:
        say(wrong)
        return None
    arguments = canonical(text, item.call.name)
    say(f"  {arguments}")
    return arguments if (ask("run it with these? [y/N] ") or "").strip().lower() in ("y", "yes") else None
