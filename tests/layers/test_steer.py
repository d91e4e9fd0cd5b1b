import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ziggurat import Agent, AgentRequest, AgentRun, ConfigurationError, Context, ModelRequest, Service, stack
from ziggurat.core import root
from ziggurat.core.context import JOURNAL, RUN_ID
from ziggurat.core.service import COMPOSITE, NAME, fact, name_of
from ziggurat.errors import ModelError, Suspend
from ziggurat.journal import LocalJournal
from ziggurat.journal.journal import Mode
from ziggurat.layers.pipeline import Pick, steer
from ziggurat.layers.retry import retry
from ziggurat.messages.prompts import request_of
from ziggurat.testing import ScriptedModel, ScriptedReply

WRONG: Any = 3
Q = TypeVar("Q")

R = TypeVar("R")


class Thing:
    """Answers with its name and path."""

    def __init__(self, name: str) -> None:
        self.facts = {NAME: name}
        self.calls = 0

    async def __call__(self, request: str, ctx: Context) -> str:
        self.calls += 1
        return f"{self.facts[NAME]} at {ctx.path}"


def first_word(request: str, ctx: Context) -> str:
    return request.split()[0]


async def first_word_later(request: str, ctx: Context) -> str:
    await asyncio.sleep(0)
    return request.split()[0]


def call(service: Service[Q, R], request: Q, ctx: Context | None = None) -> R:
    async def main() -> R:
        return await service(request, ctx or root())

    return asyncio.run(main())


@pytest.mark.parametrize("pick", [first_word, first_word_later])
def test_the_picked_one_answers_and_no_other(pick: Pick[str]) -> None:
    a, b = Thing("a"), Thing("b")
    service = steer(pick, sales=a, support=b)
    assert call(service, "support please") == "b at run/support"
    assert (a.calls, b.calls) == (0, 1)


def test_a_service_may_be_the_picker() -> None:
    async def clerk(request: str, ctx: Context) -> str:
        return f"{'long' if len(request) > 5 else 'short'}"

    assert call(steer(stack(clerk, retry()), short=Thing("a"), long=Thing("b")), "a long one") == "b at run/long"


@pytest.mark.parametrize("picked", ["sale", None, 3, ""])
@pytest.mark.parametrize("recorded", [False, True])
def test_an_unknown_pick_says_what_there_is(picked: int | str | None, recorded: bool) -> None:
    def pick(request: str, ctx: Context) -> Any:
        return picked

    ctx = root().within(JOURNAL, LocalJournal()) if recorded else root()
    with pytest.raises(ConfigurationError, match=f"run/pick: pick picked {picked!r}; there are 'sales', 'support'"):
        call(steer(pick, sales=Thing("a"), support=Thing("b")), "q", ctx)


def test_an_error_of_the_picker_passes() -> None:
    def pick(request: str, ctx: Context) -> str:
        raise ModelError("no idea")

    with pytest.raises(ModelError, match="no idea"):
        call(steer(pick, a=Thing("a")), "q")


def opened(journal: LocalJournal) -> Context:
    return root().within(JOURNAL, journal).within(RUN_ID, "r")


@pytest.mark.parametrize("mode", ["resume", "replay"])
def test_what_was_picked_is_not_decided_again(mode: Mode) -> None:
    picks: list[str] = []

    def pick(request: AgentRequest, ctx: Context) -> str:
        picks.append(ctx.path)
        return "left" if len(picks) == 1 else "right"

    def service(*replies: ScriptedReply) -> Service[AgentRequest, AgentRun]:
        left = Agent(ScriptedModel(*replies, name="l"), name="one")
        return steer(pick, left=left, right=Agent(ScriptedModel("from the right", name="r"), name="two"))

    journal = LocalJournal()
    run = call(service("from the left"), request_of("?"), opened(journal))
    assert run.text == "from the left"
    written = b"\n".join(line for line in journal.dump().splitlines() if b'"run/left"' not in line)
    again = call(service("would do now"), request_of("?"), opened(LocalJournal.load(written, mode)))
    assert again.text == "from the left"
    assert picks == ["run/pick"]


def test_a_route_that_is_gone_since_is_named() -> None:
    journal = LocalJournal()
    call(steer(first_word, old=Thing("a"), new=Thing("b")), "old", opened(journal))
    later = opened(LocalJournal.load(journal.dump()))
    with pytest.raises(ConfigurationError, match="picked 'old'; there are 'new'"):
        call(steer(first_word, new=Thing("b")), "old", later)


def test_beneath_a_recorded_call_it_only_calls() -> None:
    journal = LocalJournal()
    ctx = root().charging().within(JOURNAL, journal)
    assert call(steer(first_word, a=Thing("x")), "a", ctx) == "x at run/a"
    assert journal.entries == []


async def test_models_may_be_steered_within_an_agent() -> None:
    def by_length(request: ModelRequest, ctx: Context) -> str:
        return "long" if len(request.messages) > 1 else "short"

    agent = Agent(steer(by_length, short=ScriptedModel("short", name="s"), long=ScriptedModel("long", name="l")))
    first = await agent.run("?")
    assert (first.text, (await agent.run("?", history=first.messages)).text) == ("short", "long")


async def test_a_suspension_of_the_picker_passes() -> None:
    async def pick(request: str, ctx: Context) -> str:
        raise Suspend(())

    with pytest.raises(Suspend):
        await steer(pick, a=Thing("a"))("q", root())


def test_facts_and_repr() -> None:
    class Team:
        facts = {COMPOSITE: True}  # noqa: RUF012

        async def __call__(self, request: str, ctx: Context) -> None: ...

    async def plain(request: str, ctx: Context) -> None: ...

    service = steer(first_word, sales=plain, support=Thing("b"))
    assert name_of(service) == "steer(plain, b)"
    assert repr(steer(first_word, sales=plain)) == "steer(first_word, sales=plain)"
    assert not fact(service, COMPOSITE)
    assert fact(steer(first_word, a=plain, b=Team()), COMPOSITE)


@pytest.mark.parametrize(
    "make", [lambda: steer(WRONG, a=Thing("a")), lambda: steer(first_word), lambda: steer(first_word, a=WRONG)]
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError, match="steer"):
        make()
