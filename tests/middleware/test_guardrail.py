import pytest

from tests.agents.support import Folded, assert_sendable
from tests.calls.given import given
from ziggurat import Agent, AgentRequest, AgentRun, ConfigurationError, Context, Runnable, Usage
from ziggurat.events import Dropped
from ziggurat.messages import stops, tool_call
from ziggurat.middleware import OutputGuardrail
from ziggurat.middleware.wrapping import Guarded
from ziggurat.testing import ScriptedModel


def no_prices(text: str, ctx: Context) -> str | None:
    return "name no prices" if "$" in text else None


def look() -> str:
    """Look."""
    return "it costs $5"


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_is_mended_and_the_bad_one_is_nowhere(streamed: bool) -> None:
    cost = Usage(input=3, output=1, requests=1)
    model = ScriptedModel(tool_call("look"), "It is $5.", "It is cheap.", usage=cost)
    heard = Folded()
    agent = Agent(model, tools=[look], middleware=[OutputGuardrail(no_prices)])
    run = await agent.run("go", listeners=[heard] if streamed else [])
    assert (run.text, run.steps, run.usage, run.model_calls) == ("It is cheap.", 2, cost + cost + cost, 3)
    assert "It is $5." not in repr(list(run.messages))
    assert_sendable(run.messages)
    asked = list(model.last.messages)
    assert [message.text for message in asked[-2:]] == ["It is $5.", "name no prices\nPlease answer again."]
    assert asked[-1].origin == "runtime"
    assert_sendable(asked)
    assert streamed == any(isinstance(event, Dropped) for event in heard.events)


async def test_after_the_bound_the_run_is_denied_and_what_it_cost_is_counted() -> None:
    model = ScriptedModel(always="$", usage=Usage(input=1, output=1, requests=1))
    run = await Agent(model, middleware=[OutputGuardrail(no_prices, retries=1)]).run("go")
    assert run.stop == stops.ModelCallDenied("no answer passed the check in 2 tries: name no prices")
    assert (len(model.calls), run.usage.total) == (2, 4)
    assert_sendable(run.messages)


async def test_a_typed_answer_is_checked_as_a_value() -> None:
    async def small(value: int, ctx: Context) -> str | None:
        return "too large" if value == 30 else None

    model = ScriptedModel(tool_call("final_answer", value=30), tool_call("final_answer", value=3))
    run = await Agent(model, output=int, middleware=[OutputGuardrail(small)]).run("go")
    assert run.output == 3
    assert_sendable(model.last.messages)
    assert model.last.messages[-1].tool_results[0].text == "too large"


@pytest.mark.parametrize(("agents", "told"), [("own", "$1"), ("all", "one")])
async def test_whose_answers_are_checked(agents: Guarded, told: str) -> None:
    inner = Agent(ScriptedModel("$1", "one"), name="inner")
    guardrail = OutputGuardrail(no_prices, agents=agents)
    agent = Agent(ScriptedModel(tool_call("inner", input="x"), "$2", "ok"), tools=[inner], middleware=[guardrail])
    run = await agent.run("go")
    assert (run.observations, run.text) == ((told,), "ok")
    assert repr(guardrail) == f"OutputGuardrail(no_prices, retries=2, agents={agents!r})"


def test_a_guardrail_of_a_context_checks_all() -> None:
    async def entry(request: AgentRequest, ctx: Context) -> AgentRun:
        return await Agent(ScriptedModel("$1", "one"), name="inner")(
            request, given(ctx, OutputGuardrail(no_prices)).under("inner")
        )

    assert Runnable(entry).run_sync("go").text == "one"


def test_mistakes_are_told_of() -> None:
    with pytest.raises(ConfigurationError, match="is a function of 2 arguments; got"):
        OutputGuardrail("x")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="True"):
        Agent(ScriptedModel("x"), middleware=[OutputGuardrail(lambda text, ctx: True)]).run_sync("?")  # type: ignore[arg-type,return-value]
    with pytest.raises(ConfigurationError, match="at least 0"):
        OutputGuardrail(no_prices, retries=-1)
