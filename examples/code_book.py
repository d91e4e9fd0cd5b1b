"""A recursive language model: programs read a book that no window holds, and ask another model about parts of it."""

import asyncio
import random
from collections.abc import Sequence

from ziggurat import Message
from ziggurat.code import recursive_agent
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel

STEPS = [
    "print(len(book), 'characters;', book.count('CHAPTER'), 'chapters')\nprint(book[:60])",
    "chapters = book.split('CHAPTER ')[1:]\nfound = [c for c in chapters if 'lantern' in c]\nlen(found)",
    """
moods = llm_query_batched([
    'Is the keeper glad or sad here? ' + c[c.index('lantern') - 200:c.index('lantern') + 200] for c in found
])
submit({'chapters': len(found), 'sad': sum(mood == 'sad' for mood in moods)})
""",
]


def a_book(chapters: int) -> str:
    """Return a book; in every ninth chapter the keeper lights his lantern."""
    draw = random.Random(1)  # noqa: S311 - a book, no secret
    pages: list[str] = []
    for number in range(1, chapters + 1):
        words = draw.choices(["the", "sea", "wind", "keeper", "tower", "night", "of", "stone"], k=3_000)
        if number % 9 == 0:
            mood = "sighed" if number % 2 else "laughed"
            words.insert(1_500, f"and the keeper {mood} and lit his lantern")
        pages.append(f"CHAPTER {number}\n{' '.join(words)}")
    return "\n".join(pages)


def write(messages: Sequence[Message]) -> object:
    """Write the next program, as a model would after it has seen the results so far."""
    return tool_call("run_code", code=STEPS[sum(len(message.tool_results) for message in messages)])


def judge(messages: Sequence[Message]) -> str:
    """Answer about a part, as a smaller model would."""
    return "sad" if "sighed" in messages[-1].text else "glad"


async def main() -> None:
    coder, reader = FunctionModel(write, name="coder"), FunctionModel(judge, name="reader")
    agent = recursive_agent(coder, {"book": a_book(100)}, sub_model=reader)
    run = await agent.run("In how many chapters is the lantern lit, and in how many of these is the keeper sad?")
    print(next(result.text for message in run.messages for result in message.tool_results))
    print(f"{run.output}, by {run.model_calls} model calls")


if __name__ == "__main__":
    asyncio.run(main())
