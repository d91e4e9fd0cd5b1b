"""A model asks a person, and the run waits for the answer (LangGraph: how-tos/human_in_the_loop/wait-user-input)."""

import asyncio

from ziggurat import Agent, Modify, tool
from ziggurat.messages import Model


@tool
def search(query: str) -> str:
    """Search the web."""
    return f"{query}: it is sunny in San Francisco."


@tool(approval=True)
def ask_human(question: str, answer: str = "") -> str:
    """Ask the human a question.

    Args:
        question: What to ask.
        answer: Filled in by the human; leave it empty.
    """
    return answer


async def main(model: str | Model, store: str = "memory:") -> None:
    agent = Agent(model, tools=[search, ask_human], store=store)
    run = await agent.run("Ask the user where they are, then look up the weather there")
    for item in run.pending:
        print(item.call.name, item.shown)
        answered = {**item.call.parsed(), "answer": "san francisco"}
        run = await agent.resume(run.id, {item.id: Modify(answered)})
    print(run.output)


if __name__ == "__main__":
    asyncio.run(main("openai:gpt-5-mini"))
