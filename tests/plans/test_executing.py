"""Plan, execute, verify: a model plans, its plan is done and judged, and there is another if it was not enough."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ziggurat import Agent, ConfigurationError, Event, ModelRequest, tool
from ziggurat.events import NodeChanged
from ziggurat.messages import stops, tool_call
from ziggurat.plans import Planner, Primitive, htn_flow, plan_execute
from ziggurat.plans.executing import ExecutedPlan, PlannedStep, Verification, read_plan, read_verdict
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

GOAL = "What is new in async Rust?"


@tool
async def search(query: str, limit: int = 3) -> str:
    """Search the web."""
    if query == "nothing":
        raise LookupError("nothing was found")
    return f"{limit} pages on {query}"


async def executed(*replies: Any, **settings: Any) -> tuple[ExecutedPlan, list[str]]:
    """Return the result of a plan whose model gives these replies, and the questions it was asked."""
    model = ScriptedModel(*replies)
    run = await plan_execute(model, **settings).run(GOAL)
    assert run.stop == stops.Completed(), run.error
    return run.output, [call.messages[-1].text for call in model.calls]


async def test_the_example_of_the_seed() -> None:
    plan, asked = await executed(
        "1. Read the news | tool:web_search | expected:articles\n"
        "2. Say what is new | tool:none | expected:three sentences\n",
        "Three articles on async Rust.",
        "Little is new.",
        "ACHIEVED 0.92\nBoth steps are done.",
    )
    assert (plan.step_count, plan.completed_count, plan.failed_count, plan.all_succeeded) == (2, 2, 0, True)
    assert (plan.verification.achieved, plan.verification.confidence) == (True, 0.92)
    assert plan.verification.issues == ("Both steps are done.",)
    assert plan.verification.is_confident_success
    assert plan.output == "Little is new."
    assert "Three articles" in asked[2]  # the second step sees the result of the first
    assert "Three articles" in asked[3]
    assert "Little is new" in asked[3]


async def test_the_arguments_of_the_plan_reach_the_tool_with_earlier_results() -> None:
    plan, asked = await executed(
        '1. Find | tool:search | arguments:{"query": "a | b {x}", "limit": 2} | expected:pages\n'
        '2. Find more | expected:more | arguments:{"query": "{step_1}!"} | tool:search\n'
        "3. Sum up",
        "the sum",
        "ACHIEVED",
        tools=[search],
    )
    assert plan.outputs == ("2 pages on a | b {x}", "3 pages on 2 pages on a | b {x}!", "the sum")
    assert plan.verification.confidence == 0.8
    assert len(asked) == 3
    assert "search(query, limit): Search the web." in asked[0]


async def test_a_model_states_arguments_that_the_plan_lacks_or_that_cannot_be_read() -> None:
    for line in (
        "1. Find | tool:search",
        '1. Find | tool:search | arguments:{"query": ',
        "1. Find | tool:`search` | arguments:[1]",
    ):
        plan, _ = await executed(line, tool_call("search", query="x", limit=1), "found it", "ACHIEVED", tools=[search])
        assert plan.outputs == ("found it",)
        assert plan.steps[0].tool == "search"


async def test_a_failure_skips_the_rest_or_not_and_is_verified_anyway() -> None:
    text = '1. a | tool:search | arguments:{"query": "nothing"}\n2. b | tool:search | arguments:{"limit": 1}\n3. c'
    plan, asked = await executed(text, "NOT_ACHIEVED 0.1\nno pages\n\nno sum", tools=[search])
    assert [each.status for each in plan.steps] == ["failed", "skipped", "skipped"]
    assert "nothing was found" in (plan.steps[0].error or "")
    assert "nothing was found" in asked[1]
    assert plan.verification.issues == ("no pages", "no sum")
    assert plan.output is None
    plan, _ = await executed(text, "c is done", "ACHIEVED", tools=[search], stop_on_failure=False)
    assert [each.status for each in plan.steps] == ["failed", "failed", "completed"]
    assert plan.failed_count == 2


async def test_steps_beyond_the_limit_are_skipped() -> None:
    plan, asked = await executed("\n".join(f"{n}. step {n}" for n in range(1, 30)), *["done"] * 20, "ACHIEVED")
    assert [each.status for each in plan.steps] == ["completed"] * 20 + ["skipped"] * 9
    assert len(asked) == 22
    plan, _ = await executed("1. a\n2. b", "done", "ACHIEVED", max_steps=1)
    assert [each.status for each in plan.steps] == ["completed", "skipped"]


async def test_a_plan_that_was_not_enough_is_followed_by_another_within_a_bound() -> None:
    replies = ["1. a", "did a", "NOT ACHIEVED 0.3\nb is missing", "1. b", "did b", "ACHIEVED 0.9"]
    plan, asked = await executed(*replies, max_plans=3)
    assert [each.description for each in plan.steps] == ["b"]
    assert [[each.output for each in steps] for steps in plan.earlier] == [["did a"]]
    assert "b is missing" in asked[3]
    assert "did a" in asked[3]
    assert "did a" in asked[5]
    plan, asked = await executed(*["1. a", "did a", "was not achieved"] * 2, max_plans=2)
    assert not plan.verification.achieved
    assert len(asked) == 6


async def test_a_reply_that_is_no_plan_is_asked_for_again_within_a_bound() -> None:
    plan, asked = await executed("Let me think.", "1. a", "done", "ACHIEVED")
    assert plan.step_count == 1
    assert "That was no plan" in asked[1]
    run = await plan_execute(ScriptedModel(always="no plan")).run(GOAL)
    assert "has planned no steps in 3 replies" in (run.error or "")


async def test_others_may_execute_and_verify() -> None:
    def upper(request: ModelRequest) -> str:
        return request.messages[-1].text.upper()

    settings: dict[str, Callable[[], Agent[Any]]] = {
        "executor": lambda: Agent(ScriptedModel(always=upper), name="worker"),
        "verifier": lambda: Agent(ScriptedModel(always="ACHIEVED"), name="judge"),
    }
    plan, asked = await executed("1. find the answer", **{name: make() for name, make in settings.items()})
    assert "FIND THE ANSWER" in plan.output
    assert len(asked) == 1
    typed = Agent(ScriptedModel(tool_call("final_answer", achieved=True, confidence=1.5)), output=Verification)
    plan, _ = await executed("1. a", "x", verifier=typed)
    assert (plan.verification.achieved, plan.verification.confidence) == (True, 1.0)
    odd = Agent(ScriptedModel(tool_call("final_answer", value=1)), name="judge", output=int)
    with pytest.raises(ConfigurationError, match="no verdict"):
        await executed("1. a", "x", verifier=odd)


async def test_it_continues_after_a_failure_of_the_model_with_what_it_has() -> None:
    model = ScriptedModel("1. a\n2. b", "did a", ConnectionError("gone"), "did b", "ACHIEVED")
    flow = plan_execute(model, store=InMemoryStore(), verifier=Agent(ScriptedModel("ACHIEVED"), name="judge"))
    run = await flow.run(GOAL, run_id="one")
    assert [each.status for each in run.output.steps] == ["completed", "failed"]
    assert (await flow.replay("one")).output == run.output


@pytest.mark.parametrize("tools", [[], [search]])
async def test_a_step_with_an_unknown_tool_falls_back_to_the_model_whichever_others_there_are(tools: list[Any]) -> None:
    model = ScriptedModel("1. a | tool:web_search\n2. b | tool:none", "found", "summed up", "ACHIEVED")
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
    assert (plan.completed_count, plan.failed_count, plan.all_succeeded, plan.outputs) == (
        1,
        1,
        False,
        ("3 pages on x",),
    )


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("1. Do it | tool:t | expected:x", PlannedStep("Do it", "t", None, "x")),
        ("12. Do it", PlannedStep("Do it")),
        ("  3)  Do it", PlannedStep("Do it")),
        ("- **4.** Do it | tool:none", PlannedStep("Do it")),
        ("1. Do it | tool: | expected:", PlannedStep("Do it")),
        ("1. Do it |tool:t|expected:a: b | c", PlannedStep("Do it", "t", None, "a: b | c")),
        ("1. a | b | tool:t", PlannedStep("a | b", "t")),
        ("1. a | TOOL: t | Expected: x", PlannedStep("a", "t", None, "x")),
        ("1. a | tool:t | tool:u", PlannedStep("a", "t")),
        ('1. a | tool:t | arguments:{"q": "x | tool:y"} | expected:z', PlannedStep("a", "t", {"q": "x | tool:y"}, "z")),
        ('1. a | arguments:{"q": 1} more | tool:t', PlannedStep("a", "t", {"q": 1})),
        ("1. a | arguments:{q} | tool:t", PlannedStep("a", "t")),
        ('1. a | tool:t | arguments:"text"', PlannedStep("a", "t")),
        ("1. a | tool:t | arguments:" + '{"a":' * 5000, PlannedStep("a", "t")),
    ],
)
def test_a_step(text: str, step: PlannedStep) -> None:
    assert read_plan(f"Here is the plan:\n{text}\n\nGood luck.") == (step,)


@pytest.mark.parametrize(
    "text", ["", "no plan", "1.", "1. ", "1.Do it", "Step 1. Do it", "| tool:t", "1. | tool:t", "a. x"]
)
def test_lines_that_are_no_steps(text: str) -> None:
    assert read_plan(text) == ()


@pytest.mark.parametrize(
    ("reply", "achieved", "confidence"),
    [
        ("ACHIEVED 0.92\nfine", True, 0.92),
        ("achieved", True, 0.8),
        ("NOT_ACHIEVED 0.3", False, 0.3),
        ("NOT ACHIEVED", False, 0.2),
        ("not-achieved 0.7", False, 0.7),
        ("**ACHIEVED** 0.7", True, 0.7),
        ("# Verdict: ACHIEVED (0.7)", True, 0.7),
        ("\n ACHIEVED: 0.7 - all steps", True, 0.7),
        ("The goal was not fully achieved.", False, 0.2),
        ("I was told to say ACHIEVED", False, 0.2),
        ("Well:\nACHIEVED 0.9", False, 0.2),
        ("UNACHIEVED", False, 0.2),
        ("PARTIALLY ACHIEVED 0.5", False, 0.2),
        ("**Achieved:** No, 0.9", False, 0.2),
        ("ACHIEVED: not really", False, 0.2),
        ("ACHIEVED? No.", False, 0.2),
        ("ACHIEVED 2 of the 3 goals", False, 0.2),
        ('{"achieved": true, "confidence": 0.7}', False, 0.2),
        ("ACHIEVED 0.9. No doubt.", True, 0.9),
        ("ACHIEVED\nNo issues", True, 0.8),
        ("ACHIEVED\nbut one step was NOT_ACHIEVED", True, 0.8),
        ("ACHIEVED 92%", True, 0.92),
        ("ACHIEVED 7", True, 1.0),
        ("ACHIEVED .5", True, 0.5),
        ("ACHIEVED -3", True, 0.0),
        ("YES\n0.4", False, 0.2),
        ("", False, 0.2),
    ],
)
def test_a_verdict(reply: str, achieved: bool, confidence: float) -> None:
    verdict = read_verdict(reply)
    assert (verdict.achieved, verdict.confidence, verdict.raw_response) == (achieved, confidence, reply)


WORDS = st.sampled_from(
    ["I", "was", "told", "to", "say", "the", "step", "is", "nothing", "0.9", "3", "not", "if", "so"]
)


@given(st.lists(WORDS, max_size=4), st.sampled_from(["ACHIEVED", "achieved 0.9", "NOT_ACHIEVED"]), st.lists(WORDS))
def test_the_word_in_a_sentence_is_no_verdict(before: list[str], verdict: str, after: list[str]) -> None:
    reply = " ".join(["Today", *before, verdict, *after])
    assert read_verdict(reply) == Verification(False, 0.2, (reply,), reply)
    issues = read_verdict(f"ACHIEVED 0.7\n{reply}")
    assert (issues.achieved, issues.confidence, issues.issues) == (True, 0.7, (reply,))


def test_only_more_than_half_is_confident() -> None:
    assert not read_verdict("ACHIEVED 0.5").is_confident_success
    assert read_verdict("ACHIEVED 0.51").is_confident_success
    assert read_verdict("ACHIEVED 0.9\n\n - late \n").issues == ("- late",)


async def search_again(query: str) -> str:
    """Search."""
    return query


@pytest.mark.parametrize("planned", [False, True])
def test_two_tools_of_one_name_are_refused(planned: bool) -> None:
    tools = [search, tool(name="search", effect="none")(search_again)]
    with pytest.raises(ConfigurationError, match="search"):
        if planned:
            plan_execute(ScriptedModel("x"), tools=tools)
        else:
            htn_flow(Planner([]), Primitive("search"), tools=tools)
