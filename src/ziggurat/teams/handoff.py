"""Handoffs from one agent to another: what they say, the tools that ask for them, and the policies that allow them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Protocol, runtime_checkable

from msgspec import Meta, Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import CheckedStruct, NonEmptyText, checked
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun


class Handoff(CheckedStruct, frozen=True, omit_defaults=True):
    """A handoff of the conversation to another agent, the target; the context is in the note that it gets."""

    target: str
    reason: str | None = None
    context: dict[str, Any] | None = None


class HandoffTool(CheckedStruct, frozen=True):
    """A tool with which a model hands the conversation over to the target, and when to call it."""

    target: str
    name: str
    description: str


class HandoffState(Struct, frozen=True):
    """What a policy knows when an agent has ended its turn.

    `visited` are the agents that had a turn in this run of the team, in order, the last of them `member`; `members` the
    names of all agents.
    """

    member: str
    run: AgentRun
    visited: tuple[str, ...]
    members: tuple[str, ...]


@runtime_checkable
class HandoffPolicy(Protocol):
    """Says who may hand over to whom. It keeps no state: one policy serves many runs at once."""

    def tools(self, member: str, members: Mapping[str, str]) -> Sequence[HandoffTool]:
        """Return the tools that an agent is offered; `members` has the description of each agent by its name."""
        ...

    def after(self, state: HandoffState) -> Handoff | None:
        """Return the handoff that follows a turn in which no tool of handing over was called; None to end the run."""
        ...


Handoffs = Annotated[HandoffPolicy, Meta(description="as sequential_handoff('writer', 'editor') makes")]
"""A policy as it is passed to `handoffs`."""


class _Targets(Struct, frozen=True):
    title: str
    tool_names: tuple[tuple[str, str], ...] | None = None
    description: str | None = None
    source: str | None = None

    def tools(self, member: str, members: Mapping[str, str]) -> Sequence[HandoffTool]:
        if self.source not in (None, member):
            return ()
        pairs = [(_tool_name(each), each) for each in members] if self.tool_names is None else self.tool_names
        about = {target: f": {each}" if each else "" for target, each in members.items()}
        return [
            HandoffTool(
                target, name, self.description or f"Hand off the conversation to {target}{about.get(target, '')}"
            )
            for name, target in pairs
            if target != member
        ]

    def after(self, state: HandoffState) -> Handoff | None:
        return None

    def __repr__(self) -> str:
        return self.title


def _tool_name(target: str) -> str:
    return f"handoff_to_{target}"


def any_handoff() -> HandoffPolicy:
    """Let every agent hand over to every other one: the default."""
    return _Targets("any_handoff()")


@checked
def explicit_handoff(
    target: NonEmptyText,
    *,
    source: NonEmptyText | None = None,
    tool_name: NonEmptyText | None = None,
    description: NonEmptyText | None = None,
) -> HandoffPolicy:
    """Let agents, or only the `source`, hand over to one target, by default with ``handoff_to_<target>``."""
    name = tool_name or _tool_name(target)
    title = f"explicit_handoff({target!r}{'' if source is None else f', source={source!r}'})"
    return _Targets(title, ((name, target),), description, source)


@checked
def multi_handoff(targets: Mapping[str, str], *, source: NonEmptyText | None = None) -> HandoffPolicy:
    """Let agents, or only the `source`, hand over with tools of your names, as ``{"ask_billing": "billing"}``."""
    return _Targets(f"multi_handoff({dict(targets)!r})", tuple(targets.items()), None, source)


class _Sequential(Struct, frozen=True):
    names: tuple[str, ...]

    def tools(self, member: str, members: Mapping[str, str]) -> Sequence[HandoffTool]:
        unknown = [name for name in self.names if name not in members]
        if unknown:
            raise ConfigurationError(f"{self} names the unknown agent {unknown[0]!r}; there are: {', '.join(members)}")
        return ()

    def after(self, state: HandoffState) -> Handoff | None:
        names = self.names or state.members
        if state.member not in names or not isinstance(state.run.stop, stops.Completed):
            return None
        place = names.index(state.member) + 1
        return Handoff(names[place], "the step before is complete") if place < len(names) else None

    def __repr__(self) -> str:
        return f"sequential_handoff({', '.join(map(repr, self.names))})"


@checked
def sequential_handoff(*names: NonEmptyText) -> HandoffPolicy:
    """Let each agent hand over to the next one when it has completed its answer, without any tool.

    By default these are all, in the order in which the team has them. No agent is named twice: it would be unclear who
    follows it.
    """
    if len(set(names)) < len(names):
        raise ConfigurationError(f"sequential_handoff(...) names each agent once, got {', '.join(names)}")
    return _Sequential(names)


class _Composite(Struct, frozen=True):
    policies: tuple[HandoffPolicy, ...]

    def tools(self, member: str, members: Mapping[str, str]) -> Sequence[HandoffTool]:
        offered: dict[str, HandoffTool] = {}
        for policy in self.policies:
            for tool in policy.tools(member, members):
                offered.setdefault(tool.name, tool)
        return tuple(offered.values())

    def after(self, state: HandoffState) -> Handoff | None:
        return next((handoff for policy in self.policies if (handoff := policy.after(state)) is not None), None)

    def __repr__(self) -> str:
        return f"composite_handoff({', '.join(map(repr, self.policies))})"


@checked
def composite_handoff(*policies: HandoffPolicy) -> HandoffPolicy:
    """Combine policies: agents are offered the tools of all, and the first policy that wants to hand over does.

    If two have a tool of the same name, it is that of the first. Without policies nobody hands over: an agent is
    chosen, and answers.
    """
    return _Composite(policies)


def automatic_handoffs(policy: HandoffPolicy, members: Sequence[str]) -> list[tuple[str, str]]:
    """Return who hands over to whom without a tool, as far as that does not depend on a turn, for pictures."""
    if isinstance(policy, _Composite):
        return [pair for each in policy.policies for pair in automatic_handoffs(each, members)]
    return list(pairwise(policy.names or members)) if isinstance(policy, _Sequential) else []
