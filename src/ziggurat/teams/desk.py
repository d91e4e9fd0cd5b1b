"""handoffs: agents that hand a conversation over to each other."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Unpack

from msgspec import DecodeError, Meta, Struct

from ziggurat.agents.loop_settings import lending
from ziggurat.agents.runnable import Runnable
from ziggurat.agents.stop import any_of, until_tool_called
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.enter import parts_of
from ziggurat.core import codec
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.path import step_of
from ziggurat.core.service import fact
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.journal.journal import journal_of
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun, Out
from ziggurat.messages.diagram import DiagramEdge
from ziggurat.messages.events import HandedOff
from ziggurat.messages.items import HandoffItem, handoff_entries
from ziggurat.messages.message import HANDOFF, Message, ToolResult
from ziggurat.teams.conversation import TeamConversation, full_name
from ziggurat.teams.handoff import (
    Handoff,
    HandoffPolicy,
    Handoffs,
    HandoffState,
    HandoffTool,
    any_handoff,
    automatic_handoffs,
)
from ziggurat.teams.program import TeamArguments, as_runnable, members_by_name
from ziggurat.teams.visibility import Visibility
from ziggurat.tools.function import FunctionTool, tool
from ziggurat.tools.toolbox import TOOLS, Toolbox

Picker = Callable[[Sequence[Message]], str | Awaitable[str]]
"""Returns the name of the agent that begins, from the conversation."""

First = Annotated[str | Picker, Meta(description="as a name, or a function of the messages that returns one")]


@checked
def handoffs(
    *members: Runnable[Out],
    policy: Handoffs | None = None,
    first: First | None = None,
    next_turn: Literal["stay", "first"] = "stay",
    visibility: Visibility = "everything",
    max_handoffs: PositiveInt = 10,
    ping_pong: Annotated[int, Meta(ge=2)] | None = 4,
    **arguments: Unpack[TeamArguments],
) -> Runnable[Out]:
    """Make a team of agents that hand the conversation over to each other; the one that answers owns the answer.

    ::

        desk = handoffs(triage, billing, refunds)
        run = await desk.run("I was charged twice.", session="ann")
        print(run.agent, run.text)

    An agent gets a tool for each agent that it may hand over to. Its target goes on with the same conversation, but
    with its own instructions and tools, and the middleware and grants of the team. The other tools of a reply finish
    first; of several handoffs in one reply the first is taken, and the others are answered as not taken. A member that
    is no `Agent`, such as a team, can be handed over to, but has no tools for it.

    Args:
        policy: Who may hand over to whom; `any_handoff` by default.
        first: The agent that begins: its name, or a function of the messages; by default the first member.
        next_turn: Who answers the next turn of a conversation: ``"stay"`` with the agent that answered last, or go
            back to the ``"first"``. After an agent of a `sequential_handoff` it is always the first, as a sequence
            begins anew with each question.
        visibility: What each agent sees of the conversation: ``"question"`` only; ``"own"``, what the user said and its
            own turns; ``"replies"``, those of the others, too; ``"everything"``, also the calls and results of their
            tools; or a function of the messages and the agent's name that returns messages, sync or async.
        max_handoffs: How many handoffs one run may have; at one more it stops as `BudgetExceeded`.
        ping_pong: After how many handoffs in a row between the same two agents the run stops as `LoopDetected`; None
            for never.

    Raises:
        ConfigurationError: two agents have one name, a policy or `first` names an agent that is not there, or a tool
            of handing over has the name of another tool.
    """
    named = members_by_name("handoffs", members)
    begins = next(iter(named)) if first is None else first
    desk = _Desk(named, policy or any_handoff(), begins, next_turn == "stay", visibility, max_handoffs, ping_pong)
    settings = {"handoffs": desk.policy, "next turn": next_turn}
    lent = {name: offer.box for name, offer in desk.offers.items()}
    return as_runnable("handoffs", desk, named, settings, desk.edges(), arguments, lent)


class _Offer(Struct, frozen=True):
    targets: dict[str, str]  # by the name of the tool
    box: Toolbox


class _Desk(Struct, eq=False):
    members: Mapping[str, Runnable]
    policy: HandoffPolicy
    first: str | Picker
    stay: bool
    visibility: Visibility
    max_handoffs: int
    ping_pong: int | None
    in_sequence: set[str] = set()
    offers: dict[str, _Offer] = {}

    def __post_init__(self) -> None:
        pairs = automatic_handoffs(self.policy, list(self.members))
        self.in_sequence = {name for pair in pairs for name in pair}
        about = {name: parts_of(member).description for name, member in self.members.items()}
        self.offers = {name: self._offer(name, about) for name in self.members}
        if isinstance(self.first, str):
            self._require(self.first, "first")

    async def __call__(self, request: AgentRequest, ctx: Context) -> AgentRun:
        conversation = TeamConversation(request, ctx, self.visibility)
        name = await self._first(request.messages)
        at = ctx.under(name)  # once a turn: each time it is another place, as the same agent may have several turns
        visited = [name]
        while True:
            offer = self.offers[name]
            stop = any_of(*map(until_tool_called, offer.targets))
            turn = await conversation.turn_of(self.members[name])
            run = await conversation.turn(turn, lending(ctx, offer.box, at, stop))
            handoff = self._handoff(run, offer, visited)
            if handoff is None:
                return conversation.answered(name, run)
            limit = self._limit(offer, handoff.target, visited)
            if limit is not None:
                return conversation.end(full_name(name, run), stop=limit)
            conversation.tell(name, *handoff_entries(name, handoff.target, handoff.reason, handoff.context))
            source, name = name, handoff.target
            at = ctx.under(name)
            await _record(source, handoff, at)
            visited.append(name)

    def edges(self) -> list[DiagramEdge]:
        started = [self.first] if isinstance(self.first, str) else list(self.members)
        tools = {
            (name, target): "" if tool == f"handoff_to_{target}" else tool
            for name, offer in self.offers.items()
            for tool, target in offer.targets.items()
        }
        both = {(one, other) for one, other in tools if tools[one, other] == tools.get((other, one)) == ""}
        return [
            *(DiagramEdge("question", each) for each in started),
            *(
                DiagramEdge(one, other, label, both=(one, other) in both)
                for (one, other), label in tools.items()
                if (one, other) not in both or one < other
            ),
            *(DiagramEdge(*pair, arrow="dotted") for pair in automatic_handoffs(self.policy, list(self.members))),
        ]

    async def _first(self, messages: Sequence[Message]) -> str:
        if self.stay:
            last = next((message.name for message in reversed(messages) if message.role == "assistant"), None)
            spoke = (last or "").partition("/")[0]
            if spoke in self.members and spoke not in self.in_sequence:
                return spoke
        if isinstance(self.first, str):
            return self.first
        picked = self.first(messages)
        return self._require(await picked if isinstance(picked, Awaitable) else picked, "first")

    def _require(self, name: object, what: str) -> str:
        if isinstance(name, str) and name in self.members:
            return name
        known = ", ".join(self.members)
        raise ConfigurationError(f"handoffs(...): {what} names the unknown agent {name!r}; there are: {known}")

    def _offer(self, member: str, about: Mapping[str, str]) -> _Offer:
        offered = list(self.policy.tools(member, about))
        targets = {each.name: self._require(each.target, repr(self.policy)) for each in offered}
        names = frozenset(targets)
        box = Toolbox([_tool(each, names) for each in offered])
        own = fact(self.members[member], TOOLS)
        if own is not None:
            own.joined(box)  # raises if two have the same name
        return _Offer(targets, box)

    def _handoff(self, run: AgentRun, offer: _Offer, visited: Sequence[str]) -> Handoff | None:
        if isinstance(run.stop, stops.ToolCalled):
            results = [each for message in run.messages[run.start :] for each in message.tool_results]
            own = [each for each in results if each.name == run.stop.name and each.error is None]
            if run.stop.name in offer.targets:
                return _asked(own[-1].text, offer.targets[run.stop.name])
            if any(result.origin == HANDOFF for result in own):
                raise ConfigurationError(
                    f"{visited[-1]} has handed over with {run.stop.name}, a tool that this team does not have any "
                    "more: resume the run with the team as it was"
                )
        handoff = self.policy.after(HandoffState(visited[-1], run, tuple(visited), tuple(self.members)))
        if handoff is not None:
            self._require(handoff.target, repr(self.policy))
        return handoff

    def _limit(self, offer: _Offer, target: str, visited: Sequence[str]) -> stops.Stop | None:
        count = len(visited) - 1
        if count >= self.max_handoffs:
            return stops.BudgetExceeded("handoffs", float(self.max_handoffs), float(count))
        last = [*visited, target]
        if self.ping_pong is not None and count + 1 >= self.ping_pong:
            window = last[-self.ping_pong - 1 :]
            if len(set(window)) == 2 and all(one != other for one, other in zip(window, window[1:], strict=False)):  # noqa: RUF007
                name = next((name for name, each in offer.targets.items() if each == target), f"handoff to {target}")
                return stops.LoopDetected(name, self.ping_pong)
        return None


class _Acknowledged(Struct, frozen=True, omit_defaults=True):
    handoff: str
    ack: bool
    reason: str | None = None
    context: dict[str, Any] | None = None


def _tool(handoff: HandoffTool, names: frozenset[str]) -> FunctionTool:

    async def hand_over(ctx: Context, reason: str | None = None, context: dict[str, Any] | None = None) -> ToolResult:
        """Hand over.

        Args:
            reason: Why, in a few words.
            context: Facts that the other agent needs and that the conversation does not show.
        """
        messages = ctx.scope[AGENT_CALL].said()
        calls = messages[-1].tool_calls if messages and messages[-1].role == "assistant" else ()
        first = next((number for number, call in enumerate(calls, 1) if call.name in names), 1)
        if step_of(ctx.path)[2].partition(":")[0] != f"tool-{first}":
            refusal = f"not taken: a reply hands over once, and {calls[first - 1].name} came first"
            return ToolResult("", handoff.name, refusal, "interrupted", HANDOFF)
        answer = codec.encode(_Acknowledged(handoff.target, True, reason, context)).decode()
        return ToolResult("", handoff.name, answer, None, HANDOFF)

    return tool(name=handoff.name, description=handoff.description, effect="none", permissions=())(hand_over)


def _asked(result: str, target: str) -> Handoff:
    try:
        answer = codec.decoder(_Acknowledged).decode(result)
    except DecodeError:  # a hook has changed what it says
        return Handoff(target)
    return Handoff(target, answer.reason, answer.context)


async def _record(source: str, handoff: Handoff, at: Context) -> None:
    async def item_of(request: Handoff, ctx: Context) -> HandoffItem:
        now = datetime.fromtimestamp(ctx.clock.now(), UTC)
        return HandoffItem(
            id=ctx.new_id(), from_agent=source, to_agent=request.target, reason=request.reason, created_at=now
        )

    place = at.at("handoff")
    record = journal_of(place).find(place.path)
    replayed = record is not None and record.result is not None
    await place.once("handoff", handoff, item_of, returns=HandoffItem)
    if at.listens(HandedOff):
        await at.emit(HandedOff(at.path, source, handoff.target, handoff.reason, replayed))
