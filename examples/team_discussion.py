"""Two researchers with different sources discuss a question in rounds; a leader writes what they have agreed on."""

import asyncio

from ziggurat import Agent, tool
from ziggurat.messages import tool_call
from ziggurat.teams import TeamResult, mesh
from ziggurat.testing import ScriptedModel

POSTS = {"forum": "Build small things.", "news": "Read code, then build."}


@tool
def search_forum(topic: str) -> str:
    """Search the posts of a forum."""
    return POSTS["forum"]


@tool
def search_news(topic: str) -> str:
    """Search a news site."""
    return POSTS["news"]


forum = Agent(
    ScriptedModel(tool_call("search_forum", topic="learning"), "Build things.", "Read code, and build things."),
    name="forum",
    instructions="You research what a forum says.",
    tools=[search_forum],
)
news = Agent(
    ScriptedModel(tool_call("search_news", topic="learning"), "Read code.", "Read code, and build things."),
    name="news",
    instructions="You research what a news site says.",
    tools=[search_news],
)
leader = Agent(
    ScriptedModel("Both say: read code, and build things."),
    name="leader",
    instructions="You lead the discussion, and write down what the team has agreed on.",
)
team = mesh(forum, news, leader=leader, rounds=2, name="discussion")


async def main() -> None:
    """Discuss, and print who has said what."""
    run = await team.run("What is the best way to learn to code?")
    for message in run.messages[run.start :]:
        if message.role == "assistant" and message.text:
            print(f"{message.name}: {message.text}")
    answers = TeamResult.of(run).answers
    print("agreed:", answers["forum"] == answers["news"])


asyncio.run(main())
