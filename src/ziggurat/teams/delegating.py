"""background: a leader that starts members, goes on, and looks at them or waits for them later."""

from typing import Literal, Unpack

from ziggurat.agents.loop_settings import lending
from ziggurat.agents.runnable import Runnable
from ziggurat.calls.enter import parts_of
from ziggurat.core.context import Context, Key
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.path import step_of
from ziggurat.core.service import fact
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.messages.agent import AgentRequest, AgentRun, Out
from ziggurat.messages.diagram import DiagramEdge
from ziggurat.teams.assignments import Assignment, Assignments, Report
from ziggurat.teams.conversation import TeamConversation
from ziggurat.teams.program import TeamArguments, as_runnable, members_by_name
from ziggurat.tools.function import FunctionTool, tool
from ziggurat.tools.toolbox import TOOLS, Toolbox

_Unfinished = Literal["cancel", "wait"]

_ASSIGNMENTS: Key[Assignments] = Key("background assignments")


@checked
def background(
    leader: Runnable[Out],
    *members: Runnable,
    unfinished: _Unfinished = "cancel",
    concurrency: PositiveInt = 10,
    **arguments: Unpack[TeamArguments],
) -> Runnable[Out]:
    """Make a team whose leader has members work in the background, and goes on meanwhile.

    ::

        team = background(editor, researcher, illustrator)
        run = await team.run("Write about ziggurats, with a picture.")

    The leader gets a tool for each member, ``start_researcher(task)``, which returns a handle at once; `poll_members`,
    which says how far all are; `join_members`, which waits for some or all, and returns their answers; and
    `cancel_member`. A member sees its task only; it may be started several times. Its work is a part of the run: its
    record, budget, permissions and approvals are those of the run, and if that is continued in another process, so are
    the members that had not ended, under the same handles. If one waits for a person, whoever joins it waits too.

    Args:
        unfinished: What happens to members that still work when the leader has answered: ``"cancel"`` them, or
            ``"wait"`` until they have ended.
        concurrency: How many work at the same time; to start one more is an error that the leader gets.

    Raises:
        ConfigurationError: there is no member, two have the same name, or the leader is no `Agent` or has a tool of the
            name of one of these.
    """
    everyone = members_by_name("background", (leader, *members), least=2)
    named = members_by_name("background", members)
    box = Toolbox([*map(_starter, named.values()), _poll_members, _join_members, _cancel_member])
    own = fact(leader, TOOLS)
    if own is None:
        raise ConfigurationError(
            f"background(leader, ...) takes an Agent as its leader, which can call tools; {leader.name} is none"
        )
    own.joined(box)  # raises if two have the same name

    async def control(request: AgentRequest, ctx: Context, /) -> AgentRun:
        conversation = TeamConversation(request, ctx, "everything")
        assignments = Assignments(named, concurrency, ctx)
        at = lending(ctx, box, ctx.under(leader.name)).within(_ASSIGNMENTS, assignments)
        try:
            await assignments.restore()
            turn = await conversation.turn_of(leader)
            run = await assignments.beside(conversation.turn(turn, at), wait=unfinished == "wait")
        finally:
            await assignments.settle()
        return conversation.answered(leader.name, run)

    settings = {"leader": leader.name, "unfinished": unfinished}
    edges = [DiagramEdge(leader.name, each, arrow="dotted") for each in named]
    return as_runnable("background", control, everyone, settings, edges, arguments, {leader.name: box})


def _starter(member: Runnable) -> FunctionTool:

    async def start(ctx: Context, task: str) -> Report:
        """Start it.

        Args:
            task: What it should do, with all that it needs to know.
        """
        _, step, place = step_of(ctx.path)
        number = place.partition(":")[0].removeprefix("tool-")
        return await ctx.scope[_ASSIGNMENTS].start(Assignment(member.name, f"{step}-{number}", task))

    about = parts_of(member).description
    description = f"Let {member.name} work on a task in the background, and return a handle of it at once"
    description += f". {member.name}: {about}" if about else ""
    return tool(name=f"start_{member.name}", description=description, effect="none", permissions=())(start)


@tool(name="poll_members", effect="none", permissions=())
async def _poll_members(ctx: Context) -> list[Report]:
    """Say of all members that were started how far they are, without waiting."""
    return ctx.scope[_ASSIGNMENTS].reports()


@tool(name="join_members", effect="none", permissions=())
async def _join_members(ctx: Context, handles: list[str] | None = None) -> list[Report]:
    """Wait until members have ended, and return their answers.

    Args:
        handles: Whom to wait for; by default all that were started.
    """
    return await ctx.scope[_ASSIGNMENTS].join(handles)


@tool(name="cancel_member", effect="none", permissions=())
async def _cancel_member(ctx: Context, handle: str) -> Report:
    """Cancel the work of a member, if it has not ended.

    Args:
        handle: That of the member.
    """
    return await ctx.scope[_ASSIGNMENTS].cancel(handle)
