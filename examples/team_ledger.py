"""A manager with ledgers: it plans, asks a researcher and a coder in turn, plans again at a stall, and answers."""

import asyncio

from ziggurat import Agent, tool
from ziggurat.events import AgentEnded
from ziggurat.messages import tool_call
from ziggurat.teams import ledger_team
from ziggurat.testing import ScriptedModel


@tool
def calculate(kilowatts: float, hours: float) -> float:
    """Return the energy in kilowatt hours."""
    return kilowatts * hours


def ledger(member: str, instruction: str, *, progress: bool = True) -> str:
    """Return what the manager's model writes down about one turn."""
    done = f'"done": false, "progress": {str(progress).lower()}'
    return f'{{{done}, "next": "{member}", "instruction": "{instruction}"}}'


manager = Agent(
    ScriptedModel(
        "Known: the model. Unknown: its power. The researcher finds it, the coder calculates.",
        ledger("researcher", "Find the power of the machine."),
        ledger("researcher", "Find another source.", progress=False),
        "The source was wrong; the researcher asks the maker instead.",
        ledger("researcher", "Ask the maker."),
        ledger("coder", "Calculate the energy of 24 hours."),
        '{"done": true}',
        "Training for 24 hours takes 7.2 kWh.",
    ),
    name="manager",
)
researcher = Agent(ScriptedModel("Nothing found.", "0.3 kW."), name="researcher", description="Finds information.")
coder = Agent(
    ScriptedModel(tool_call("calculate", kilowatts=0.3, hours=24), "7.2 kWh."),
    name="coder",
    description="Calculates with code.",
    tools=[calculate],
)
team = ledger_team(manager, researcher, coder, turns=10, max_stalls=0, max_plans=2)


def print_turn(event: object) -> None:
    """Print what a member has answered."""
    if isinstance(event, AgentEnded) and event.run.agent in ("researcher", "coder"):
        print(f"- {event.run.agent}: {event.run.text}")


run = asyncio.run(team.run("How much energy does the training take?", listeners=[print_turn]))
print(f"{run.text} ({run.model_calls} model calls)")
