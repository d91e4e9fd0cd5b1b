"""GraphRun: one run of a graph; a node starts when what it waits for has been settled, in the one fan-out of flows."""

from collections.abc import Container, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from ziggurat.calls.agent_call import place_at, program_at
from ziggurat.core.codec import as_type, plain
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, LimitExceeded, described, raise_suspended
from ziggurat.core.failures import call_given, ends_run, noting_mistakes
from ziggurat.core.fan_out import FanOut
from ziggurat.core.path import parent_of
from ziggurat.journal.entries import Failure, error_of
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.messages.agent import refuse
from ziggurat.messages.events import NodeChanged
from ziggurat.plans.causes import NodeCause, Token, Update, joined
from ziggurat.plans.graph_parts import END, HISTORY, Edge, GraphNode, GraphPoint, GraphRoute
from ziggurat.plans.graph_shape import Member, Region, nodes_of
from ziggurat.plans.state import StateType, Values
from ziggurat.tools.guarded_call import fan_out


class _Meeting:
    __slots__ = ("arrived", "chosen", "missing")

    def __init__(self, entries: int) -> None:
        self.missing = entries
        self.arrived: list[tuple[Token, bool] | None] = [None] * entries  # with whether the edge was chosen
        self.chosen: int | None = None  # with which of them it has started, if it takes any


class _Round(Struct, eq=False):
    meetings: dict[int, _Meeting] = {}
    tokens: dict[int, Token] = {}  # what each member starts with
    loose: list[tuple[int, bool, int, Token]] = []  # what has left the region, or was not waited for
    exits: set[Edge] = set()
    again: bool = False


