"""The code of a team as the service of an agent, and the arguments that all teams take."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from ziggurat.agents.drawing import team_diagram
from ziggurat.agents.inherited import InheritedArguments, agent_parts, facts_of
from ziggurat.agents.program import noting_own_mistakes, run_program
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.enter import AgentService, parts_of
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Fact, strongest
from ziggurat.journal.store import Store
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.diagram import DIAGRAM, DiagramEdge
from ziggurat.tools.decisions import LENT_TOOLS, MEMBERS
from ziggurat.tools.toolbox import Toolbox


class TeamArguments(InheritedArguments, total=False):
    """The arguments of an `Agent` that every team takes; its name is that of the pattern by default."""

    name: str
    description: str
    store: str | Store | None


_NOTHING: Mapping[str, Toolbox] = {}


class _TeamProgram:
    def __init__(self, title: str, control: AgentService, facts: dict[Fact[Any], Any]) -> None:
        self.title = title
        self.control = control
        self.facts = facts

    async def __call__(self, request: AgentRequest, ctx: Context, /) -> AgentRun:
        with noting_own_mistakes(ctx):  # of functions that direct the members
            return await run_program(partial(self.control, request, ctx), ctx, members=self.facts[MEMBERS])

    def __repr__(self) -> str:
        return self.title


def as_runnable(
    pattern: str,
    control: AgentService,
    members: Mapping[str, Runnable],
    settings: Mapping[str, object],
    edges: Iterable[DiagramEdge],
    arguments: TeamArguments,
    lent: Mapping[str, Toolbox] = _NOTHING,
) -> Runnable:
    name = arguments.get("name", pattern)
    parts = agent_parts(
        name,
        arguments,
        setup=lambda: {
            "flow": name,
            "members": ", ".join(members),
            **{key: str(value) for key, value in settings.items()},
        },
        description=arguments.get("description", ""),
        permissions=frozenset(permission for member in members.values() for permission in parts_of(member).permissions),
        read=partial(_read, members, "read"),
        keep=partial(_read, members, "keep"),
    )
    facts = facts_of(parts, strongest(members.values())) | {
        MEMBERS: members,
        LENT_TOOLS: lent,
        DIAGRAM: partial(team_diagram, members, tuple(edges)),
    }
    program = _TeamProgram(f"{pattern}({', '.join(members)})", control, facts)
    return Runnable(program, name=name, store=arguments.get("store"))


def _read(members: Mapping[str, Runnable], way: str, run: AgentRun) -> AgentRun:
    name, _, within = run.agent.partition("/")
    read = getattr(parts_of(members[name]), way) if name in members else None
    return run if read is None else replace(read(replace(run, agent=within or name)), agent=run.agent)


def members_by_name(pattern: str, members: Iterable[Runnable], *, least: int = 1) -> dict[str, Runnable]:
    named: dict[str, Runnable] = {}
    for member in members:
        if not isinstance(member, Runnable):
            raise ConfigurationError(
                f"a member of {pattern}() is an agent, a flow, a team, or Runnable(service); got {member!r:.200}"
            )
        if member.name in named:
            raise ConfigurationError(
                f"two members of {pattern}() are named {member.name!r}, so nobody could tell who spoke: give each a "
                "name of its own, Agent(..., name='...')"
            )
        if set("/[]") & set(member.name):
            raise ConfigurationError(f"the name of a member of {pattern}() has no '/', '[' or ']'; got {member.name!r}")
        named[member.name] = member
    if len(named) < least:
        raise ConfigurationError(f"{pattern}() takes at least {least} agents, got {len(named)}")
    return named


def described(members: Mapping[str, Runnable]) -> str:
    lines = [(name, parts_of(member).description) for name, member in members.items()]
    return "\n".join(f"- {name}: {about}" if about else f"- {name}" for name, about in lines)
