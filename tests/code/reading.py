"""A process that reads a context, and that may be killed at one of its queries."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ziggurat import Message, ModelRequest, ModelResponse, Text
from ziggurat.agents import Runnable
from ziggurat.code import recursive_agent
from ziggurat.messages import tool_call

ASKED = ["a1", "a2", "b1", "b2", "c1", "c2", "c3"]
PROGRAMS = [
    "found = [llm_query(x) for x in ['a1', 'a2']]",
    "found += llm_query_batched(['b1', 'b2'])\nprint(len(found))",
    "for x in context.split():\n    found.append(llm_query(x))\nsubmit(found)",
]


def reader(store: str, log: Path, dies_at: int = 0) -> Runnable[Any]:
    """Make the agent as each process makes it; it dies at the query of a number."""

    async def model(request: ModelRequest, ctx: Any) -> ModelResponse:
        count = sum(len(message.tool_results) for message in request.messages)
        return ModelResponse(Message("assistant", (tool_call("run_code", code=PROGRAMS[count]),)))

    async def answer(request: ModelRequest, ctx: Any) -> ModelResponse:
        text = request.messages[-1].text
        with log.open("a") as file:
            file.write(f"{text}\n")
        if dies_at and text == ASKED[dies_at - 1]:
            os.kill(os.getpid(), signal.SIGKILL)
        return ModelResponse(Message("assistant", (Text(f"<{text}>"),)))

    return recursive_agent(model, "c1 c2 c3", sub_model=answer, store=store)


if __name__ == "__main__":
    asyncio.run(reader(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])).run("Go", run_id="r"))
