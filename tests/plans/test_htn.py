"""Planning with a hierarchical task network: what is found, why something is not, and how a plan is done."""

import time
import tracemalloc
from typing import Any

import pytest

from tests.plans.htn_domains import MAX_DEPTH, MAX_STEPS, Domain, Everything, endless
from tests.samples import LONG, amount, sample
from ziggurat import ConfigurationError
from ziggurat.errors import JournalMismatch, LimitExceeded
from ziggurat.messages import stops
from ziggurat.plans import (
    Compound,
    DepthExceeded,
    Method,
    NoMethodFound,
    NoPlan,
    NoPreconditionSatisfied,
    Planner,
    Primitive,
    SearchLimitExceeded,
    StepLimitExceeded,
    htn_flow,
)
from ziggurat.plans.htn import HtnStep, HtnTask, Refusal
from ziggurat.stores import InMemoryStore

PRIVATE = Method(
    "ResearchCompany",
    [
        Primitive("web_search", {"query": "{company}"}),
        Primitive("scrape_page", {"url": "{web_search}"}),
        Primitive("summarise", {"text": "{scrape_page}"}),
    ],
    description="any company",
)
PUBLIC = Method(
    "ResearchCompany",
    [
        Primitive("web_search", {"query": "{company}"}),
        Primitive("fetch_sec_filings", {"ticker": "{ticker}"}),
        Primitive("summarise", {"text": "{fetch_sec_filings}"}),
    ],
    preconditions={"company_type": "public"},
    description="a company on the stock exchange",
)
RESEARCH = Planner([PRIVATE, PUBLIC])


def steps(planner: Planner, goal: HtnTask, world: dict[str, Any] | None = None) -> list[str]:
    return [step.tool for step in planner.plan(goal, world).steps]


def test_the_method_for_public_companies_is_chosen_for_a_public_company() -> None:
    """Although the one without conditions is listed first."""
    goal = Compound("ResearchCompany")
    assert steps(RESEARCH, goal, {"company_type": "public"}) == ["web_search", "fetch_sec_filings", "summarise"]
    assert steps(RESEARCH, goal, {"company_type": "private"}) == ["web_search", "scrape_page", "summarise"]
    plan = RESEARCH.plan(goal)
    assert len(plan) == 3
    assert plan.steps[0] == HtnStep("web_search", {"query": "{company}"}, 1, "ResearchCompany")
    assert plan.refused == (
        Refusal("ResearchCompany", PUBLIC.description, "company_type is not 'public': it has no value"),
    )


def test_a_precondition_may_be_a_function_of_the_world_and_its_name_explains_a_refusal() -> None:
    rich = {"the budget allows it": lambda world: world.get("budget", 0) >= 100}
    planner = Planner([Method("Travel", [Primitive("fly")], rich), Method("Travel", [Primitive("walk")])])
    goal = Compound("Travel")
    assert steps(planner, goal, {"budget": 100}) == ["fly"]
    plan = planner.plan(goal, {"budget": 99})
    assert [each.tool for each in plan.steps] == ["walk"]
    assert plan.refused == (Refusal("Travel", "fly", "the budget allows it does not hold"),)
    with pytest.raises(NoPreconditionSatisfied, match="the budget allows it"):
        Planner([]).plan(Primitive("fly", preconditions=rich))
    with pytest.raises(ConfigurationError, match="'odd'"):
        Planner([]).plan(Primitive("fly", preconditions={"odd": lambda world: "yes"}))


async def test_a_flow_whose_planner_has_functions_is_compared_with_its_record() -> None:
    async def fly() -> str:
        """Fly."""
        return "flown"

    def travel(name: str) -> Any:
        planner = Planner([Method("Travel", [Primitive("fly")], {name: lambda world: world["budget"] > 1})])
        return htn_flow(planner, Compound("Travel"), tools=[fly], store=store)

    store = InMemoryStore()
    assert (await travel("rich").run({"budget": 2}, run_id="one")).output.output == "flown"
    assert (await travel("rich").replay("one", strict=True)).output.output == "flown"
    with pytest.raises(JournalMismatch):
        await travel("other").replay("one", strict=True)


