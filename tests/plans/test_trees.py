"""Workflows: what each kind of node does, with what it fails, and what the run of a plan tells."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from tests.wrong import wrong
from ziggurat import Agent, Approvals, Approve, ConfigurationError, Context, Event, ModelRequest, ModelResponse, tool
from ziggurat.agents import Answer
from ziggurat.core.service import fact
from ziggurat.events import Diverged, NodeChanged
from ziggurat.flows import ask, flow, step
from ziggurat.layers import retry, timeout
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.messages.model import SPEC
from ziggurat.plans import Branch, Loop, Map, Parallel, PlanResult, Sequence, Task, agent_condition, when, workflow
from ziggurat.plans.nodes import Node
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


def echo(request: ModelRequest) -> str:
    return f"response to: {request.messages[-1].text}"


def agent() -> Agent[str]:
    return Agent(ScriptedModel(always=echo))


async def result_of(*nodes: Node, **settings: Any) -> PlanResult:
    run = await workflow(*nodes, **{"agent": agent(), "variables": {"n": 2, "words": ["a", "b"]}, **settings}).run(
        "tea"
    )
    assert run.stop == stops.Completed(), run.error
    return run.output


async def failure_of(*nodes: Node, **settings: Any) -> str:
    run = await workflow(*nodes, **{"agent": agent(), "variables": {"n": 2}, **settings}).run("tea")
    assert run.stop != stops.Completed()
    return run.error or ""


async def double(n: int) -> int:
    return 2 * n


async def broken() -> str:
    raise ValueError("it is broken")


@tool(permissions=["network"])
async def search(query: str, limit: int = 5) -> str:
    """Search."""
    return f"{limit} for {query}"


async def test_a_task_is_a_prompt_an_agent_a_tool_or_a_function_and_its_output_a_variable() -> None:
    helper = Agent(ScriptedModel("I am the helper"), name="helper")
    result = await result_of(
        Task("prompted", prompt="About {input}"),
        Task("asked", agent=helper, prompt="{prompted}?"),
        Task("found", tool=search, arguments={"query": "{input} {n}", "limit": "{n}"}),
        Task("doubled", function=double),
        Task("again", function=double, arguments={"n": "{doubled}"}),
    )
    assert result.variables == {
        "n": 2, "words": ["a", "b"], "input": "tea",
        "prompted": "response to: About tea", "asked": "I am the helper", "found": "2 for tea 2", "doubled": 4,
        "again": 8,
    }  # fmt: skip
    assert result.output == 8
    assert result.steps == 5
    assert [(each.node, each.status) for each in result.nodes] == [
        (name, "completed") for name in ("prompted", "asked", "found", "doubled", "again")
    ]


async def test_an_output_of_a_task_decides_a_branch() -> None:
    chosen = Branch("draft:response", Task("yes", prompt="y"), Task("no", prompt="n"))
    assert "yes" in (await result_of(Task("draft", prompt="x"), chosen)).outputs


async def test_a_tool_of_a_plan_needs_its_permission_and_its_approval() -> None:
    task = Task("found", tool=search, arguments={"query": "x"})
    assert "missing permissions: network" in await failure_of(task, grants=[])
    store = InMemoryStore()
    plan = workflow(task, store=store, approvals=Approvals("search"))
    run = await plan.run("tea", run_id="one")
    (item,) = run.pending
    assert (item.path, item.call.arguments) == ("workflow/found/tool-1:search", '{"limit":5,"query":"x"}')
    assert (await plan.resume("one", {item.id: Approve()})).text == "5 for x"


async def test_a_tool_that_fails_fails_its_task() -> None:
    assert "limit" in await failure_of(Task("found", tool=search, arguments={"query": "x", "limit": "many"}))


async def test_layers_are_around_a_function_a_tool_and_an_agent() -> None:
    tries: list[str] = []

    async def flaky() -> str:
        tries.append("")
        if len(tries) % 2:
            raise ConnectionError("lost")
        return "there"

    async def as_tool() -> str:
        """Try."""
        return await flaky()

    @flow
    async def as_flow(text: str) -> str:
        return await flaky()

    layers = [retry(attempts=2, base=0), timeout(seconds=60)]
    result = await result_of(
        Task("a", function=flaky, layers=layers),
        Task("b", tool=as_tool, layers=layers),
        Task("c", agent=as_flow, prompt="go", layers=layers),
    )
    assert (result.outputs, len(tries)) == ({"a": "there", "b": "there", "c": "there"}, 6)


async def test_a_step_is_a_function_under_the_name_of_its_task() -> None:
    @step(effect="once")
    async def pay(n: int) -> str:
        return f"paid {n}"

    assert (await result_of(Task("first", function=pay), Task("second", function=pay))).outputs == {
        "first": "paid 2", "second": "paid 2",
    }  # fmt: skip


async def test_a_function_may_take_the_context() -> None:
    async def where(ctx: Context, n: int, extra: str = "none") -> str:
        return f"{ctx.path} {n} {extra}"

    assert (await result_of(Task("here", function=where))).output == "workflow/here 2 none"


async def test_a_plan_is_a_part_of_a_plan_and_a_tool_of_an_agent() -> None:
    inner = workflow(Task("inside", prompt="in {input}"), name="inner", agent=agent())
    assert (await result_of(Task("whole", agent=inner, prompt="{input}"))).output == "response to: in tea"
    assert fact(inner.as_tool(), SPEC) is not None


class Order(Struct):
    customer: str
    total: int


async def test_the_fields_of_an_object_are_variables() -> None:
    plan = workflow(Task("text", prompt="{customer} pays {total}"), agent=agent(), input=Order)
    assert (await plan.run(Order("Ada", 3))).text == "response to: Ada pays 3"


async def test_parallel_nodes_see_a_snapshot_and_write_in_the_order_of_the_plan() -> None:
    nodes = Parallel([Task("n", function=double), Sequence([Task("m", function=double), Task("n", function=double)])])
    result = await result_of(nodes, Task("end", function=double))
    assert result.variables["m"] == 4  # from n as it was before
    assert (result.variables["n"], result.output) == (4, 8)


async def test_the_first_error_in_the_order_of_the_plan_is_raised_when_all_have_ended() -> None:
    done: list[str] = []

    async def late() -> str:
        for _ in range(10):
            await asyncio.sleep(0)
        done.append("late")
        raise ValueError("the late one")

    async def good() -> str:
        for _ in range(20):
            await asyncio.sleep(0)
        done.append("good")
        return "good"

    nodes = [Task("late", function=late), Task("early", function=broken), Task("good", function=good)]
    assert "the late one" in await failure_of(Parallel(nodes))
    assert done == ["late", "good"]


@pytest.mark.parametrize("items", [["a", "b"], '["a", "b"]'])
async def test_a_map_runs_for_each_item_in_order(items: object) -> None:
    each = Task("said", prompt="{item} of {input}")
    result = await result_of(Map("all", "words", each, limit=1), variables={"words": items})
    assert result.variables["all"] == ["response to: a of tea", "response to: b of tea"]
    assert "said" not in result.variables


@pytest.mark.parametrize("items", ["no list", 3, None, '{"a": 1}'])
async def test_what_a_map_cannot_go_over(items: object) -> None:
    assert "words" in await failure_of(Map("all", "words", Task("said", prompt="x")), variables={"words": items})
    nothing = await workflow(Map("all", "words", Task("said", prompt="x")), agent=agent(), input=dict[str, Any]).run({})
    assert "'words'" in (nothing.error or "")


async def test_a_loop_ends_at_its_condition_and_fails_at_its_limit() -> None:
    body = Task("n", function=double)
    big = when("n", int, lambda n: n > 30)
    assert (await result_of(Loop(body, 4, until=big, name="grown"))).variables["grown"] == 32
    run = await workflow(Loop(body, 3, until=big), variables={"n": 2}).run("x")
    assert run.stop == stops.BudgetExceeded("rounds", 3, 3)
    assert (await result_of(Loop(body, 3))).output == 16  # without a condition: so many times


async def test_an_agent_decides_a_branch_and_is_recorded() -> None:
    judge = Agent(
        ScriptedModel(*[tool_call("final_answer", value=each) for each in (True, False)]), name="judge", output=bool
    )
    branch = Branch(agent_condition(judge, "Is {input} a drink?"), Task("yes", prompt="y"), Task("no", prompt="n"))
    plan = workflow(branch, agent=agent(), store=InMemoryStore())
    assert "yes" in (await plan.run("tea", run_id="one")).output.outputs
    assert "yes" in (await plan.replay("one")).output.outputs
    assert "no" in (await plan.run("stone")).output.outputs


async def test_a_condition_gives_a_bool_or_the_plan_is_wrong() -> None:
    with pytest.raises(ConfigurationError, match="output=bool"):
        await workflow(Branch(agent_condition(agent(), "?"), Task("a", prompt="x")), agent=agent()).run("x")
    with pytest.raises(ConfigurationError, match="gave 3"):
        await workflow(Branch(wrong(lambda values: 3), Task("a", prompt="x")), agent=agent()).run("x")


@pytest.mark.parametrize(
    "reply", [ModelResponse(assistant("No."), "refusal"), tool_call("look")], ids=["refusal", "steps"]
)
async def test_an_agent_that_stops_before_it_decides_a_branch_ends_the_plan(reply: Any) -> None:
    judge = Agent(ScriptedModel(always=reply, output_modes=["native"]), name="judge", output=bool, max_steps=1)
    run = await workflow(Branch(agent_condition(judge, "?"), Task("a", prompt="x")), agent=agent()).run("x")
    assert not isinstance(run.stop, stops.Completed)
    assert run.error
    assert "output=bool" not in run.error


async def statuses(*nodes: Node) -> dict[str, str]:
    """Return the last status of each node, from the events of a run."""
    changes: dict[str, str] = {}

    def listen(event: Event) -> None:
        if isinstance(event, NodeChanged):
            changes[event.node] = event.status

    await workflow(*nodes, variables={"n": 1}).run("x", listeners=[listen])
    return changes


async def test_a_failure_skips_what_comes_after_it() -> None:
    sequence = Sequence([Task("bad", function=broken), Task("after", function=double)])
    assert await statuses(Task("good", function=double), sequence, Task("last", function=double)) == {
        "good": "completed", "sequence": "failed", "sequence/bad": "failed", "sequence/after": "skipped",
        "last": "skipped",
    }  # fmt: skip


async def test_a_failure_may_be_passed_over_or_replaced() -> None:
    async def explain(error: str) -> str:
        return f"because {error}"

    result = await result_of(
        Task("bad", function=broken, on_failure="continue"),
        Task("text", prompt="[{bad}]"),
        Task("worse", function=broken, on_failure=Task("why", function=explain)),
    )
    assert result.variables["bad"] is None
    assert result.variables["text"] == "response to: []"
    assert result.variables["worse"] == result.variables["why"] == result.output == "because it is broken"
    assert [(each.node, each.status, each.error) for each in result.nodes] == [
        ("bad", "failed", "ValueError: it is broken"), ("text", "completed", None),
        ("worse", "failed", "ValueError: it is broken"), ("worse/why", "completed", None),
    ]  # fmt: skip


async def test_a_failed_plan_is_resumed_at_the_node_that_failed() -> None:
    calls: list[str] = []

    async def first() -> str:
        calls.append("first")
        return "one"

    async def second(first: str) -> str:
        calls.append("second")
        if len(calls) < 3:
            raise ValueError("not yet")
        return first + " two"

    nodes = [Task("first", function=first), Parallel([Task("second", function=second), Task("other", function=first)])]
    plan = workflow(*nodes, store=InMemoryStore())
    assert (await plan.run("x", run_id="one")).stop != stops.Completed()
    again = await plan.resume("one")
    assert again.text == '["one two","one"]'
    assert calls == ["first", "second", "first", "second"]


async def test_time_limits_hold_for_a_task_and_for_a_whole_plan() -> None:
    async def hang() -> str:
        await asyncio.Event().wait()
        return ""

    for nodes in (
        Task("slow", function=hang, layers=[timeout(seconds=0.01)]),
        Task("part", agent=workflow(Task("slow", function=hang), name="inner"), prompt="x",
             layers=[timeout(seconds=0.01)]),
    ):  # fmt: skip
        run = await workflow(nodes).run("x")
        assert isinstance(run.stop, stops.TimedOut), run.stop


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Task("a", tool=wrong("web_search")), "a tool"),
        (lambda: Task("a b", prompt="x"), "identifier"),
        (lambda: Task("model", prompt="x"), "identifier"),
        (lambda: Task("a"), "one of prompt="),
        (lambda: Task("a", prompt="x", tool=search), "one of prompt="),
        (lambda: Task("a", prompt="x", arguments={}), "arguments="),
        (lambda: workflow(Task("a", prompt="x")), "no agent"),
        (lambda: workflow(Task("a", function=double), Task("a", function=double)), "'a'"),
        (lambda: workflow(Sequence([Task("a", function=double)], "x/y")), "no '/'"),
        (lambda: workflow(Sequence(wrong(["a"]))), "each item a Node"),
        (lambda: workflow(Task("a", function=wrong(len))), "async function"),
        (lambda: Loop(Task("a", function=double), 0), "at least 1"),
        (lambda: workflow(Task("a", function=step(double), effect="once")), "effect"),
    ],
)
def test_what_cannot_be_a_plan_is_refused(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        make()


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (Task("a", prompt="{nothing}"), "'nothing'.*{{nothing}}"),
        (Task("a", function=double), "'n'.*variables="),
        (Map("m", "{input}", Task("a", prompt="x")), "without braces"),
        (Parallel([Task("n", prompt="x"), Task("a", function=double)]), "'n'"),
        (Loop(Task("a", prompt="x"), 2, agent_condition(agent(), "{b}?")), "'b'"),
    ],
)
async def test_a_variable_that_nothing_sets_fails_its_node(node: Node, says: str) -> None:
    assert re.search(says, await failure_of(node, variables={}))


async def test_a_plan_that_has_changed_is_reported() -> None:
    store = InMemoryStore()
    await workflow(Task("a", function=broken), store=store).run("x", run_id="one")
    seen: list[str] = []
    changed = workflow(Task("b", function=double), variables={"n": 1}, store=store)

    def listen(event: Event) -> None:
        if isinstance(event, Diverged):
            seen.append(event.what)

    await changed.resume("one", listeners=[listen])
    assert "nodes" in seen


async def test_parallel_tasks_run_at_the_same_time_and_give_their_outputs_as_they_are_listed() -> None:
    first, second = asyncio.Event(), asyncio.Event()

    async def ahead() -> str:
        first.set()
        await second.wait()
        return "ahead"

    async def behind() -> str:
        await first.wait()
        second.set()
        return "behind"

    nodes = Parallel([Task("a", function=ahead), Task("b", function=behind)])
    assert (await result_of(nodes)).output == ["ahead", "behind"], "one after the other would never end"


async def test_tasks_are_counted_at_all_levels() -> None:
    each = Task("n", function=double)
    nodes = (each, Loop(Sequence([each, Branch("n:1", each, each)]), 3), Parallel([each, Task("m", function=double)]))
    assert (await result_of(*nodes)).steps == 1 + 3 * 2 + 2


async def test_a_step_that_fails_names_itself() -> None:
    run = await workflow(Sequence([Task("call", function=broken)], "part"), name="plan", input=None).run()
    assert isinstance(run.stop, stops.Failed)
    assert (run.stop.error, run.stop.kind) == ("it is broken", "ValueError")
    assert run.cause is not None
    assert any("part/call" in note for note in getattr(run.cause.error, "__notes__", ()))


async def test_a_task_whose_function_waits_is_tried_again_by_its_layers_and_its_steps_are_not() -> None:
    done: list[str] = []

    @step
    async def look() -> str:
        done.append("look")
        return "seen"

    async def decide() -> str:
        seen = await look()
        done.append("try")
        if done.count("try") < 2:
            raise ConnectionError("lost")
        return f"{seen}: {await ask('Well?')}"

    task = Task("decide", function=decide, layers=[retry(attempts=3, base=0)])
    plan = workflow(task, input=None, store=InMemoryStore())
    run = await plan.run(run_id="r")
    assert [item.path for item in run.pending] == ["workflow/decide/ask"]
    run = await plan.resume("r", {run.pending[0].id: Answer("yes")}, strict=True)
    assert run.output.output == "seen: yes"
    assert done == ["look", "try", "try", "try"]
    assert (await plan.replay("r")).output == run.output


@pytest.mark.parametrize("as_step", [False, True])
async def test_a_task_that_acts_once_only_and_one_that_is_a_step_cannot_wait(as_step: bool) -> None:
    async def sign() -> str:
        return await ask("Sign?")

    task = Task("sign", function=step(sign)) if as_step else Task("sign", function=sign, effect="once")
    with pytest.raises(ConfigurationError, match="workflow/sign"):
        await workflow(task, input=None).run()