class GraphRun:
    def __init__(
        self, name: str, region: Region, routes: Mapping[str, GraphRoute], state_type: StateType, ctx: Context
    ) -> None:
        self.name = name
        self.region = region
        self.routes = routes
        self.state_type = state_type
        self.path: str = ctx.path
        self.journal: LocalJournal = journal_of(ctx)
        self.history: list[GraphPoint[Any]] | None = (
            ctx.scope.get(HISTORY) if not parent_of(ctx.path) else None
        )  # not of graphs within
        self.numbers: dict[str, int] = {}  # how often each node was started

    async def run(self, state: object, ctx: Context) -> Any:
        start = Token(NodeCause((), 0, "start", state), self.state_type.values_of(state))
        this = _Round()
        ready: list[Member] = []
        for member in self.region.first:
            self._arrive(this, member, 0, start, True, ready, [])
        token = await self._run_round(this, ready, ctx)
        return self.state_type.finished(token.values)

    # -- regions -------------------------------------------------------------------------------------------------

    async def _run_round(self, this: _Round, ready: list[Member], ctx: Context) -> Token:
        while len(ready) == 1:  # a chain needs no task of its own for each node
            ready = await self._step(this, ready[0], ctx)
        if ready:
            group: FanOut[None] = fan_out((), ctx, name=self.name)
            for member in ready:
                group.add((partial(self._strand, this, member, group), ctx))
            await group.run()
            raise_suspended(group.outcomes(None))
        token = this.loose[0][3]
        if len({id(each[3]) for each in this.loose}) == 1:
            return token
        return joined([each[3] for each in sorted(this.loose, key=lambda each: each[:3])], self.state_type)

    async def _strand(self, this: _Round, member: Member, group: FanOut[None], ctx: Context) -> None:
        ready = [member]
        while ready:
            ready = await self._step(this, ready[0], ctx)
            for other in ready[1:]:
                group.add((partial(self._strand, this, other, group), ctx))

    async def _step(self, this: _Round, member: Member, ctx: Context) -> list[Member]:
        token = this.tokens.pop(member.index)
        chosen: Container[object] = ()
        if member.chance:
            await self._record_choice(this, member, token, ctx)
        try:
            if member.loop is not None:
                token, chosen = await self._run_loop(member.loop, token, ctx)
            else:
                token, chosen = await self._run_node(member.node, token, ctx)
        except Exception as error:  # noqa: BLE001 - raised, unless it is an outcome
            if not member.tolerant or ends_run(error):
                raise self._first_failure(error)  # noqa: B904 - it has its cause already
        ready: list[Member] = []
        skipped = self._leave(this, member, token, chosen, ready)
        if skipped and ctx.listens(NodeChanged):
            for node in (node for other in skipped for node in nodes_of(other)):
                await ctx.emit(NodeChanged(f"{self.path}/{self._next_name(node)}", node.name, "skipped"))
        return ready

    async def _run_loop(self, region: Region, token: Token, ctx: Context) -> tuple[Token, set[Edge]]:
        first = region.first[0]
        for _ in range(first.node.rounds):
            this = _Round()
            this.tokens[first.index] = token
            token = await self._run_round(this, [first], ctx)
            if not this.again:
                return token, this.exits
            if this.exits:
                edge = min(this.exits, key=lambda edge: (edge.source, edge.target))
                raise ConfigurationError(
                    f"in one round of the loop of {first.node.name}, {edge.source} has left it to {edge.target} while "
                    "it went on; let a single route decide whether to go on"
                )
        raise LimitExceeded(
            "rounds",
            first.node.rounds,
            first.node.rounds,
            f"the loop of {first.node.name} in {self.path} did not end within {first.node.rounds} rounds; if it may "
            f"need more, give {first.node.name} a higher rounds=...",
        )

    def _first_failure(self, error: Exception) -> Exception:
        """Return the failure that ended the graph when it was recorded, as that depended on timing."""
        if self.journal.is_answer(error):
            tolerant = set(tolerant_in(self.region))
            for entry in self.journal.entries:
                parent, _, name = entry.path.rpartition("/")
                ends = parent == self.path and name.partition("#")[0] not in tolerant
                if ends and isinstance(entry, Failure) and self.journal.is_current(entry):
                    return error_of(entry)
        return error

    # -- edges ---------------------------------------------------------------------------------------------------

    def _leave(
        self,
        this: _Round,
        member: Member,
        token: Token,
        chosen: Container[object] | None,
        ready: list[Member],
    ) -> list[Member]:
        passed: list[Member] = []
        skipped: list[Member] = []
        while True:
            for out in member.outs:
                live = chosen is not None and (out.key is None or out.key in chosen)
                if out.target is not None:
                    self._arrive(this, out.target, out.position, token, live, ready, passed)
                    continue
                this.loose.append((member.index, False, out.position, token))
                if live and out.back:
                    this.again = True
                elif live and out.edge.target != END:
                    this.exits.add(out.edge)
            if not passed:
                return skipped
            member, chosen = passed.pop(), None
            skipped.append(member)
            token = this.tokens.pop(member.index)

    def _arrive(
        self,
        this: _Round,
        member: Member,
        position: int,
        token: Token,
        live: bool,
        ready: list[Member],
        passed: list[Member],
    ) -> None:
        if len(member.entries) > 1:
            met = self._meet(this, member, position, token, live)
            if met is None:
                return
            token, live = met
        this.tokens[member.index] = token
        (ready if live else passed).append(member)

    def _meet(self, this: _Round, member: Member, position: int, token: Token, live: bool) -> tuple[Token, bool] | None:
        """Settle one of several edges to a member; return its start and whether it runs, if that is decided."""
        meeting = this.meetings.get(member.index)
        if meeting is None:
            meeting = this.meetings[member.index] = _Meeting(len(member.entries))
        meeting.missing -= 1
        if meeting.chosen is not None:
            this.loose.append((member.index, True, position, token))
            return None
        meeting.arrived[position] = (token, live)
        if member.chance and live and self._recorded_choice(member) in (None, position):
            return self._choose(this, member, meeting, position), True
        if meeting.missing:
            return None
        arrived = [each for each in meeting.arrived if each is not None]
        lives = [number for number, (_, live) in enumerate(arrived) if live]
        if member.chance and lives:  # another one than recorded
            return self._choose(this, member, meeting, lives[0]), True
        runs = len(lives) == len(arrived) if member.node.join == "all" else bool(lives)
        return joined([token for token, _ in arrived], self.state_type), runs

    def _choose(self, this: _Round, member: Member, meeting: _Meeting, position: int) -> Token:
        meeting.chosen = position
        for number, other in enumerate(meeting.arrived):
            if other is not None and number != position:
                this.loose.append((member.index, True, number, other[0]))
        chosen = meeting.arrived[position]
        assert chosen is not None
        return chosen[0]

    def _choice_path(self, member: Member) -> str:
        return f"{self._next_name(member.node)}/any"

    def _recorded_choice(self, member: Member) -> int | None:
        record = self.journal.find(f"{self.path}/{self._choice_path(member)}")
        return None if record is None or record.result is None else as_type(record.result.value, int)

    async def _record_choice(self, this: _Round, member: Member, token: Token, ctx: Context) -> None:
        async def chosen(_: object, ctx: Context, /) -> int:
            position = this.meetings[member.index].chosen
            assert position is not None
            return position

        await self.journal.once(ctx.at(self._choice_path(member)), "any", token.cause, chosen, int)

    # -- nodes ---------------------------------------------------------------------------------------------------

    def _next_name(self, node: GraphNode) -> str:
        number = self.numbers.get(node.name, 0) + 1
        return node.name if number == 1 else f"{node.name}#{number}"

    async def _run_node(self, node: GraphNode, token: Token, ctx: Context) -> tuple[Token, Sequence[str]]:
        place, journal, state_type = place_at(ctx, self._next_name(node)), self.journal, self.state_type
        self.numbers[node.name] = self.numbers.get(node.name, 0) + 1
        emits = ctx.listens(NodeChanged)
        if emits:
            await ctx.emit(NodeChanged(place.path, node.name, "running"))
        if journal.replaying:
            record = journal.find(place.path)
            if record is None or not record.outcomes:
                refuse(node.name, place, journal)
        after: Token | None = None

        async def call(_: object, ctx: Context, /) -> Update:
            nonlocal after
            with program_at(ctx):
                returned = await node.call(state_type.state_of(token.values), ctx)
            changes = tuple([state_type.checked(each, node.name, node.writes) for each in returned])
            with noting_mistakes():
                try:
                    values = state_type.apply_all(token.values, changes)
                except ConfigurationError as error:
                    raise ConfigurationError(f"the update of the node {node.name}: {error}") from error
                update = Update(state_type.recorded(changes), self._choose_route(node, values, ctx))
            after = token.after(node.name, update, changes, values)
            return update

        try:
            update: Update = await journal.once(place, node.name, token.cause, call, Update, True)
        except Exception as error:
            if emits:
                await ctx.emit(NodeChanged(place.path, node.name, "failed", described(error)))
            raise
        replayed = after is None
        if after is None:
            changes = state_type.restored(update.changes, place.path)
            after = token.after(node.name, update, changes, state_type.apply_all(token.values, changes))
            self._check_recorded(update, node)
        if self.history is not None:
            state = state_type.finished(after.values)
            self.history.append(GraphPoint(0, node.name, place.path, after.cause.changes, update.to, state))
        if emits:
            recorded = tuple(plain(update.changes))
            await ctx.emit(NodeChanged(place.path, node.name, "completed", None, recorded, update.to, replayed))
        return after, update.to

    def _choose_route(self, node: GraphNode, values: Values, ctx: Context) -> tuple[str, ...]:
        route = self.routes.get(node.name)
        if route is None:
            return ()
        chosen = call_given(route.choose, ctx, self.state_type.state_of(values))
        if isinstance(chosen, str) and chosen in route.targets:
            return (chosen,)
        names = tuple(chosen) if isinstance(chosen, (list, tuple)) else None
        if names is None or (route.single and len(names) != 1) or not set(names) <= set(route.targets):
            several = "one of" if route.single else "a list of"
            raise ConfigurationError(
                f"the route of {node.name} returned {chosen!r:.200}, and chooses {several} "
                f"{', '.join(map(repr, route.targets))}"
            )
        return names

    def _check_recorded(self, update: Update, node: GraphNode) -> None:
        route = self.routes.get(node.name)
        if not set(update.to) <= set(() if route is None else route.targets):
            raise ConfigurationError(
                f"the route of {node.name} had chosen {', '.join(update.to)}, which this graph cannot do any more: "
                "resume the run with the graph as it was, or fork it before that node"
            )


def tolerant_in(region: Region) -> list[str]:
    names: list[str] = []
    for member in region.members:
        if member.tolerant:
            names += [node.name for node in nodes_of(member)]
        elif member.loop is not None:
            names += tolerant_in(member.loop)
    return names
