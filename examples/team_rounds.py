"""Members that answer at the same time: a vote, a debate, a swarm; and a team in which each of these is a member."""

import asyncio

from ziggurat import Agent
from ziggurat.teams import TeamResult, debate, majority, parallel, swarm
from ziggurat.testing import ScriptedModel


def agent(name: str, answer: str, score: str = "0.5") -> Agent:
    """Return an agent that always gives the same answer, and the same score in debates."""
    return Agent(ScriptedModel(rules=[("How convincing", score)], always=answer), name=name)


jury = majority(agent("ann", "red"), agent("ben", "blue"), agent("cem", "blue"), name="jury")
dispute = debate(
    agent("ann", "Tea: it keeps.", "0.6"),
    agent("ben", "Coffee: it wakes.", "0.3"),
    moderator=agent("judge", "Coffee it is."),
    name="dispute",
)
survey = swarm(
    agent("ann", "4,000 m"), agent("ben", "by train"), leader=agent("editor", "4,000 m, by train"), name="survey"
)
report = parallel(agent("leader", "Blue, coffee, and 4,000 m by train."), jury, dispute, survey, store="memory:")


async def main() -> None:
    """Run the jury and the debate alone, and then the team of all."""
    print("jury:", TeamResult.of(await jury.run("Which colour?")).answers)
    result = TeamResult.of(await dispute.run("Tea or coffee?"))
    if result.winner is not None:
        print("winner of the debate:", result.winner, result.scores[result.winner])
    run = await report.run("Find the height and look up the way", run_id="r-1")
    print(run.text, f"({run.model_calls} model calls)")
    for name, answer in TeamResult.of(run).answers.items():
        print(f"- {name}: {answer}")
    again = await report.replay("r-1")
    print("replayed:", again.messages == run.messages)


asyncio.run(main())
