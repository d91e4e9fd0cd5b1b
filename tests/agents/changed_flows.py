"""Generated flows whose code changes while a run of them waits, and what each call in them must give then."""

import random
from collections.abc import Sequence

from msgspec import Struct

from ziggurat.agents import Answer, Environment, runs_of
from ziggurat.core.codec import as_type
from ziggurat.errors import JournalMismatch
from ziggurat.flows import Flow, ask, event, first, flow, gather, quorum, sleep, step
from ziggurat.journal.entries import Record
from ziggurat.messages import stops
from ziggurat.messages.agent import decision_of
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock

TYPES = {"text": str, "number": int}
GROUPS = ("gather", "first", "quorum")


class Node(Struct, frozen=True):
    """A call: of a step, a wait, a member, or a group of parts.

    Attributes:
        kind: What is called.
        name: The name of a step, a member or an event, or the text of a question.
        type: The argument of a step or a member, or the type of what is waited for.
        parts: The calls in a member, or in each part of a group.
    """

    kind: str
    name: str = ""
    type: str = ""
    parts: tuple[tuple["Node", ...], ...] = ()

    @property
    def request(self) -> object:
        """What is compared with the record."""
        return len(self.parts) if self.kind in GROUPS else None if self.kind == "sleep" else (self.name, self.type)

    @property
    def place(self) -> str:
        """Its name in paths."""
        return self.name if self.kind in ("step", "member") else self.kind


Code = tuple[Node, ...]


def node(chance: random.Random, depth: int = 2) -> Node:
    """Return a random call."""
    kinds = ["step", "step", "ask", "ask", "event", "sleep", *(["member", *GROUPS] if depth else [])]
    kind = chance.choice(kinds)
    if kind in GROUPS:
        return Node(kind, parts=tuple(code(chance, depth - 1) for _ in range(chance.randint(2, 3))))
    parts = (code(chance, depth - 1),) if kind == "member" else ()
    name = chance.choice("abc") if kind != "member" else chance.choice(("ann", "ben"))
    return Node(kind, name, chance.choice([*TYPES]), parts)


def code(chance: random.Random, depth: int = 2) -> Code:
    """Return the random calls of a function."""
    return tuple(node(chance, depth) for _ in range(chance.randint(1, 3)))


def changed(code: Code, chance: random.Random) -> Code:
    """Return code with one call added, removed, moved, renamed or of another type, or a changed part of a group."""
    at = chance.randrange(len(code)) if code else 0
    kind = chance.choice(("add", "remove", "move", "rename", "retype", "within", "within"))
    if kind == "add" or not code:
        return (*code[:at], node(chance, 1), *code[at:])
    one = code[at]
    if kind == "remove":
        return (*code[:at], *code[at + 1 :])
    if kind == "move":
        return tuple(chance.sample(code, len(code)))
    if kind == "rename" and one.kind not in GROUPS:
        one = Node(one.kind, chance.choice("abc"), one.type, one.parts)
    elif kind == "retype" and one.kind not in GROUPS:
        one = Node(one.kind, one.name, chance.choice([*TYPES]), one.parts)
    elif one.kind in GROUPS and kind != "within":
        parts = (*one.parts, (node(chance, 0),)) if chance.random() < 0.5 else one.parts[:-1] or one.parts
        one = Node(chance.choice((one.kind, *GROUPS)), parts=parts)
    elif one.parts:
        part = chance.randrange(len(one.parts))
        parts = tuple(changed(each, chance) if number == part else each for number, each in enumerate(one.parts))
        one = Node(one.kind, one.name, one.type, parts)
    return (*code[:at], one, *code[at + 1 :])


class Known(Struct, frozen=True):
    """What the record has of a call: what was asked, whether another request is refused, and what came of it."""

    request: object
    bound: bool
    settled: bool
    value: object = None


