"""A model plans two steps, does them as no tool of that name exists, and judges the result."""

import asyncio

from ziggurat.plans import plan_execute
from ziggurat.testing import ScriptedModel


async def main() -> None:
    model = ScriptedModel(
        "1. Search the news | tool:web_search | expected:articles\n2. Sum them up | tool:none | expected:a summary",
        "Three articles on async Rust.",
        "Async Rust has settled.",
        "ACHIEVED 0.92\nBoth steps are done.",
    )
    run = await plan_execute(model, name="researcher").run("What is new in async Rust?")
    plan, verdict = run.output, run.output.verification
    print(f"{plan.step_count} steps, {plan.completed_count} completed")
    print(f"achieved: {verdict.achieved} ({verdict.confidence:.0%})")


if __name__ == "__main__":
    asyncio.run(main())
