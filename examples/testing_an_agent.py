"""Testing an agent offline: a scripted model, faults, a clock moved by hand. Run the file, or run pytest on it."""

import asyncio

from ziggurat import Agent, stack, stops
from ziggurat.agents import Environment
from ziggurat.layers import retry
from ziggurat.messages import tool_call
from ziggurat.testing import HandClock, ScriptedModel, assert_no_leaks, fail_on, forbid_real_calls


def weather(city: str) -> str:
    """Forecast for a city."""
    return f"{city}: rain"


def test_the_tool_is_called_with_the_city() -> None:
    model = ScriptedModel(tool_call("weather", city="Rome"), "Take an umbrella.")
    run = Agent(model, tools=[weather]).run_sync("Umbrella in Rome?")
    assert run.actions == ('weather {"city":"Rome"}',)
    assert model.last.messages[-1].tool_results[0].text == "Rome: rain"


def test_a_lost_connection_is_tried_again_after_a_while() -> None:
    clock = HandClock(auto=True)  # jumps to the next timer when nothing else is ready, so the test does not wait
    model = stack(fail_on(ScriptedModel(always="Here."), 1), retry(attempts=2, base=20, jitter="none"))
    run = Agent(model).run_sync("Are you there?", environment=Environment(clock=clock))
    assert run.text == "Here."
    assert run.seconds >= 20


def test_an_endless_agent_is_stopped_and_leaves_nothing_behind() -> None:
    with assert_no_leaks():
        model = ScriptedModel(always=tool_call("weather", city="Rome"))
        run = Agent(model, tools=[weather], max_steps=3).run_sync("Go on")
    assert run.stop == stops.MaxSteps(3)


async def test_leaving_a_stream_early_leaves_nothing_behind() -> None:
    async with assert_no_leaks(), Agent(ScriptedModel("a long story")).stream("Tell me") as events:
        async for _ in events:
            break


def main() -> None:
    with forbid_real_calls():
        test_the_tool_is_called_with_the_city()
        test_a_lost_connection_is_tried_again_after_a_while()
        test_an_endless_agent_is_stopped_and_leaves_nothing_behind()
        asyncio.run(test_leaving_a_stream_early_leaves_nothing_behind())
    print("4 tests passed")


if __name__ == "__main__":
    main()
