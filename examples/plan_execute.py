"""Plan, execute, verify: a model plans steps, tools do them, and what is missing is planned again."""

import asyncio

from ziggurat import tool
from ziggurat.plans import plan_execute
from ziggurat.testing import ScriptedModel


@tool
async def search(query: str) -> str:
    """Search the web."""
    return f"pages about {query}"


model = ScriptedModel(
    '1. Search | tool:search | arguments:{"query": "vector databases"} | expected:pages',
    "NOT_ACHIEVED 0.4\nthe pages are not compared",
    '1. Search again | tool:search | arguments:{"query": "comparisons"} | expected:pages\n2. Compare them: {step_1}',
    "one is faster, the other is smaller",
    "ACHIEVED 0.9",
)


async def main() -> None:
    run = await plan_execute(model, tools=[search], max_plans=3).run("Compare vector databases")
    for steps in (*run.output.earlier, run.output.steps):
        for step in steps:
            print(f"{step.status}: {step.description}: {step.output}")
    verdict = run.output.verification
    print(f"achieved: {verdict.achieved} ({verdict.confidence:.0%})")


if __name__ == "__main__":
    asyncio.run(main())
