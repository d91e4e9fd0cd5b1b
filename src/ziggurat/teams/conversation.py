"""TeamConversation: the conversation of a team during one run, to which its members add their turns."""

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.agent_call import AGENT_CALL, program_at
from ziggurat.calls.enter import enter
from ziggurat.calls.gather import settled_until
from ziggurat.calls.hooks import note_failure
from ziggurat.core.combinator import annotate
from ziggurat.core.context import AMBIENT, Context
from ziggurat.core.errors import described, fact_of
from ziggurat.journal.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Choice, Conversation, Transcript, add_without_repeats
from ziggurat.messages.message import Message, assistant, indented
from ziggurat.teams.visibility import View, Views, note, signed

FAILED = "could not answer"
"""What the note of a member that has failed says after its name."""


_COMPLETED = stops.Completed()


class MemberTurn(Struct, frozen=True, eq=False):
    member: Runnable
    messages: tuple[Message, ...]


class TeamConversation:
    def __init__(
        self,
        request: AgentRequest,
        ctx: Context,
        visibility: Choice | View,
        sources: dict[str, frozenset[str]] | None = None,
        longest: int = 0,
    ) -> None:
        self._conversation = Conversation(request.messages)
        self.messages: list[Message] = self._conversation.log  # to which is only added
        self.start: int = len(self.messages)
        self._views = Views(visibility, request.messages, ctx, sources or {}, longest)
        self.steps: int = 0
        self.team: str = ctx.scope[AGENT_CALL].agent
        self._ctx = ctx
        ctx.scope[AGENT_CALL].so_far = partial(self.end, self.team)  # whatever ends it, has its stop

    async def turn_of(self, member: Runnable, prompt: str = "", visibility: Choice | View | None = None) -> MemberTurn:
        messages = await self._views.of(member.name, self.messages, visibility)
        return MemberTurn(member, (*messages, note(prompt)) if prompt else messages)

    def asked_of(self, member: Runnable) -> tuple[Message, ...]:
        return self._views.beginning(member.name, self.messages)

    async def turn(self, turn: MemberTurn, at: Context) -> AgentRun:
        member = turn.member
        try:
            run = await enter(member, AgentRequest(turn.messages), self._views.context(member.name, at), ends=True)
        except BaseException as error:
            so_far = fact_of(error, "partial", AgentRun)
            if so_far is not None and so_far.agent == member.name:
                self._add(so_far, turn)
            raise
        self._add(run, turn)
        return run

    async def round(
        self,
        turns: Sequence[MemberTurn],
        at: Context,
        *,
        limit: int | None = None,
        until: int | None = None,
        required: bool = False,
    ) -> list[AgentRun | Exception | None]:
        """Let members speak at the same time, and add their turns in the order given; one must answer if `required`."""
        outcomes = await self.speak(turns, at, limit=limit, until=until)
        for turn, outcome in zip(turns, outcomes, strict=True):
            if isinstance(outcome, AgentRun):
                self._add(outcome, turn)
        judged = [
            stops.error_of(each.stop) if isinstance(each, AgentRun) and not each.is_reusable else each
            for each in outcomes
        ]
        for turn, outcome in zip(turns, judged, strict=True):
            if isinstance(outcome, Exception):
                self.tell(turn.member.name, f"{turn.member.name} {FAILED}: {described(outcome)}")
        if required:
            self.require_an_answer([turn.member.name for turn in turns], judged)
        self.log_failures(turns, judged, at)
        return judged

    async def speak_all(
        self, members: Sequence[Runnable], prompt: str, at: Context, *, limit: int | None
    ) -> dict[str, AgentRun]:
        turns = [await self.turn_of(each, prompt) for each in members]
        outcomes = zip(members, await self.round(turns, at, limit=limit, required=True), strict=True)
        return {member.name: run for member, run in outcomes if isinstance(run, AgentRun)}

    async def ask(self, member: Runnable, prompt: str, at: Context) -> str:
        (outcome,) = await self.speak([await self.turn_of(member, prompt, "replies")], at)
        if isinstance(outcome, Exception):
            raise outcome
        return "" if outcome is None else outcome.text

    async def speak(
        self, turns: Sequence[MemberTurn], at: Context, *, limit: int | None = None, until: int | None = None
    ) -> tuple[AgentRun | Exception | None, ...]:
        async def call(turn: MemberTurn) -> AgentRun:
            ambient = AMBIENT.get()
            assert ambient is not None
            name = turn.member.name
            return await enter(turn.member, AgentRequest(turn.messages), self._views.context(name, ambient.under(name)))

        with program_at(at):
            return await settled_until(until, *map(call, turns), limit=limit)

    async def prompted(self, member: Runnable, prompt: str, ctx: Context) -> AgentRun:
        return await self.turn(await self.turn_of(member, prompt, "replies"), ctx.under(member.name))

    async def conclude(self, member: Runnable, prompt: str, ctx: Context) -> AgentRun:
        return self.answered(member.name, await self.prompted(member, prompt, ctx))

    def require_an_answer(self, names: Sequence[str], outcomes: Sequence[AgentRun | Exception | None]) -> None:
        failures = [(name, each) for name, each in zip(names, outcomes, strict=True) if isinstance(each, Exception)]
        if not failures or any(isinstance(each, AgentRun) for each in outcomes):
            return
        (_, first), *others = failures
        annotate(first, [f"{name} failed, too: {described(each)}" for name, each in others])
        raise first

    def log_failures(
        self, turns: Sequence[MemberTurn], outcomes: Sequence[AgentRun | Exception | None], at: Context
    ) -> None:
        for turn, outcome in zip(turns, outcomes, strict=True):
            if isinstance(outcome, Exception):
                note_failure(outcome, f"the member {turn.member.name}", at, "the team goes on without it")

    def tell(self, source: str, *entries: str) -> None:
        """Add a message of the team itself, which all members see; `source` is the member that it is about."""
        text = "\n".join(map(indented, entries))  # a part of one may be a member's own words
        self.messages.append(note(text, source))

    def repeat(self, member: str, run: AgentRun) -> AgentRun:
        self.messages.append(signed(assistant(run.text), member))
        return self.answered(member, run)

    def close(self, text: str) -> AgentRun:
        self.messages.append(signed(assistant(text), self.team))
        return self.end(self.team, text)

    def answered(self, member: str, run: AgentRun) -> AgentRun:
        return self.end(full_name(member, run), run._output, run.stop, run)

    def end(
        self, agent: str, output: object = None, stop: stops.Stop = _COMPLETED, answer: AgentRun | None = None
    ) -> AgentRun:
        """Return the run of the team, with the conversation so far; `agent` is the name of who answered."""
        ctx = self._ctx
        ctx.scope[AGENT_CALL].so_far = None
        return AgentRun(
            Transcript.of(*self.messages),
            stop,
            output,
            steps=self.steps,
            id=ctx.run_id,
            agent=agent,
            start=self.start,
            seconds=journal_of(ctx).watch.elapsed - ctx.scope[AGENT_CALL].began,
            **({} if answer is None else {"_accepted": answer._accepted}),
        )

    def _add(self, run: AgentRun, turn: MemberTurn) -> None:
        self.steps += run.steps
        new = [signed(message, turn.member.name) for message in _new_messages(run, turn.messages)]
        add_without_repeats(new, self._conversation)


def _new_messages(run: AgentRun, question: Sequence[Message]) -> Sequence[Message]:
    history, start = run.history, run.start
    if start == 0 and history[: len(question)] == list(question):  # of a service that does not set `start`
        start = len(question)
    return history[start:]


def full_name(member: str, run: AgentRun) -> str:
    """Return the name of who answered in a member's run: ``billing``, or ``team/billing`` within a team."""
    return member if run.agent in ("", member) else f"{member}/{run.agent}"
