"""Agents, and what is made of them, are services: they can be called outside of runs, plainly or through a stream."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.agents.support import Folded, texts
from tests.samples import sample
from tests.stores.places import Place
from tests.wrong import wrong
from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Approve,
    Budget,
    ConfigurationError,
    Context,
    Key,
    Runnable,
    Service,
    Timeout,
    ToolCall,
    open_stream,
    stack,
    tool,
    user,
)
from ziggurat.agents.as_tool import AgentTool
from ziggurat.core import CLOCK, root
from ziggurat.core.context import Scope
from ziggurat.errors import ModelError
from ziggurat.journal.store import run_log
from ziggurat.layers import CacheStore, DedupeStore, cache, dedupe, fallback, hedge, pipeline, retry, steer, timeout
from ziggurat.messages import tool_call
from ziggurat.runs.drive import partial_of
from ziggurat.stops import BudgetExceeded, Completed, Failed, Suspended
from ziggurat.testing import HandClock, ScriptedModel, assert_no_leaks

ASKED = AgentRequest((user("go"),))
BROKEN: Any = ["part", ConnectionError("gone")]
"""A reply that fails after a piece of it was heard."""


def _agent(*replies: Any, name: str = "first", **options: Any) -> Agent:
    return Agent(ScriptedModel(*replies), name=name, **options)


async def _pass_on(run: AgentRun, ctx: Context) -> AgentRequest:
    return AgentRequest((user(run.text),))


async def _route(request: AgentRequest, ctx: Context) -> str:
    return "one"


async def _function(request: AgentRequest, ctx: Context) -> AgentRun:
    return await _agent("answer")(request, ctx.under("inner"))


MADE: dict[str, Callable[[], Service[AgentRequest, AgentRun]]] = {
    "agent": lambda: _agent("answer"),
    "layered": lambda: _agent(BROKEN, "answer").layered(retry(attempts=2, base=0.0)),
    "retry": lambda: stack(_agent(BROKEN, "answer"), retry(attempts=2, base=0.0)),
    "timeout": lambda: stack(_agent("answer"), timeout(seconds=60.0)),
    "cache": lambda: stack(_agent("answer"), cache(store=CacheStore())),
    "dedupe": lambda: stack(_agent("answer"), dedupe(store=DedupeStore())),
    "fallback": lambda: fallback(_agent(BROKEN), _agent("answer", name="second")),
    "hedge": lambda: hedge(_agent("answer"), _agent("other", name="second"), delay=60.0),
    "steer": lambda: steer(_route, one=_agent("answer"), two=_agent("other", name="second")),
    "pipeline": lambda: pipeline(_agent("draft"), _pass_on, _agent("answer", name="second")),
    "nested": lambda: fallback(stack(_agent(BROKEN, BROKEN), retry(attempts=2, base=0.0)), MADE["fallback"]()),
    "function": lambda: Runnable(_function),
    "combinator": lambda: Runnable(MADE["fallback"](), name="both"),
}
"""What is made of agents; each answers "answer" in the end."""


@pytest.mark.parametrize("made", MADE)
async def test_what_is_made_of_agents_answers_outside_of_runs(made: str) -> None:
    async def streamed(heard: Folded) -> AgentRun:
        async with open_stream(MADE[made](), ASKED) as events:
            async for event in events:
                heard(event)
        return events.response

    async def plain(heard: Folded) -> AgentRun:
        return await MADE[made]()(ASKED, root().heard_by(heard))

    for call in (plain, streamed):
        heard = Folded()
        async with assert_no_leaks():
            run = await call(heard)
        assert (run.text, run.stop) == ("answer", Completed())
        assert run.id
        assert texts(heard.messages())[-1:] == ["answer"]
        assert "part" not in texts(heard.messages())  # what was heard of tries that failed is dropped


@pytest.mark.parametrize("new_store", sample(["by reference", "memory", "sqlite", "file"], 2), indirect=True)
async def test_it_is_kept_and_goes_on_as_any_run(new_store: Place) -> None:
    @tool(approval=True)
    async def pay() -> str:
        return "paid"

    store = new_store()
    agent = _agent(tool_call("pay"), "done", ModelError("no"), tools=[pay], store=store)
    run = await agent(ASKED, root())
    assert (run.stop, len(run.pending)) == (Suspended(), 1)
    again = await agent.resume(run.id, {run.pending[0].id: Approve()})
    assert (again.text, again.observations) == ("done", ("paid",))
    with pytest.raises(ModelError) as caught:
        await agent(ASKED, root())
    failed = partial_of(caught.value)
    assert failed is not None
    assert isinstance(failed.stop, Failed)
    info = await store.find(run_log(failed.id))
    assert info is not None
    assert info.status == "Failed"


async def test_the_scope_and_the_deadline_of_the_context_hold() -> None:
    name: Key[str] = Key("name")
    clock = HandClock(auto=True)

    @tool
    async def look(ctx: Context) -> str:
        return f"{ctx.scope[name]} {ctx.clock is clock}"

    @tool
    async def hang(ctx: Context) -> str:
        await ctx.clock.sleep(100)
        return "never"

    ctx = root("run", Scope({CLOCK: clock, name: "ada"}))
    run = await _agent(tool_call("look"), "end", tools=[look])(ASKED, ctx)
    assert run.observations == ("ada True",)
    with pytest.raises(Timeout):
        await stack(_agent(tool_call("hang"), tools=[hang]), timeout(seconds=5))(ASKED, ctx)


def _tools(helper: Agent) -> list[Any]:
    @tool
    async def verbs() -> str:
        return (await helper.run("go")).text

    @tool
    async def service(ctx: Context) -> str:
        """Call the helper in the context of this tool."""
        return (await helper(ASKED, ctx.under("helper"))).text

    @tool
    async def outside() -> str:
        """Call the helper in a context of its own."""
        return (await helper(ASKED, root())).text

    @tool
    async def layered() -> str:
        """Call layers around the helper in a context of their own."""
        return (await stack(helper, retry(attempts=2))(ASKED, root())).text

    @tool
    def sync() -> str:
        """Run the helper in a thread."""
        return helper.run_sync("go").text

    return [verbs, service, outside, layered, sync]


@pytest.mark.parametrize("number", range(5))
async def test_tools_that_call_agents_answer_outside_of_runs_and_join_runs_within(number: int) -> None:
    called = _tools(Agent(ScriptedModel(always="helped"), name="helper"))[number]
    result = await called(ToolCall("1", called.spec.name, "{}"), root())
    assert (result.text, result.error) == ("helped", None)
    call = tool_call(called.spec.name)
    run = await _agent(call, "end", tools=[called]).run("go")
    assert (run.stop, run.observations, run.model_calls) == (Completed(), ("helped",), 3)
    limited = await _agent(call, "end", tools=[called], budget=Budget(requests=1)).run("go")
    assert limited.stop == BudgetExceeded("requests", 1, 1)  # a context of its own is no way out of the rules


async def test_an_agent_as_a_tool_answers_outside_of_runs() -> None:
    @tool(approval=True)
    async def pay() -> str:
        return "paid"

    call = ToolCall("1", "first", '{"input": "go"}')
    waits = _agent(tool_call("pay"), tools=[pay])
    made = [
        _agent("answer").as_tool(),
        stack(_agent(BROKEN, "answer").as_tool(), retry(attempts=2, base=0.0)),
        AgentTool(stack(_agent(BROKEN, "answer"), retry(attempts=2, base=0.0))),
        waits.as_tool(),
    ]
    *answers, waiting = [await each(call, root()) for each in made]
    assert [(each.text, each.error) for each in answers] == [("answer", None)] * 3
    assert "first waits for a decision on pay: resume its run " in waiting.text


async def test_a_request_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="AgentRequest"):
        await _agent("answer")(wrong("go"), root())


async def _listed(run: AgentRun, ctx: Context) -> list[AgentRequest]:
    return [AgentRequest((user(run.text),))]


async def _silent(run: AgentRun, ctx: Context):  # type: ignore[no-untyped-def]
    return AgentRequest((user(run.text),))


@pytest.mark.parametrize("new_store", sample(["memory", "sqlite", "file"], 1), indirect=True)
async def test_what_functions_between_agents_answer_is_read_from_the_record_as_it_was(new_store: Place) -> None:
    @tool(approval=True)
    async def pay() -> str:
        return "paid"

    taken: list[object] = []
    last = _agent(tool_call("pay"), "end", name="last", tools=[pay])

    async def take(requests: list[AgentRequest], ctx: Context) -> AgentRun:
        taken.append(requests)
        return await last(requests[0], ctx.under("last"))

    service = pipeline(_agent("draft"), _listed, take)
    run = await Runnable(service, name="both", store=new_store()).run("go", run_id="r")
    again = Runnable(service, name="both", store=new_store())
    run = await again.resume("r", {run.pending[0].id: Approve()})
    assert (run.text, run.stop) == ("end", Completed())
    assert taken == [[AgentRequest((user("draft"),))]] * 2


@pytest.mark.parametrize("new_store", sample(["by reference", "memory", "sqlite", "file"], 2), indirect=True)
async def test_a_function_that_does_not_say_what_it_returns_is_refused_where_that_is_stored(new_store: Place) -> None:
    service = pipeline(_agent(*["draft"] * 3), _silent, _agent(*["end"] * 3, name="second"))
    assert (await Runnable(service).run("go")).text == "end"
    with pytest.raises(ConfigurationError, match="_silent"):
        await Runnable(service, store=new_store()).run("go")
