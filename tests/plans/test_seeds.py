"""What the fourth seed system says of plan-execute, HTN and workflows, as it is decided here.

Its examples do what they state; lines that concern one part alone are tested with that part, and here is what is tested
nowhere else.
"""

import asyncio
from typing import Any

import pytest

from tests.wrong import wrong
from ziggurat.agents.agent import Agent
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.messages import stops
from ziggurat.messages.events import NodeChanged
from ziggurat.messages.parts import tool_call
from ziggurat.models.scripted import ScriptedModel
from ziggurat.plans.conditions import contains
from ziggurat.plans.executing import plan_execute
from ziggurat.plans.htn import Planner, htn_flow
from ziggurat.plans.htn_parts import Compound, HtnStep, Method, NoPreconditionSatisfied, Primitive
from ziggurat.plans.nodes import Branch, Loop, Parallel, Sequence, Task
from ziggurat.plans.trees import workflow
from ziggurat.tools.function import tool

GOAL = "Research the latest Rust async developments"
PLAN = (
    "1. Search Rust blog | tool:web_search | expected:recent posts\n"
    "2. Summarise findings | tool:none | expected:summary\n"
)
VERDICT = "ACHIEVED 0.92\nBoth steps completed with good output."


@tool
async def search(query: str) -> str:
    """Search."""
    return f"pages on {query}"


# -- plan, execute, verify ---------------------------------------------------------------------------------------------


async def test_the_example_of_plan_execute_prints_what_it_states() -> None:
    model = ScriptedModel(PLAN, "Found: tokio 1.37.", "Summary: Rust async has matured.", VERDICT)
    run = await plan_execute(model).run(GOAL)
    plan, verdict = run.output, run.output.verification
    assert f"Plan: {plan.step_count} steps, {plan.completed_count} succeeded" == "Plan: 2 steps, 2 succeeded"
    printed = f"Goal achieved: {verdict.achieved} (confidence: {verdict.confidence * 100:.0f}%)"
    assert printed == "Goal achieved: True (confidence: 92%)"
    assert run.model_calls == 4, "one to plan, one for each step, one to verify"


@pytest.mark.parametrize("tools", [[], [search]])
async def test_a_step_with_an_unknown_tool_falls_back_to_the_model_whichever_others_there_are(tools: list[Any]) -> None:
    model = ScriptedModel(PLAN, "found", "summed up", VERDICT)
    plan = (await plan_execute(model, tools=tools).run(GOAL)).output
    assert plan.outputs == ("found", "summed up")
    assert [each.tool for each in plan.steps] == ["web_search", None]
    assert not model.calls[1].tools


async def test_the_instructions_are_those_of_the_planner_alone() -> None:
    model = ScriptedModel("1. do it", "done", "ACHIEVED")
    await plan_execute(model, instructions="Plan as a sailor.").run(GOAL)
    assert [call.instructions for call in model.calls] == ["Plan as a sailor.", None, None]


async def test_the_status_of_each_step_is_seen_as_it_runs() -> None:
    seen: list[tuple[str, str]] = []

    def listen(event: Event) -> None:
        if isinstance(event, NodeChanged) and "step_" in event.node:
            seen.append((event.node.rpartition("/")[2], event.status))

    text = '1. a | tool:search | arguments:{"query": "x"}\n2. b | tool:search | arguments:{}\n3. c'
    plan = (
        await plan_execute(ScriptedModel(text, "NOT_ACHIEVED"), tools=[search]).run(GOAL, listeners=[listen])
    ).output
    assert seen == [
        ("step_1", "running"), ("step_1", "completed"), ("step_2", "running"), ("step_2", "failed"),
        ("step_3", "skipped"),
    ]  # fmt: skip
    assert (plan.completed_count, plan.failed_count, plan.all_succeeded, plan.outputs) == (1, 1, False, ("pages on x",))


# -- HTN ---------------------------------------------------------------------------------------------------------------


RESEARCH = Planner(
    [
        Method(
            "ResearchCompany",
            [Primitive("web_search"), Primitive("scrape_page"), Primitive("summarise")],
            description="Standard research workflow",
        ),
        Method(
            "ResearchCompany",
            [Primitive("web_search"), Primitive("fetch_sec_filings"), Primitive("summarise")],
            preconditions={"company_type": "public"},
            description="Research including SEC filings for public companies",
        ),
    ],
    max_depth=16,
    max_steps=256,
)


