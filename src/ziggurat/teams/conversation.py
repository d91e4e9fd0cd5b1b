"""TeamConversation: the conversation of a team during one run, to which its members add their turns."""

__all__ = ["TeamConversation", "answered", "new_messages"]

from collections.abc import Sequence
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.enter import enter
from ziggurat.core.context import Context
from ziggurat.core.errors import fact_of
from ziggurat.core.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message
from ziggurat.messages.parts import Text
from ziggurat.teams.visibility import Choice, View, seen_by, signed


class TeamConversation:
    """The conversation of a team during one run: what it was asked, and the turns of its members, each signed.

    Args:
        request: What the team is asked.
        ctx: The context of the team.
        visibility: What each member sees.
    """

    def __init__(self, request: AgentRequest, ctx: Context, visibility: Choice | View) -> None:
        self.messages: list[Message] = list(request.messages)
        self.start = len(self.messages)
        self.steps = 0
        self._ctx = ctx
        self._visibility = visibility

    async def turn(self, member: Runnable, at: Context) -> AgentRun:
        """Let a member speak, at a context of its own, and return its run.

        Raises:
            Exception: its run failed; what it had said until then is in the run of the team.
        """
        seen = AgentRequest(await seen_by(member.name, self.messages, self._visibility, self.start))
        try:
            run = await enter(member, seen, at)
        except BaseException as error:
            partial = fact_of(error, "partial", AgentRun)
            if partial is not None and partial.agent == member.name:
                self._add(partial, seen, member.name)
            self._ctx.scope[AGENT_CALL].run = self.end(stops.stop_of(error), member.name)
            raise
        self._add(run, seen, member.name)
        return run

    def tell(self, text: str, source: str) -> None:
        """Add a message of the team itself, which all members see; `source` is the member that it is about."""
        self.messages.append(Message("user", (Text(text),), source, "runtime"))

    def end(self, stop: stops.Stop, agent: str, output: Any = None) -> AgentRun:
        """Return the run of the team, with the conversation so far; `agent` is the name of who answered."""
        ctx = self._ctx
        return AgentRun(
            Transcript.of(*self.messages),
            stop,
            output,
            steps=self.steps,
            id=ctx.run_id,
            agent=agent,
            start=self.start,
            seconds=journal_of(ctx).elapsed - ctx.scope[AGENT_CALL].began,
        )

    def _add(self, run: AgentRun, seen: AgentRequest, member: str) -> None:
        self.steps += run.steps
        self.messages.extend(signed(message, member) for message in new_messages(run, seen.messages))


def new_messages(run: AgentRun, question: Sequence[Message]) -> Sequence[Message]:
    """Return what was said in a run, without what it was asked."""
    history, start = run.history, run.start
    if start == 0 and history[: len(question)] == list(question):  # of a service that does not set `start`
        start = len(question)
    return history[start:]


def answered(member: str, run: AgentRun) -> str:
    """Return the name of who answered in a member's run: ``billing``, or ``team/billing`` within a team."""
    return member if run.agent in ("", member) else f"{member}/{run.agent}"
