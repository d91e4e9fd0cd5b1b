"""An agent whose calls need approval, at two depths; as a program, each phase of a run is a separate process.

``python -m tests.agents.clerk URL LEDGER run|resume [JSON list of decisions]`` prints the outcome as JSON.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.hard_cases.support import ByTurn, results
from ziggurat import Agent, AgentRun, Approve, Deny, Modify, ZigguratError, tool
from ziggurat.agents import Decision
from ziggurat.messages import tool_call
from ziggurat.messages.stops import status_of
from ziggurat.stores import connect


def clerk(store: Any, ledger: Path, **settings: Any) -> Agent:
    """Return an agent that looks something up, pays Ada, and lets another agent pay Ben, all in one step."""

    def note(text: str) -> None:
        with ledger.open("a") as file:
            file.write(text + "\n")

    @tool
    def look_up(name: str) -> str:
        note(f"looked {name} up")
        return f"{name} is known"

    @tool(effect="once", approval=True)
    def pay(to: str, amount: int = 5) -> str:
        note(f"paid {amount} to {to}")
        return f"paid {amount} to {to}"

    helper = Agent(ByTurn(tool_call("pay", to="ben"), said_last), tools=[pay], name="helper", description="Pays.")
    calls = (tool_call("look_up", name="ada"), tool_call("pay", to="ada"), tool_call("helper", input="Pay Ben"))
    tools = [look_up, pay, helper]
    return Agent(ByTurn(calls, said_last), tools=tools, store=store, name="clerk", **settings)  # type: ignore[arg-type]


def said_last(request: Any) -> str:
    """Answer with the results of the step before."""
    return "; ".join(result.text for message in request.messages for result in message.tool_results)


def waiting(run: AgentRun) -> dict[str, str]:
    """Return the ids of pending payments, by payee."""
    return {json.loads(item.call.arguments)["to"]: item.id for item in run.pending}


_DECISIONS: dict[str, Decision] = {
    "approve": Approve(),
    "deny": Deny("not now"),
    "modify": Modify('{"to":"ada","amount":1}'),
}


async def main(url: str, ledger: str, phase: str, given: str = "[]") -> list[dict[str, object]]:
    """Run one phase and return its outcome; for a resume, the outcome of each try."""
    store = connect(url)
    agent = clerk(store, Path(ledger))
    told: list[dict[str, object]] = []
    try:
        for decisions in json.loads(given) if phase == "resume" else [{}]:
            try:
                run = await (
                    agent.resume("r", {key: _DECISIONS[what] for key, what in decisions.items()})
                    if phase == "resume"
                    else agent.run("Pay them", run_id="r", session="desk")
                )
            except ZigguratError as error:
                told.append({"error": f"{type(error).__name__}: {error}"})
                continue
            texts = [each.text for each in results(run)]
            told.append({"stop": status_of(run.stop), "waiting": waiting(run), "results": texts})
    finally:
        await store.close()
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