class Trial:
    """A run whose code may change; every call in it is compared with the record as it was when the run went on."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.store = InMemoryStore()
        self.clock = HandClock()
        self.asked: dict[str, object] = {}  # by path, what was asked for the record
        self.known: dict[str, Known] = {}  # what was on record when the run was continued
        self.made: list[str] = []  # the steps that were run since then
        self.waiting: set[str] = set()  # the paths of the waits that the code came to and that were not over
        self.refusals: list[str] = []  # the paths of the calls that do not fit the record
        self.wrong: list[str] = []  # what was given that should not have been
        self.answers = 0

    async def call(self, each: Node, at: str) -> object:
        """Make a call, and compare what it gives with what was on record."""
        known = self.known.get(at)
        if known is None or not known.bound:
            self.asked[at] = each.request
        elif known.request != each.request:
            self.refusals.append(at)
        waits = each.kind in ("ask", "event", "sleep")
        if waits:
            self.waiting.add(at)
        made = len(self.made)
        value = await self.make(each, at)
        self.waiting = {path for path in self.waiting if path != at and not path.startswith(f"{at}/")}
        if known is not None and known.bound and known.request != each.request:
            self.wrong.append(f"{at} was not refused")
        if known is not None and known.settled:
            if each.kind not in GROUPS and value != known.value:
                self.wrong.append(f"{at} gave {value!r}, and on record is {known.value!r}")
        elif each.kind == "step" and at not in self.made[made:]:
            self.wrong.append(f"{at} was not run")
        return value

    async def make(self, each: Node, at: str) -> object:
        """Make a call."""
        match each.kind:
            case "step":

                @step(name=each.name)
                async def act(argument: str) -> str:
                    self.made.append(at)
                    return f"{at} {argument} {len(self.made)}"

                return await act(each.type)
            case "ask":
                return await ask(each.name, TYPES[each.type])
            case "event":
                return await event(each.name, TYPES[each.type])
            case "sleep":
                await sleep(hours=1)
                return None
            case "member":

                @flow(name=each.name)
                async def member(argument: str) -> str:
                    return str(await self.calls(each.parts[0], at))

                return (await member.run(each.type)).output
        parts = [self.calls(part, f"{at}/{number}") for number, part in enumerate(each.parts, 1)]
        match each.kind:
            case "gather":
                return list(await gather(*parts))
            case "first":
                return await first(*parts)
            case _:
                return list(await quorum(2 if len(parts) > 2 else 1, *parts))

    async def calls(self, code: Sequence[Node], at: str) -> list[object]:
        """Make the calls of a function, each at its place."""
        used: dict[str, int] = {}
        values: list[object] = []
        for each in code:
            number = used[each.place] = used.get(each.place, 0) + 1
            values.append(await self.call(each, f"{at}/{each.place}" + (f"#{number}" if number > 1 else "")))
        return values

    def flow(self, code: Code) -> Flow[None, str]:
        """Return the flow with code."""

        async def trial() -> str:
            return str(await self.calls(code, "trial"))

        return flow(name="trial", store=self.store)(trial)

    async def go_on(self, code: Code, *, begin: bool = False) -> str:
        """Run or resume the run with code, and check all that must hold; return how it stopped, or ``"refused"``."""
        asked = dict(self.asked)
        for log in (self.made, self.waiting, self.refusals, self.wrong):
            log.clear()
        self.known = {} if begin else await self.on_record()
        trial, environment = self.flow(code), Environment(clock=self.clock)
        before = b"" if begin else await trial.record("r")
        ids = {} if begin else {item.path: item.id for item in (await trial.attach("r").status()).pending}
        try:
            run = await (trial.run if begin else trial.resume)(run_id="r", environment=environment)
        except JournalMismatch as error:
            refusal = str(error)
        else:
            refusal = ""
        if refusal:
            assert any(refusal.startswith(f"{path}:") for path in self.refusals), refusal
            after = await trial.record("r")
            assert after == before or (self.made and after.startswith(before))
            self.asked = asked | {path: self.asked[path] for path in self.made if path in self.asked}
            return "refused"
        assert self.wrong == []
        assert self.refusals == []
        assert isinstance(run.stop, (stops.Completed, stops.Suspended)), run.error
        if isinstance(run.stop, stops.Suspended):
            listed = (await trial.attach("r").status()).pending
            assert {item.path for item in run.pending} == self.waiting
            assert {item.id for item in listed} == {item.id for item in run.pending}
            for item in run.pending:
                same = item.path in self.known and self.known[item.path].request == self.asked[item.path]
                assert not same or item.path not in ids or ids[item.path] == item.id, "asked twice"
        return type(run.stop).__name__

    async def on_record(self) -> dict[str, Known]:
        """Return what is on record, by path."""
        journal = await runs_of(self.store).read("r")
        found = {path: journal.find(path) for path in journal.paths() if path in self.asked}
        return {path: self._known(path, record) for path, record in found.items() if record is not None}

    def _known(self, path: str, record: Record) -> Known:
        value: object = None
        if record.decided is not None:
            decision = decision_of(record.decided.decision)
            value = decision.value if isinstance(decision, Answer) else decision
        elif record.result is not None:
            value = as_type(record.result.value, object)
            value = value.get("output") if isinstance(value, dict) else value
        settled = record.decided is not None or record.result is not None
        return Known(self.asked[path], settled or record.entered is not None, settled, value)

    async def happen(self, code: Code) -> None:
        """Let something happen that the run waits for."""
        trial = self.flow(code)
        waiting = (await trial.attach("r").status()).pending
        if not waiting:  # all is decided, and the run has not gone on yet
            return
        item = self.chance.choice(waiting)
        self.answers += 1
        request = self.asked[item.path]
        name, kind = request if isinstance(request, tuple) else ("", "text")
        value = self.answers if kind == "number" else f"answer {self.answers}"
        if item.stage == "timer":
            await self.clock.advance(3600)
        elif item.stage == "event":
            await trial.attach("r").send(name, value)
        else:
            await trial.attach("r").decide({item.id: Answer(value)}, environment=Environment(clock=self.clock))
