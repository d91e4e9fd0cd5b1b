"""Tests of prices; an unknown price is never zero."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from ziggurat import Agent, Context, ModelRequest, ModelResponse, Usage, stack
from ziggurat.core.event import warn_once
from ziggurat.errors import MissingExtra
from ziggurat.layers import CacheStore, cache
from ziggurat.messages import assistant
from ziggurat.observe import cost
from ziggurat.observe.metrics import AgentStatistics
from ziggurat.testing import ScriptedModel

pytest.importorskip("genai_prices")
WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def test_tokens_are_charged_by_the_list() -> None:
    assert cost(Usage(input=1_000_000, output=100_000), "openai:gpt-4o", at=WHEN) == Decimal("3.5")


def test_cached_tokens_are_part_of_the_input() -> None:
    usage = Usage(input=1000, output=0, cache_read=500, cache_write=200)
    fresh, read, written = Decimal("3"), Decimal("0.3"), Decimal("3.75")
    expected = (300 * fresh + 500 * read + 200 * written) / 1_000_000
    assert cost(usage, "anthropic:claude-sonnet-4-5", at=WHEN) == expected


def test_without_a_price_for_cached_tokens_they_are_charged_in_full() -> None:
    price = cost(Usage(input=1000, output=0, cache_write=500), "openai:gpt-4o", at=WHEN)
    assert price == cost(Usage(input=1000, output=0), "openai:gpt-4o", at=WHEN)


@pytest.mark.parametrize("name", ["openai:gpt-4o", "openai-responses:gpt-4o", "gpt-4o"])
def test_a_name_says_who_answers(name: str) -> None:
    usage = Usage(input=1000, output=100)
    assert cost(usage, name, at=WHEN) == cost(usage, "openai:gpt-4o", at=WHEN) is not None


@pytest.mark.parametrize(
    "model",
    [
        "openai:no-such-model",
        "nobody:gpt-4o",
        "ollama:llama3",
        "openai@http://localhost:8000/v1:gpt-4o",
        "localhost",
        "",
        "openai:text-embedding-3-small",
        "openrouter:deepseek/deepseek-r1:free",
    ],
)
def test_what_is_not_listed_has_no_price(model: str) -> None:
    assert cost(Usage(input=10, output=10), model) is None


@pytest.mark.parametrize("model", ["demo", "local:coder"])
def test_a_model_in_this_process_costs_nothing(model: str) -> None:
    assert cost(Usage(input=10, output=10), model) == cost(Usage(), model) == 0


@pytest.mark.parametrize("usage", [Usage(), Usage(input=1), Usage(output=1), Usage(input=1, output=1, cache_read=9)])
def test_tokens_that_are_not_known_have_no_price(usage: Usage) -> None:
    assert cost(usage, "openai:gpt-4o") is None


class Model:
    """Answers with the given responses."""

    def __init__(self, *responses: ModelResponse) -> None:
        self._responses = iter(responses)

    async def __call__(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        return next(self._responses)


async def test_an_answer_from_a_cache_costs_nothing() -> None:
    reply = ModelResponse(assistant("Done."), "stop", Usage(input=1000, output=100, requests=1, model="gpt-4o"))
    agent = Agent(stack(Model(reply), cache(store=CacheStore())))
    runs = [await agent.run("Look.") for _ in range(2)]
    assert [run.cost for run in runs] == [cost(reply.usage, "gpt-4o"), Decimal(0)]


def test_the_extra_is_named_when_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(MissingExtra, match="prices"):
        cost(Usage(input=1, output=1), "gpt-4o")


async def test_an_ended_run_without_the_extra_has_no_price_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    warn_once.cache_clear()
    run = await Agent(ScriptedModel("Hello.")).run("Hi")
    summary = AgentStatistics(usage=run.usage_by_model)
    assert [run.cost, run.cost, summary.cost] == [None, None, None]
    assert "unpriced" in run.figures
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "ziggurat[prices]" in caplog.text


def test_the_list_is_read_when_it_is_used() -> None:
    code = "import sys, ziggurat.messages.usage; assert 'genai_prices' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