async def test_the_plan_is_done_with_the_tools() -> None:
    async def web_search(query: str) -> str:
        """Search."""
        return f"pages on {query}"

    async def fetch_sec_filings(ticker: str) -> str:
        """Fetch."""
        return f"filings of {ticker}"

    async def scrape_page(url: str) -> str:
        """Scrape."""
        return url

    async def summarise(text: str) -> str:
        """Summarise."""
        return f"summary of {text}"

    store = InMemoryStore()
    tools = [web_search, fetch_sec_filings, scrape_page, summarise]
    plan = htn_flow(RESEARCH, Compound("ResearchCompany"), tools=tools, store=store)
    run = await plan.run({"company": "Acme", "company_type": "public", "ticker": "ACM"}, run_id="one")
    assert run.text == "summary of filings of ACM"
    assert [each.node for each in run.output.nodes] == ["web_search", "fetch_sec_filings", "summarise"]
    assert (await plan.replay("one")).text == run.text
    assert (await plan.run({"company": "Acme"})).text == "summary of pages on Acme"
    with pytest.raises(ConfigurationError, match="no tool 'summarise'"):
        htn_flow(RESEARCH, Compound("ResearchCompany"), tools=tools[:3])


def test_a_bare_primitive_is_its_own_source() -> None:
    assert Planner([]).plan(Primitive("look")).steps == (HtnStep("look", {}, 0, "look"),)


def test_it_agrees_with_a_planner_that_tries_everything() -> None:
    outcomes = {True: 0, False: 0}
    went_back = 0
    for seed in range(amount(300, 1000)):
        domain = Domain(seed)
        everything = Everything(domain)
        planner = Planner(domain.methods, max_depth=MAX_DEPTH, max_steps=MAX_STEPS, max_tasks=200_000)
        exists = everything.has_plan()
        outcomes[exists] += 1
        if not exists:
            with pytest.raises(NoPlan) as raised:
                planner.plan(domain.goal, domain.world)
            assert not isinstance(raised.value, SearchLimitExceeded)
            continue
        plan = planner.plan(domain.goal, domain.world)
        assert everything.is_plan(plan.steps), seed
        assert plan.world == domain.world_after(step.tool for step in plan.steps)
        assert planner.plan(domain.goal, dict(reversed(domain.world.items()))) == plan
        went_back += any(not refusal.reason.startswith(("a is", "b is", "c is")) for refusal in plan.refused)
    assert min(outcomes.values()) > amount(40, 150)
    assert went_back > amount(5, 20)


def failure(*methods: Method, world: dict[str, Any] | None = None, **limits: int) -> NoPlan:
    with pytest.raises(NoPlan) as raised:
        Planner(methods, **limits).plan(Compound("goal"), world)
    return raised.value


def test_each_failure_has_an_error_of_its_own() -> None:
    error = failure(Method("other", []))
    assert isinstance(error, NoMethodFound)
    assert error.task == "goal"
    assert "other" in str(error)
    error = failure(Method("goal", [], {"a": 1}, "the first"), Method("goal", [], {"b": 1, "c": 2}), world={"b": True})
    assert isinstance(error, NoPreconditionSatisfied)
    assert error.refused == (
        Refusal("goal", "nothing to do", "b is True, not 1"),
        Refusal("goal", "the first", "a is not 1: it has no value"),
    )
    error = failure(Method("goal", [Compound("goal")]))
    assert isinstance(error, DepthExceeded)
    assert (error.limit, error.task) == (16, "goal")
    error = failure(Method("goal", [Primitive("p")] * 257))
    assert isinstance(error, StepLimitExceeded)
    assert (error.limit, error.kind) == (256, "steps")


