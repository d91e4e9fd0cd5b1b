import asyncio
from typing import Any, ClassVar

import pytest
from msgspec import Struct

from ziggurat import ConfigurationError, Context, Denied, Event, Service, Timeout, stack
from ziggurat.core import root
from ziggurat.core.context import JOURNAL
from ziggurat.core.service import COMPOSITE, NAME, Fact, fact, name_of
from ziggurat.errors import InvalidArguments, JournalMismatch, ModelError, Suspend
from ziggurat.events import Dropped
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Ended
from ziggurat.journal.journal import Charged, Mode
from ziggurat.layers.alternatives import fallback
from ziggurat.layers.retry import retry
from ziggurat.testing import fail_on

WINDOW: Fact[int] = Fact("window", 0)
COLOUR: Fact[str] = Fact("colour", "none")


class Spent(Struct, frozen=True):
    """A usage, of which layers know nothing."""

    tokens: int


class Thing:
    """Answers with its name and path, after the given number of failures."""

    def __init__(self, name: str, *errors: Exception, facts: dict[Fact[Any], Any] | None = None) -> None:
        self.facts = {NAME: name, **(facts or {})}
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self, request: str, ctx: Context) -> str:
        self.calls += 1
        if self.calls <= len(self.errors):
            raise self.errors[self.calls - 1]
        return f"{self.facts[NAME]} at {ctx.path}"


class Team:
    """A composite of two recorded calls."""

    facts: ClassVar[dict[Fact[Any], Any]] = {NAME: "team", COMPOSITE: True}

    def __init__(self, *members: Thing) -> None:
        self.members = members

    async def __call__(self, request: str, ctx: Context) -> list[str]:
        return [
            await ctx.at(f"step-{number}").once(name_of(each), request, each, returns=str)
            for number, each in enumerate(self.members)
        ]


async def test_the_first_that_answers_answers() -> None:
    first, second = Thing("a"), Thing("b")
    assert await fallback(first, second)("q", root()) == "a at run/alt-1"
    assert second.calls == 0
    service = fallback(Thing("a", KeyError("x")), Thing("b"), when=lambda error: isinstance(error, KeyError))
    assert await service("q", root()) == "b at run/alt-2"


@pytest.mark.parametrize("failing", range(4))
async def test_alternatives_are_asked_in_order(failing: int) -> None:
    heard: list[Event] = []
    things = [Thing(name, *([ModelError("down")] if index < failing else [])) for index, name in enumerate("abcd")]
    answer = await fallback(*things)("q", root().heard_by(heard.append))
    assert answer == f"{'abcd'[failing]} at run/alt-{failing + 1}"
    assert heard == [Dropped(f"run/alt-{number + 1}", "ModelError: down") for number in range(failing)]


async def test_when_all_fail_the_last_error_tells_of_the_others() -> None:
    last = ModelError("third")
    things = Thing("a", ModelError("first")), Thing("b", ConnectionError("second")), Thing("c", last)
    service = fallback(*things)
    for _ in range(2):
        with pytest.raises(ModelError) as raised:
            await service("q", root())
        assert raised.value is last
        assert last.__notes__ == [
            "a had failed before: ModelError: first",
            "b had failed before: ConnectionError: second",
        ]
        for thing in things:
            thing.calls = 0


@pytest.mark.parametrize("error", [Denied("no"), InvalidArguments("x"), ValueError("bug"), KeyError("bug")])
async def test_refusals_and_mistakes_end_it(error: Exception) -> None:
    second = Thing("b")
    with pytest.raises(type(error)):
        await fallback(Thing("a", error), second)("q", root())
    assert second.calls == 0


@pytest.mark.parametrize("error", [asyncio.CancelledError(), Suspend(())])
async def test_signals_pass(error: Exception) -> None:
    second = Thing("b")
    with pytest.raises(type(error)):
        await fallback(Thing("a", error), second, when=lambda _: True)("q", root())
    assert second.calls == 0


def test_facts_are_those_all_agree_on() -> None:
    both: dict[Fact[Any], Any] = {WINDOW: 8_000, COLOUR: "red"}
    service = fallback(Thing("a", facts=both), stack(Thing("b", facts={**both, COLOUR: "blue"}), retry()))
    assert fact(service, WINDOW) == 8_000
    assert fact(service, COLOUR) == "none"
    assert name_of(service) == "fallback(a, b)"
    assert not fact(service, COMPOSITE)
    assert fact(stack(fallback(Thing("a"), Team()), retry()), COMPOSITE)


async def test_what_it_cost_is_counted_beneath_a_record() -> None:
    error, last = ModelError("half"), ModelError("whole")
    error.usage, last.usage = Spent(12), Spent(13)  # the last is charged by who records it
    charged = Charged(LocalJournal(), "run")
    with pytest.raises(ModelError):
        await fallback(Thing("a", error), Thing("b", last))("q", root().charging(charged))
    assert charged.spent == [Spent(12)]


