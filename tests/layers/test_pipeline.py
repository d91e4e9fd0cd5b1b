import asyncio
from typing import Any, TypeVar

import pytest
from msgspec import Struct

from ziggurat import Agent, ConfigurationError, Context, ModelRequest, ModelResponse, Service, Usage, stack, tool, user
from ziggurat.core import root
from ziggurat.core.context import JOURNAL, RUN_ID
from ziggurat.core.service import COMPOSITE, EFFECT, RETURNS, fact, name_of
from ziggurat.errors import ModelError
from ziggurat.journal import LocalJournal
from ziggurat.layers.pipeline import pipeline
from ziggurat.layers.retry import retry
from ziggurat.messages import Transcript, assistant
from ziggurat.stores import InMemoryStore
from ziggurat.testing import fail_on

R = TypeVar("R")


class Report(Struct):
    words: list[str]


async def words(request: str, ctx: Context) -> Report:
    return Report(request.split())


async def count(request: Report, ctx: Context) -> int:
    return len(request.words)


async def stars(request: int, ctx: Context) -> str:
    return "*" * request


def call(service: Service[str, R], request: str, ctx: Context | None = None) -> R:
    async def main() -> R:
        return await service(request, ctx or root())

    return asyncio.run(main())


def test_what_one_answers_the_next_is_asked() -> None:
    assert call(pipeline(words, count), "to be or not") == 4
    assert call(pipeline(words, count, stars), "to be or not") == "****"
    assert call(pipeline(pipeline(words, count), stars), "to be") == "**"


def test_each_stage_has_a_place_of_its_own() -> None:
    places: list[str] = []

    async def noting(request: str, ctx: Context) -> str:
        places.append(ctx.path)
        return request

    call(pipeline(noting, pipeline(noting, noting)), "q")
    assert places == ["run/stage-1", "run/stage-2/stage-1", "run/stage-2/stage-2"]


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_the_first_error_ends_it_and_tells_its_stage(failing: int) -> None:
    asked, error = list[int](), ModelError("down")

    def stage(number: int) -> Service[str, str]:
        async def asking(request: str, ctx: Context) -> str:
            asked.append(number)
            if number == failing:
                raise error
            return request

        return asking

    with pytest.raises(ModelError) as raised:
        call(pipeline(stage(1), stage(2), stage(3)), "q")
    assert raised.value is error
    assert error.__notes__ == [f"in stage {failing} of 3: asking"]
    assert asked == list(range(1, failing + 1))


@pytest.mark.parametrize("written", [False, True])
def test_what_was_answered_stands_when_it_is_resumed(written: bool) -> None:
    """The type is kept, too: a stage's response class comes from its annotation."""
    journal = LocalJournal()
    ctx = root().within(JOURNAL, journal).within(RUN_ID, "r")
    first, last = fail_on(words), fail_on(count, 1, error=lambda: ModelError("down"))
    with pytest.raises(ModelError):
        call(pipeline(first, last), "a b c", ctx)
    if written:
        journal = LocalJournal.load(journal.dump())
        journal.reopen("r", 0.0)
        ctx = root().within(JOURNAL, journal).within(RUN_ID, "r")
        with pytest.raises(ModelError):  # the recorded failure is the first answer
            call(pipeline(first, last), "a b c", ctx)
    assert call(pipeline(first, last), "a b c", ctx.again()) == 3
    assert (first.calls, last.calls) == (1, 2)


def test_a_retry_around_all_goes_on_where_it_failed() -> None:
    ctx = root().within(JOURNAL, LocalJournal()).within(RUN_ID, "r")
    first, last = fail_on(words), fail_on(count, 1)
    assert call(stack(pipeline(first, last), retry(base=0)), "a b", ctx) == 2
    assert (first.calls, last.calls) == (1, 2)


def test_facts_and_repr() -> None:
    @tool(effect="once")
    async def pay() -> str:
        return "paid"

    service = pipeline(words, count)
    assert name_of(service) == "pipeline(words, count)"
    assert repr(service) == "pipeline(words, count)"
    assert fact(service, RETURNS) is int
    assert not fact(service, COMPOSITE)
    effects: Any = (words, pay)  # facts do not depend on matching types
    assert fact(pipeline(*effects), EFFECT) == "once"


@pytest.mark.parametrize("stages", [(), (words,), (words, "count"), (None, words)])
def test_what_makes_no_sense_is_refused(stages: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigurationError, match=r"^pipeline\((\*stages)?\) (is a Service|needs)"):
        pipeline(*stages)


@pytest.mark.parametrize("fails", [False, True])
async def test_all_models_of_a_pipeline_are_paid_for(fails: bool) -> None:
    async def draft(request: ModelRequest, ctx: Context) -> ModelResponse:
        return ModelResponse(assistant("a draft"), usage=Usage(100, 10, requests=1))

    async def again(response: ModelResponse, ctx: Context) -> ModelRequest:
        return ModelRequest(Transcript.of(user(response.text)))

    async def polish(request: ModelRequest, ctx: Context) -> ModelResponse:
        if fails:
            raise ModelError("broken", kind="invalid_request")
        return ModelResponse(assistant("polished"), usage=Usage(20, 2, requests=1))

    store = InMemoryStore()
    agent = Agent(pipeline(draft, again, polish), store=store)
    run = await agent.run("go", run_id="r")
    replayed = await Agent(pipeline(draft, again, polish), store=InMemoryStore(shared=store)).replay("r")
    assert (run.usage.input, run.usage.output) == ((100, 10) if fails else (120, 12))
    assert run.usage.requests == 2
    assert replayed.usage == run.usage
    assert run.text == ("" if fails else "polished")
