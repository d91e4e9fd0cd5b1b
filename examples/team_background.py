"""Members in the background: an editor starts two, writes meanwhile, and joins them; a restart loses none of them."""

import asyncio

from ziggurat import Agent, Approve, tool
from ziggurat.messages import tool_call
from ziggurat.teams import background
from ziggurat.testing import ScriptedModel


@tool(approval=True)
def buy(picture: str) -> str:
    """Buy the rights to a picture."""
    return f"bought {picture}"


def editor() -> Agent:
    """Return the leader, which starts both members in its first step."""
    replies = (
        [
            tool_call("start_researcher", task="How high was it?"),
            tool_call("start_illustrator", task="Find one."),
        ],
        tool_call("poll_members"),
        tool_call("join_members"),
        "It was 30 m high; see the picture.",
    )
    return Agent(ScriptedModel(*replies, per_run=True), name="editor")


researcher = Agent(ScriptedModel("30 m.", per_run=True), name="researcher")
illustrator = Agent(
    ScriptedModel(tool_call("buy", picture="ziggurat.jpg"), "ziggurat.jpg is ours.", per_run=True),
    name="illustrator",
    tools=[buy],
)
team = background(editor(), researcher, illustrator, store="memory:")


async def main() -> None:
    """Run until a member waits for a person, whom the leader has joined; then decide, as another process could."""
    run = await team.run("Write about the ziggurat of Ur.", run_id="article")
    for item in run.pending:
        print("waits:", item.path, item.call.name)
    run = await team.resume("article", {item.id: Approve() for item in run.pending})
    for message in run.messages:
        for result in message.tool_results:
            print(f"{result.name}: {result.text}")
    print(run.text)


asyncio.run(main())
