"""Approval: a run waits for a person, and continues in what could be another process."""

import asyncio
from collections.abc import Sequence

from ziggurat import Agent, Approve, Deny, Message, tool
from ziggurat.agents import Decision
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.stores import InMemoryStore


@tool
def find_files() -> list[str]:
    """List the files."""
    print("(looked)")
    return ["notes.txt", "junk.tmp"]


@tool(approval=True, effect="once")
def delete_file(path: str) -> str:
    """Delete a file."""
    print(f"(deleted {path})")
    return f"deleted {path}"


def reply(messages: Sequence[Message]) -> object:
    """Reply by turn: list the files, delete both, report the results."""
    results = [message.tool_results[0].text for message in messages if message.role == "tool"]
    if not results:
        return tool_call("find_files")
    if len(results) == 1:
        return [tool_call("delete_file", id=path, path=path) for path in ("notes.txt", "junk.tmp")]
    return "; ".join(results[1:])


def agent(store: InMemoryStore) -> Agent:
    return Agent(FunctionModel(reply, name="cleaner"), tools=[find_files, delete_file], store=store)


async def main() -> None:
    store = InMemoryStore()
    run = await agent(store).run("Clean up", run_id="clean-1")
    print(type(run.stop).__name__)

    elsewhere = InMemoryStore(shared=store)  # JSON lines, as another process would read them
    decisions: dict[str, Decision] = {}
    for item in run.pending:
        decisions[item.id] = Approve() if item.call.arguments.endswith('.tmp"}') else Deny("it is needed")
    run = await agent(elsewhere).resume("clean-1", decisions)
    print(run.text)


if __name__ == "__main__":
    asyncio.run(main())
