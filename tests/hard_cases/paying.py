"""A process that is killed in the middle of a payment; its model asks for the payment until it is made."""

import os
import signal
import sys
from pathlib import Path

from tests.hard_cases.support import ByTurn, Said, results_in
from ziggurat import Agent, ModelRequest, tool
from ziggurat.messages import tool_call
from ziggurat.messages.model import Interrupted
from ziggurat.stores import connect


def _reply(request: ModelRequest) -> Said:
    paid = any(result.text.startswith("paid") for result in results_in(request))
    return "It is paid." if paid else tool_call("pay", to="Ada")


def payer(url: str, interrupted: Interrupted | None, deeds: Path, *, dies: bool = False) -> Agent:
    """Make the agent as each process makes it."""

    @tool(effect="once", interrupted=interrupted)
    def pay(to: str) -> str:
        """Pay."""
        with deeds.open("a") as file:
            file.write(f"paid {to}\n")
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {to}"

    return Agent(ByTurn(*[_reply] * 4), name="payer", tools=[pay], store=connect(url))


if __name__ == "__main__":
    policy = None if sys.argv[2] == "default" else sys.argv[2]
    payer(sys.argv[1], policy, Path(sys.argv[3]), dies=True).run_sync("Pay Ada.", run_id="r")  # type: ignore[arg-type]