def journal_of(data: bytes | None = None, mode: Mode = "resume") -> LocalJournal:
    return LocalJournal() if data is None else LocalJournal.load(data, mode)


async def test_beneath_a_recorded_call_only_that_is_on_record() -> None:
    journal = journal_of()
    model = fallback(Thing("a", ModelError("down")), Thing("b"))
    ctx = root().within(JOURNAL, journal)
    await ctx.under("model").once("m", "q", model, returns=str)
    assert [entry.path for entry in journal.entries] == ["run/model"]


@pytest.mark.parametrize("mode", ["resume", "replay"])
def test_the_verdicts_stand_on_replay(mode: Mode) -> None:
    journal = journal_of()
    first = asyncio.run(fallback(Thing("a", ModelError("down")), Thing("b"))("q", root().within(JOURNAL, journal)))
    assert [(entry.path, entry.kind) for entry in journal.entries] == [
        ("run/alt-1", "Failure"),
        ("run/alt-2", "Result"),
    ]
    well, other = Thing("a"), Thing("b")
    again = fallback(well, other)("q", root().within(JOURNAL, journal_of(journal.dump(), mode)))
    assert asyncio.run(again) == first
    assert well.calls == other.calls == 0


@pytest.mark.parametrize("reopened", [False, True])
def test_a_composite_that_failed_is_not_entered_again(reopened: bool) -> None:
    """Its parts and its outcome are recorded, also if the run then failed elsewhere."""

    def teams(well: bool) -> tuple[Team, Team]:
        wrong = [] if well else [ModelError("down")]
        return Team(Thing("x"), Thing("y", *wrong)), Team(Thing("z"))

    journal = journal_of()
    first = asyncio.run(fallback(*teams(False))("q", root().within(JOURNAL, journal)))
    assert first == ["z at run/alt-2/step-0"]
    journal.append(Ended("", "Failed"))
    later = journal_of(journal.dump())
    if reopened:
        later.reopen("r", 0.0)
    one, two = teams(True)
    assert asyncio.run(fallback(one, two)("q", root().within(JOURNAL, later))) == first
    assert [member.calls for member in (*one.members, *two.members)] == [0, 0, 0]


def test_a_retry_around_goes_on_where_the_record_ends() -> None:
    """Both alternatives fail once; on resume each failure answers once, then the result."""

    async def no_wait(service: Service[str, list[str]], journal: LocalJournal) -> list[str]:
        return await stack(service, retry(base=0))("q", root().within(JOURNAL, journal))

    def teams(*errors: Exception) -> tuple[Team, Team]:
        return Team(Thing("x", *errors)), Team(Thing("z", *errors))

    journal = journal_of()
    first = asyncio.run(no_wait(fallback(*teams(Timeout(seconds=1))), journal))
    assert first == ["x at run/alt-1/step-0"]
    one, two = teams()
    assert asyncio.run(no_wait(fallback(one, two), journal_of(journal.dump(), "replay"))) == first
    assert one.members[0].calls == two.members[0].calls == 0


def test_after_a_crash_a_second_try_is_a_second_try() -> None:
    """The recorded failure of the first try also covers the failures within it."""
    journal = journal_of()
    steps = Thing("x", Timeout(seconds=1)), Thing("y")
    service = fallback(Team(*steps), Team(Thing("z", Timeout(seconds=1))))
    crash = fail_on(service, 2, error=asyncio.CancelledError)

    async def main(service: Service[str, list[str]], journal: LocalJournal) -> list[str]:
        return await stack(service, retry(base=0))("q", root().within(JOURNAL, journal))

    async def crashing() -> None:
        with pytest.raises(asyncio.CancelledError):
            await main(crash, journal)

    asyncio.run(crashing())
    x, y, z = Thing("x"), Thing("y"), Thing("z")
    later = journal_of(journal.dump())
    answer = asyncio.run(main(fallback(Team(x, y), Team(z)), later))
    assert answer == ["x at run/alt-1/step-0", "y at run/alt-1/step-1"]
    assert (x.calls, y.calls, z.calls) == (1, 1, 0)


async def test_replay_shows_a_call_that_is_not_on_record() -> None:
    journal = journal_of(LocalJournal().dump(), "replay")
    with pytest.raises(JournalMismatch):
        await fallback(Team(Thing("x")), Team(Thing("z")))("q", root().within(JOURNAL, journal))


def test_mistakes_are_refused_where_they_are_made() -> None:
    wrong: Any = "gpt"
    with pytest.raises(ConfigurationError, match="at least two"):
        fallback(Thing("a"))
    with pytest.raises(ConfigurationError, match="'gpt'"):
        fallback(Thing("a"), wrong)
    with pytest.raises(ConfigurationError, match="when"):
        fallback(Thing("a"), Thing("b"), when=wrong)