def test_the_example_of_the_planner_prints_the_method_for_public_companies() -> None:
    plan = RESEARCH.plan(Compound("ResearchCompany"), {"company_type": "public"})
    assert len(plan) == 3
    assert [f"[depth={step.depth}] {step.tool}" for step in plan.steps] == [
        "[depth=1] web_search",
        "[depth=1] fetch_sec_filings",
        "[depth=1] summarise",
    ]


def test_a_step_knows_its_depth_and_the_task_that_it_was_decomposed_from() -> None:
    planner = Planner(
        [
            Method("report", [Compound("collect"), Primitive("write")]),
            Method("collect", [Primitive("search"), Compound("sort")]),
            Method("sort", [Primitive("rank")]),
        ]
    )
    assert planner.plan(Compound("report")).steps == (
        HtnStep("search", {}, 2, "collect"),
        HtnStep("rank", {}, 3, "sort"),
        HtnStep("write", {}, 1, "report"),
    )


def test_methods_with_as_many_preconditions_are_tried_in_the_order_they_are_listed() -> None:
    def chosen(*worlds: dict[str, object]) -> list[str]:
        methods = [Method("go", [Primitive(f"by {each}")], {each: True}) for each in ("train", "bus")]
        return [Planner(methods).plan(Compound("go"), world).steps[0].tool for world in worlds]

    assert chosen({"train": True, "bus": True}, {"bus": True}) == ["by train", "by bus"]
    with pytest.raises(NoPreconditionSatisfied):
        chosen({"train": "True"})


async def test_an_agent_with_tools_of_its_own_does_each_primitive_step() -> None:
    model = ScriptedModel(
        *[reply for number in range(3) for reply in (tool_call("search", query=str(number)), f"did {number}")]
    )
    flow = htn_flow(RESEARCH, Compound("ResearchCompany"), agent=Agent(model, tools=[search]))
    run = await flow.run({"company_type": "public"})
    assert list(run.output.outputs.values()) == ["did 0", "did 1", "did 2"]
    assert run.tool_calls == 3


# -- workflow ----------------------------------------------------------------------------------------------------------


async def test_the_examples_of_the_workflow_do_what_they_state() -> None:
    context = {"status": "ok running"}
    assert contains("status:ok", context)
    assert not contains("status:fail", context)
    model = ScriptedModel(always=lambda request: f"response to: {request.messages[-1].text}")
    plan = workflow(
        Task("research", prompt="Summarise the topic"),
        Branch(
            "confidence:high",
            Task("publish", prompt="Format for publication"),
            Task("refine", prompt="Gather more data"),
        ),
        name="my-workflow",
        agent=Agent(model),
        input=dict[str, Any],
    )
    for confidence, task, text in (
        ("high", "publish", "Format for publication"),
        ("low", "refine", "Gather more data"),
    ):
        result = (await plan.run({"confidence": confidence})).output
        assert list(result.outputs) == ["research", task]
        assert result.output == f"response to: {text}"
        assert [each.status for each in result.nodes if each.kind == "Task" and each.name != task][1:] == ["skipped"]
        assert result.variables["confidence"] == confidence


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

    plan = workflow(Parallel([Task("a", function=ahead), Task("b", function=behind)]), input=None)
    assert (await plan.run()).output.output == ["ahead", "behind"], "one after the other would never end"


async def count(n: int) -> int:
    return n + 1


async def broken() -> None:
    raise ConnectionError("no line")


async def test_tasks_are_counted_at_all_levels() -> None:
    each = Task("n", function=count)
    plan = workflow(
        each,
        Loop(Sequence([each, Branch("n:1", each, each)]), 3),
        Parallel([each, Task("m", function=count, arguments={"n": 1})]),
        input=None,
        variables={"n": 0},
    )
    run = await plan.run()
    assert run.output.steps == 1 + 3 * 2 + 2
    assert run.seconds > 0


async def test_a_step_that_fails_names_itself_and_a_loop_at_its_limit_its_rounds() -> None:
    failing = await workflow(Sequence([Task("call", function=broken)], "part"), name="plan", input=None).run()
    assert isinstance(failing.stop, stops.Failed)
    assert (failing.stop.error, failing.stop.kind) == ("no line", "ConnectionError")
    assert failing.cause is not None
    assert "it was raised at part/call of the plan plan" in getattr(failing.cause.error, "__notes__", ())
    endless = await workflow(Loop(Task("n", function=count), 4, "n:never"), input=None, variables={"n": 0}).run()
    assert endless.stop == stops.BudgetExceeded("rounds", 4, 4)


def test_a_tool_is_passed_and_not_named_so_none_is_missing() -> None:
    with pytest.raises(ConfigurationError, match="a typed function or a tool"):
        Task("a", tool=wrong("web_search"))
