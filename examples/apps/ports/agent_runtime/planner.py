"""A planner has two methods for one task, and chooses the one that fits the world."""

from ziggurat.plans import Compound, Method, Planner, Primitive

SEARCH = Primitive("web_search", {"query": "{company}"})
PAGES = [
    SEARCH,
    Primitive("read_page", {"url": "{web_search}"}),
    Primitive("summarise", {"text": "{read_page}"}),
]
FILINGS = [
    SEARCH,
    Primitive("read_filings", {"ticker": "{ticker}"}),
    Primitive("summarise", {"text": "{read_filings}"}),
]


def main() -> None:
    methods = [
        Method("research", PAGES, description="any company"),
        Method("research", FILINGS, {"company_type": "public"}, "a company on the stock exchange"),
    ]
    planner = Planner(methods, max_depth=16, max_steps=256)
    plan = planner.plan(Compound("research"), {"company_type": "public"})
    print(f"{len(plan)} steps")
    for step in plan.steps:
        print(f"{step.depth}. {step.tool} {step.arguments}")


if __name__ == "__main__":
    main()