def test_the_limits_are_allowed_and_one_more_is_not() -> None:
    assert len(Planner([Method("goal", [Primitive("p")] * 256)]).plan(Compound("goal"))) == 256
    chain = [Method(f"t{each}", [Compound(f"t{each + 1}")]) for each in range(15)]
    assert steps(Planner([*chain, Method("t15", [Primitive("p")])]), Compound("t0")) == ["p"]  # at depth 16
    with pytest.raises(DepthExceeded, match="16"):
        Planner([*chain, Method("t15", [Compound("t16")]), Method("t16", [Primitive("p")])]).plan(Compound("t0"))


def test_it_goes_back_to_the_last_choice_and_says_why() -> None:
    opens = Primitive("open", effects={"door": "open"})
    planner = Planner(
        [
            Method("goal", [opens, Compound("enter")], {"key": True}, "with the key"),
            Method("goal", [Primitive("climb")], description="through the window"),
            Method("enter", [Primitive("walk", preconditions={"light": "on"})], {"door": "open"}),
        ]
    )
    plan = planner.plan(Compound("goal"), {"key": True})
    assert [each.tool for each in plan.steps] == ["climb"]
    reason = "walk cannot be done: light is not 'on': it has no value"
    assert plan.refused == (Refusal("enter", "walk", reason), Refusal("goal", "with the key", reason))
    lit = planner.plan(Compound("goal"), {"key": True, "light": "on"})
    assert [each.tool for each in lit.steps] == ["open", "walk"]
    assert lit.world == {"key": True, "light": "on", "door": "open"}


BLOW_UPS = {
    "wide": [Method("goal", [Compound("goal")] * 3) for _ in range(3)],
    "deep": [
        Method("goal", [Primitive("p"), Compound("goal"), Compound("goal")], description=str(n)) for n in range(2)
    ],
    "empty": [Method("goal", [Compound("e")] * 200 + [Compound("no")]), *[Method("e", []) for _ in range(5)]],
    "steps": [Method("goal", [Primitive("p")] * 100 + [Compound("goal")]) for _ in range(4)],
    "facts": [
        Method("goal", [Primitive("p", effects={str(n): n}) for n in range(50)] + [Compound("goal")] * 2)
        for _ in range(9)
    ],
    "subtasks": [Method("goal", [Compound("goal")] * 5_000) for _ in range(9)],
    "methods": [Method("goal", [Compound("goal")], description=f"{n}") for n in range(5_000)],
    "tests": [Method("goal", [Compound("goal")], {str(name): name for name in range(2_000)}) for _ in range(9)],
    "no use": [
        *[Method("goal", [Compound("goal")], {f"no {name}": 1}, "x" * 100) for name in range(5_000)],
        *[Method("goal", [Compound("goal")]) for _ in range(3)],
    ],
    "world": [Method("goal", [Primitive("p", effects={"a": n}), Compound("goal")]) for n in range(9)],
}


@pytest.mark.parametrize("name", sample([*BLOW_UPS, *range(8)], 5))
def test_a_search_that_blows_up_ends_at_its_limits(name: str | int) -> None:
    planner = Planner(BLOW_UPS[name] if isinstance(name, str) else endless(name))
    world = {str(name): name for name in range(50_000)}
    began = time.process_time()
    with pytest.raises(LimitExceeded) as raised:
        planner.plan(Compound("goal"), world)
    assert time.process_time() - began < 1
    if LONG:  # it takes ten times as long
        tracemalloc.start()
        with pytest.raises(LimitExceeded):
            planner.plan(Compound("goal"), world)
        assert tracemalloc.get_traced_memory()[1] < 64_000_000
        tracemalloc.stop()
    assert isinstance(raised.value, NoPlan)
    assert len(raised.value.refused) <= 200
    assert len(str(raised.value)) < 10_000


async def test_a_goal_without_a_plan_ends_the_run() -> None:
    run = await htn_flow(Planner([]), Compound("goal")).run({})
    assert isinstance(run.stop, stops.Failed)
    assert run.stop.kind == "NoMethodFound"
    deep = await htn_flow(Planner([Method("goal", [Compound("goal")])]), Compound("goal")).run({})
    assert deep.stop == stops.BudgetExceeded("depth", 16, 17)


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
