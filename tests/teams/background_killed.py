"""A team with members in the background, in a process that is killed while two of them work."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.hard_cases.killed import Deeds
from tests.teams.models import Answering, after_tools
from ziggurat import Agent, ModelRequest, Runnable, tool
from ziggurat.messages.parts import ToolCall, tool_call
from ziggurat.teams.delegating import background


def lead(request: ModelRequest) -> str | list[ToolCall]:
    """Start two members, look at them, and wait for both."""
    results = [result for message in request.messages for result in message.tool_results]
    if not results:
        return [tool_call("start_payer", task="pay"), tool_call("start_writer", task="write")]
    if len(results) < 4:
        return [tool_call("poll_members")] if len(results) == 2 else [tool_call("join_members")]
    return results[-1].text


def team_of(url: str, deeds: Path, *, dies: bool) -> Runnable:
    """Return the team as one process makes it; the process dies when both members have done something."""
    done, paid = Deeds(deeds), asyncio.Event()

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        done.append("paid")
        paid.set()
        return "paid"

    @tool(effect="repeatable")
    async def write() -> str:
        """Write, when it is paid, and not in the process that dies."""
        if dies:
            await paid.wait()
            os.kill(os.getpid(), signal.SIGKILL)
        done.append("written")
        return "written"

    @tool(effect="repeatable")
    async def check() -> str:
        """Check, which never ends in the process that dies."""
        if dies:
            await asyncio.Event().wait()
        return "checked"

    payer = Agent(
        Answering(lambda request: _in_turn(request, "pay", "check", "paid for")), name="payer", tools=[pay, check]
    )
    writer = Agent(Answering(after_tools("all written", tool_call("write"))), name="writer", tools=[write])
    return background(Agent(Answering(lead), name="leader"), payer, writer, store=url)


def _in_turn(request: ModelRequest, *replies: str) -> str | ToolCall:
    turn = sum(message.role == "tool" for message in request.messages)
    return replies[-1] if turn == len(replies) - 1 else tool_call(replies[turn])


if __name__ == "__main__":
    asyncio.run(team_of(sys.argv[1], Path(sys.argv[2]), dies=True).run("go", run_id="r"))
