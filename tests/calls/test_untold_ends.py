"""Ends whose stop does not say what happened: a wait or a step that was over, and a question that was denied."""

from typing import Any

import pytest

from tests.samples import sample
from tests.stores.places import PLACES, new_store, reopened
from ziggurat import Agent, AgentRun, Denied, Deny
from ziggurat.agents import Environment
from ziggurat.errors import Timeout
from ziggurat.flows import ask, event, flow, step
from ziggurat.layers import timeout
from ziggurat.messages import stops
from ziggurat.middleware import Redaction
from ziggurat.testing import HandClock, Pause, ScriptedModel

SECRET = "sk-secret-of-mine"


@step(layers=[timeout(seconds=2)])
async def slow() -> str:
    return (await Agent(ScriptedModel([Pause(9), "late"])).run("go")).text


async def over(what: str) -> None:
    if what == "event":
        await event("paid", timeout=2)
    elif what == "question":
        await ask(f"May {SECRET} pass?", bool)
    else:
        await slow()


@pytest.mark.parametrize("place", ["by reference", *sample(PLACES, 1)], indirect=True)
@pytest.mark.parametrize(
    ("what", "stop", "raised", "told"),
    [
        ("event", stops.TimedOut(2), Timeout, "no event 'paid' was sent by"),
        ("step", stops.TimedOut(2), Timeout, "over/slow timed out after 2 s"),
        ("question", stops.ModelCallDenied("no way"), Denied, "the question 'May [REDACTED] pass?' was denied: no way"),
    ],
)
async def test_the_error_of_a_run_says_what_was_over_or_denied_and_where(
    what: str, stop: stops.Stop, raised: type[Exception], told: str, place: str
) -> None:
    store, environment = new_store(), Environment(clock=HandClock(auto=True))

    def elsewhere() -> Any:
        kept = store if place == "by reference" else reopened(store)
        return flow(store=kept, middleware=[Redaction(SECRET)])(over)

    run: AgentRun[Any] = await elsewhere().run(what, run_id="r", environment=environment)
    if what == "event":
        await environment.clock.sleep(3)
        run = await elsewhere().resume("r", environment=environment)
    if what == "question":
        run = await elsewhere().resume("r", {run.pending[0].id: Deny("no way")}, environment=environment)
    for each in (run, await elsewhere().run(what, run_id="r"), await elsewhere().replay("r")):
        assert each.stop == stop
        assert each.error is not None
        assert told in each.error
        assert "test_untold_ends.py" in each.error
        assert SECRET not in each.error
        assert ("resume('r')" in each.error) == (each.replayed and what == "step"), "which would end there again"
        with pytest.raises(raised, match=told.partition("[")[0]):
            each.raise_for_stop()


async def test_the_time_of_the_run_is_its_own() -> None:
    agent = Agent(ScriptedModel([Pause(9), "late"]), timeout=2)
    run = await agent.run("go", environment=Environment(clock=HandClock(auto=True)))
    assert (run.stop, run.cause) == (stops.TimedOut(2), None)
    assert run.error == "the run timed out after 2 s"
